"""The checker: planted faults are found and named, and the ladder has none."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from faulty import PLANTED, TENSOR_MAPS, faulty, marks
from tilewright.bench.verify import Operands, limit
from tilewright.engines.emulator.check import check
from tilewright.engines.emulator.symbols import SourceLine
from tilewright.kernels import LADDER, find, spec
from tilewright.problem import Arithmetic, Problem, Scalars


def run(kernel, shape):
    operands = Operands.draw(Problem(*shape))
    return check(kernel, kernel.config(), operands.problem, operands.a, operands.b, operands.c)


LINED = sorted(path.stem for path in PLANTED.glob("*.cu") if path.stem not in ("right", "unordered_sum"))


@pytest.mark.parametrize("name", LINED)
def test_a_planted_fault_is_named_with_its_lines(name):
    marked = marks(name)
    (kind,) = marked.keys() - {"other"}
    findings = run(faulty(name), (24, 40, 36) if name in TENSOR_MAPS else (24, 39, 35)).findings
    lines = {SourceLine(f"{name}.cu", number) for number in marked.values()}
    assert (kind, lines) in [(finding.kind, set(finding.lines) - {None}) for finding in findings]
    if name != "wrong_phase":  # whose phases get out of step then
        assert {line for finding in findings for line in finding.lines} <= lines | {None}, "an innocent line is blamed"


def test_threads_and_memory_are_named():
    (finding,) = run(faulty("past_the_last_row"), (24, 39, 35)).findings
    assert str(finding) == (
        "thread (128, 0, 0) of block (3, 0, 0) writes C[24, 0], outside of its 24 x 39 elements "
        "at past_the_last_row.cu:21"
    )
    assert finding.count == 39
    (finding,) = run(faulty("before_the_ticket"), (24, 39, 35)).findings
    assert re.fullmatch(
        r"thread \((\d+), 0, 0\) of block \(3, 0, 0\) reads workspace\[\1\] at before_the_ticket.cu:23; "
        r"thread \(\1, 0, 0\) of block \(0, 0, 0\) wrote it at before_the_ticket.cu:14, and nothing orders the two",
        str(finding),
    )


def test_what_an_early_access_misses_is_told():
    (finding,) = run(faulty("one_thread_waits"), (24, 39, 35)).findings
    assert re.fullmatch(
        r"thread \(\d+, 0, 0\) of block \(0, 0, 0\) reads A\[\d+, 0\] at one_thread_waits.cu:16, "
        r"and has not waited for the launch before",
        str(finding),
    )
    assert finding.count > 100


def test_a_sum_in_the_order_in_which_threads_come_depends_on_it():
    findings = run(faulty("unordered_sum"), (24, 39, 200)).findings
    assert {finding.kind for finding in findings} == {"order"}
    assert re.search(r"C\[\d+, \d+\] and \d+ other elements of 936 differ when threads run backwards", str(findings[0]))


def test_a_right_kernel_is_not_blamed():
    assert run(faulty("right"), (24, 39, 35)).findings == []


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(("shape", "beta"), [((256, 256, 256), 0.5), ((67, 45, 37), 0.0)], ids=["aligned", "odd"])
def test_the_ladder_has_no_faults(kernel, shape, beta):
    problem, scalars = Problem(*shape, Arithmetic(kernel.takes.factors[0])), Scalars(1.5, beta)
    operands = Operands.draw(problem, scalars)
    checked = check(kernel, kernel.config(), problem, operands.a, operands.b, operands.c, scalars)
    assert checked.findings == []
    assert operands.error(checked.result) <= limit(problem, kernel.precision)


@pytest.mark.parametrize(
    "overrides",
    [
        {"BM": 64, "BN": 256, "BK": 32, "K_SLICES": 1},
        {"BM": 128, "BK": 48, "K_SLICES": 1, "A_BUFFERS": 1, "UNROLL": 24},
        {"BM": 128, "BK": 40, "K_SLICES": 1, "UNROLL": 20},
        {"BM": 64, "BN": 64, "BK": 128, "K_SLICES": 4, "MIN_BLOCKS": 1},
    ],
    ids=lambda overrides: ",".join(map(str, overrides.values())),
)
def test_tiles_that_take_other_turns_to_transpose_have_no_faults(overrides):
    kernel = find("tma_transposed")
    operands = Operands.draw(Problem(67, 260, 150))
    checked = check(kernel, kernel.config(overrides), operands.problem, operands.a, operands.b, operands.c)
    assert checked.findings == []


ORDERED_BY = {
    "shared_tiled": ("ladder/shared_tiled.cu", {}),
    "async_copy": ("ladder/async_copy.cu", {}),
    "wmma_f16": ("include/wmma_epilogue.cuh", {}),
    "tma_packed": ("include/schedule.cuh", {"BM": 256, "BK": 16, "MIN_BLOCKS": 1, "WORKERS": 3}),
    "tma_transposed": (
        "library/gemm_tma.cu",
        {"BM": 32, "BN": 64, "K_SLICES": 4, "A_BUFFERS": 1, "UNROLL": 16, "WORKERS": 2},
    ),
    "split_k": ("include/slices.cuh", {"K_SLICES": 2}),
}
"""Rungs, with a file of theirs and a config in which all that orders accesses there is needed."""

SOURCES = Path(spec.__file__).parent

ORDERS = re.compile(r"__syncthreads\(\);|sync_block<[^;]*;|__syncwarp\(\);|__threadfence\(\);|wait_copies<[^;]*;")


def lines_that_order(name):
    lines = (SOURCES / ORDERED_BY[name][0]).read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if ORDERS.search(line.partition("//")[0])]


@pytest.mark.parametrize(("name", "number"), [(name, line) for name in ORDERED_BY for line in lines_that_order(name)])
def test_no_barrier_fence_or_wait_can_be_left_out_unnoticed(name, number, tmp_path):
    kernel, (file, overrides) = find(name), ORDERED_BY[name]
    source = SOURCES / file
    lines = source.read_text().splitlines()
    lines[number - 1] = ORDERS.sub(";", lines[number - 1], count=1)
    shutil.copy(kernel.source, tmp_path)
    (tmp_path / source.name).write_text("\n".join(lines))  # in the kernel's own folder it comes before the true header
    faulty_kernel = replace(kernel, source=tmp_path / kernel.source.name)
    operands = Operands.draw(Problem(131, 77, 205, Arithmetic(kernel.takes.factors[0])))
    found = check(
        faulty_kernel, kernel.config(overrides), operands.problem, operands.a, operands.b, operands.c
    ).findings
    assert {finding.kind for finding in found} - {"order"}


@pytest.mark.parametrize("kernel", [kernel for kernel in LADDER if kernel.overlaps], ids=lambda kernel: kernel.name)
def test_no_wait_for_the_launch_before_can_be_left_out_unnoticed(kernel, tmp_path):
    text = kernel.source.read_text()
    assert "wait_for_grid_before();" in text
    (tmp_path / kernel.source.name).write_text(text.replace("wait_for_grid_before();", ";"))
    hasty = replace(kernel, source=tmp_path / kernel.source.name)
    operands = Operands.draw(Problem(67, 45, 37))
    found = check(hasty, kernel.config(), operands.problem, operands.a, operands.b, operands.c).findings
    assert {finding.kind for finding in found} == {"early access"}
