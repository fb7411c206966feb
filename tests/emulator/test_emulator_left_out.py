"""The checker: of all that orders accesses in a kernel nothing can be left out undetected."""

import re
from dataclasses import dataclass, field, replace

import pytest
from test_emulator_check import SM90, file_of, run

from left_out import HEAD, VARIABLE, copied, guarded
from tilewright.core.problem import Problem
from tilewright.kernels import KERNELS, find

ORDERS = re.compile(r"__syncthreads\(\);|sync_block<[^;]*;|__syncwarp\(\);|__threadfence\(\);|wait_copies<[^;]*;")

FLIGHT = re.compile(
    r"(__syncthreads|cluster_sync|cluster_sync_relaxed|fence_async_shared|fence_barrier_init|commit_products)\(\);|fence_sums\(sums\);|"
    r"barrier_(wait|arrive|arrive_at)\([^;]*;|wait_products<[^;]*;"
)

OF_RESULTS = re.compile(
    r"(wait_tiles_read<SLOTS - 1>|wait_tiles_read<0>|commit_tiles|fence_async_shared|(?<=^ {16})__syncwarp)\(\);|"
    r"sync_named<128>[^;]*;"
)

OF_ONE_SLICE = FLIGHT.pattern.replace("barrier_(", r"(?<!K_SLICES != 0\) )barrier_(")
"""But for waits that only several slices of k need."""

CLUSTERED = re.compile(rf"{OF_ONE_SLICE}|Sums::sync\(\);|sync_warps\(&shared->all_synced, 0\);")

ALONE = re.compile(
    r"(__syncthreads|fence_async_shared|fence_barrier_init)\(\);|barrier_(wait|arrive)\([^;]*;|"
    r"sync_warps\(&shared->(all|consumers)_synced, 0\);"
)

ALL_FORMS = (
    r"(?<=^ {4})BLOCKS == 1 \? __syncthreads\(\) : cluster_sync_relaxed\(\);|fence_barrier_init\(\);|"
    r"shared->barriers\.(wait_full|release)\([^;]*;|wait_products<[^;]*;"
)
SM90_ORDERS = {
    "every form": re.compile(ALL_FORMS),
    "held": re.compile(r"(?<=^ {12})(fence_sums|commit_products|wait_products)[^;]*;|__syncwarp\(\);"),
    "held in parts": re.compile(r"(?<=^ {8})(fence_sums|commit_products|wait_products)[^;]*;|__syncwarp\(\);"),
    "clusters": re.compile(rf"{ALL_FORMS}|(?<=warp % 4 == 0\) )shared->barriers\.wait_read\([^;]*;"),
}
"""Statements of gemm_sm90 that order accesses, in each form."""


@dataclass(frozen=True)
class Ordered:
    """A kernel, a file of its source, and a form in which all that orders accesses there is needed."""

    name: str
    file: str
    overrides: dict = field(default_factory=dict)
    shape: tuple = (131, 77, 205)
    orders: re.Pattern = ORDERS
    """Statements that order accesses."""
    result: str | None = None
    """Type of the results, where it is not the usual one."""

    @property
    def source(self):
        """The file."""
        return file_of(find(self.name), self.file)

    @property
    def lines(self):
        """Numbers of its lines that order accesses, and are not there to be sure alone."""
        lines = self.source.read_text().splitlines()
        needed = [line.partition("//")[0] if "// to be sure" not in line else "" for line in lines]
        return [number for number, line in enumerate(needed, 1) if self.orders.search(line)]


SMALL, OF_CLUSTERS = (51, 45, 109), (216, 156, 109)
"""Shapes in which most faults show."""

ORDERED = [
    Ordered("shared_tiled", "shared_tiled.cu", shape=SMALL),
    Ordered("async_copy", "async_copy.cu", shape=SMALL),
    Ordered("split_k", "split_k.cu", {"WORKERS": 1}, (400, 61, 205)),
    Ordered(
        "tma_transposed",
        "gemm_tma.cu",
        {"BM": 32, "BN": 64, "K_SLICES": 4, "A_BUFFERS": 1, "UNROLL": 16, "WORKERS": 2},
        (67, 77, 109),
    ),
    Ordered(
        "tma_transposed",
        "gemm_tma.cu",
        {"BM": 32, "BN": 64, "K_SLICES": 4, "A_BUFFERS": 1, "UNROLL": 16, "WORKERS": 2},
        (190, 61, 205),  # some workers have parts of two tiles
        re.compile(r"(?<=^ {12})fence_async_shared\(\);"),
    ),
    Ordered("gemm_wmma", "gemm_wmma.cu"),
    Ordered("gemm_mma_bf16x3", "gemm_mma.cu", {"BM": 64, "BN": 64, "WM": 32}, SMALL),
    Ordered("gemm_mma", "gemm_mma.cu", {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 2}),
    Ordered("wgmma", "wgmma.cu", {"BM": 64, "BN": 64}, orders=FLIGHT),
    Ordered("specialised", "specialised.cu", {"BN": 64, "STAGES": 2}, (51, 45, 156), FLIGHT),
    Ordered("clusters", "clusters.cu", {"BN": 64, "STAGES": 2}, (92, 78, 157), FLIGHT),
    Ordered("gemm_sm90", "gemm_sm90.cu", SM90["one consumer"], (108, 110, 205), SM90_ORDERS["every form"]),
    Ordered("gemm_sm90", "gemm_sm90.cu", SM90["clusters"], OF_CLUSTERS, SM90_ORDERS["clusters"]),
    Ordered(
        "gemm_sm90",
        "epilogue/stored_tiles.cuh",
        {**SM90["one consumer"], "BN": 128, "TMA_STORE_STAGES": 1},
        (108, 80, 109),
        OF_RESULTS,
        "float16",
    ),
    Ordered(
        "gemm_sm90",
        "epilogue/transposed_tiles.cuh",
        {**SM90["one consumer"], "BN": 128, "TMA_STORE_STAGES": 1, "SWAP_AB": 1},
        (140, 80, 109),
        OF_RESULTS,
        "float16",
    ),
    Ordered("gemm_sm90", "pipeline/cluster_sums.cuh", SM90["splits"], (51, 45, 205), FLIGHT),
    Ordered("gemm_tf32_nn", "pipeline/register_operand.cuh", SM90["one consumer"], (36, 76, 104), SM90_ORDERS["held"]),
    Ordered(
        "gemm_fp8_nn",
        "pipeline/register_operand.cuh",
        {**SM90["one consumer"], "BM": 128, "BN": 64},
        (67, 140, 390),
        SM90_ORDERS["held in parts"],
    ),
    Ordered("small_m_bf16x6", "small_m.cu", {"BM": 8, "BN": 128, "STAGES": 2, "SPLITS": 2}, (9, 66, 156), CLUSTERED),
    Ordered("small_m_bf16x6", "small_m.cu", {"BM": 8, "BN": 64, "K_SLICES": 2, "STAGES": 3}, (9, 66, 156), ALONE),
]
"""Files of which the mutation record (tests/mutation, run by hand) has not all of these lines, and of the others one
with each way to order accesses: barriers, copies, counters, warpgroups, phases, clusters. Of other rungs and headers
the record says that `check` finds each line that is left out."""


HASTY = 100_000
"""The number of the wait for the launch before; of other statements it is that of their line."""
WAIT = "grid_dependency_wait();"


def switchable(ordered):
    """The text of the file in which each line that orders accesses is only executed where it is not left out; so is the
    wait for the launch before."""
    lines = ordered.source.read_text().splitlines()
    for number in ordered.lines:
        lines[number - 1] = ordered.orders.sub(guarded(r"\g<0>", number), lines[number - 1], count=1)
    return "\n".join([f"{HEAD} {lines[0]}", *lines[1:]]).replace(WAIT, guarded(WAIT, HASTY))


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """Kernels with that file, each of which is written once."""
    written = {}

    def change(ordered):
        kernel = find(ordered.name)
        if id(ordered) not in written:
            written[id(ordered)] = folder = tmp_path_factory.mktemp("changed")
            copied(kernel, folder)
            (folder / ordered.file).write_text(switchable(ordered))
        return replace(kernel, source=written[id(ordered)] / kernel.source.name)

    return change


@pytest.mark.first(4)
@pytest.mark.parametrize(
    ("ordered", "number"),
    [pytest.param(one, line, id=f"{one.name}-{one.file}-{line}") for one in ORDERED for line in (0, *one.lines)],
)
def test_no_barrier_fence_or_wait_can_be_left_out_undetected(ordered, number, changed, monkeypatch):
    """With the number 0 none is."""
    monkeypatch.setenv(VARIABLE, str(number))
    kernel = changed(ordered)
    arithmetic = kernel.support.arithmetic()
    problem = Problem(*ordered.shape, replace(arithmetic, result=ordered.result or arithmetic.result))
    checked, _ = run(kernel, problem, ordered.overrides)
    kinds = {finding.kind for finding in checked.findings}
    assert kinds - {"order"} if number else not kinds


OVERLAPPING = {
    (kernel.source, bool(kernel.split)): one
    for one in (*(Ordered(kernel.name, kernel.source.name) for kernel in KERNELS[::-1]), *ORDERED[::-1])
    if (kernel := find(one.name)).overlaps and one.source == kernel.source
}
"""One for each source, with parts and without: where there is one, a form that is compiled above."""


@pytest.mark.first(1)
@pytest.mark.parametrize("ordered", OVERLAPPING.values(), ids=lambda one: one.name)
def test_no_wait_for_the_launch_before_can_be_left_out_undetected(ordered, changed, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(HASTY))
    assert WAIT in ordered.source.read_text()
    kernel = changed(ordered)
    checked, _ = run(kernel, Problem(67, 45, 37, kernel.support.factors[0]), ordered.overrides)
    assert {finding.kind for finding in checked.findings} == {"early access"}
