"""The checker: planted faults are found and named, and the ladder has none."""

import re
from dataclasses import replace

import numpy as np
import pytest

from faulty import PLANTED, STORING, TENSOR_MAPS, faulty, marks
from left_out import copied
from tilewright.core.problem import Arithmetic, Epilogue, Problem, Scalars, orders
from tilewright.emulator.check import check, telling_shapes
from tilewright.emulator.compiler import CHECKED, compile_kernel
from tilewright.emulator.program import Program, load
from tilewright.emulator.symbols import SourceLine
from tilewright.kernels import KERNELS, find
from tilewright.runtime.nvrtc import INCLUDE
from tilewright.tools.bench.case import fitting
from tilewright.tools.bench.verify import Operands, limit


def run(kernel, problem, overrides=None, scalars=Scalars()):
    """Result of a check, and the operands."""
    problem = kernel.support.scaled(problem)
    of = Operands.draw(problem, scalars)
    scales = of.scale_a, of.scale_b
    return check(kernel, kernel.config(overrides), problem, of.a, of.b, of.c, scalars, of.bias, scales), of


def planted(kernel, folder, changes, file=None):
    """A kernel with texts replaced, each of which is once in a file: its source, or one that this includes."""
    file = file or kernel.source
    source = file.read_text()
    for text, instead in changes.items():
        assert source.count(text) == 1
        source = source.replace(text, instead)
    changed = copied(kernel, folder)
    (folder / (file.name if file == kernel.source else file.relative_to(INCLUDE))).write_text(source)
    return changed


def file_of(kernel, name):
    """A kernel's source, or a header that it includes."""
    return kernel.source if kernel.source.name == name else INCLUDE / name


def assert_named(checked, kind, words):
    """That a finding of this kind has these words."""
    found = [str(finding) for finding in checked.findings if finding.kind == kind]
    assert any(re.search(words, one) for one in found), checked.findings


def findings_of(name, shape=(24, 39, 35)):
    """Findings in a planted kernel."""
    return run(faulty(name), Problem(*shape))[0].findings


UNLINED = ("right", "right_cluster", "right_named", "right_store", "unordered_sum")
LINED = sorted(path.stem for path in PLANTED.glob("*.cu") if path.stem not in UNLINED)


@pytest.mark.parametrize("name", LINED)
def test_a_planted_fault_is_named_with_its_lines(name):
    marked = marks(name)
    (kind,) = marked.keys() - {"other"}
    findings = findings_of(name, (24, 40, 36) if name in (*TENSOR_MAPS, *STORING) else (24, 39, 35))
    lines = {SourceLine(f"{name}.cu", number) for number in marked.values()}
    assert (kind, lines) in [(finding.kind, set(finding.lines) - {None}) for finding in findings]
    if name != "wrong_phase":  # whose phases get out of step then
        assert {line for finding in findings for line in finding.lines} <= lines | {None}, "an innocent line is blamed"


def test_threads_and_memory_are_named():
    (finding,) = findings_of("past_the_last_row")
    assert str(finding) == (
        "thread (128, 0, 0) of block (3, 0, 0) writes C[24, 0], outside of its 24 x 39 elements "
        "at past_the_last_row.cu:21"
    )
    assert finding.count == 39
    (finding,) = findings_of("before_the_counter")
    assert re.fullmatch(
        r"thread \((\d+), 0, 0\) of block \(3, 0, 0\) reads workspace\[\1\] at before_the_counter.cu:23; "
        r"thread \(\1, 0, 0\) of block \(0, 0, 0\) wrote it at before_the_counter.cu:14, and nothing orders the two",
        str(finding),
    )


def test_what_an_early_access_misses_is_reported():
    (finding,) = findings_of("one_thread_waits")
    assert re.fullmatch(
        r"thread \(\d+, 0, 0\) of block \(0, 0, 0\) reads A\[\d+, 0\] at one_thread_waits.cu:16, "
        r"and has not waited for the launch before",
        str(finding),
    )
    assert finding.count > 100


def test_registers_that_nobody_gives_are_reported():
    (finding,) = findings_of("take_without_give")
    assert str(finding) == (
        "in block (0, 0, 0) threads wait for others that never come: 256 threads wait at setmaxnreg_inc "
        "(take_without_give.cu:12), where their warpgroup waits for 232 registers a thread: it has 168, and 0 more are "
        "free, 128 threads have returned"
    )
    (finding,) = findings_of("give_of_more")
    assert re.fullmatch(
        r"in block \(0, 0, 0\) thread \(\d+, 0, 0\) calls setmaxnreg_dec \(give_of_more.cu:10\) to have 176 registers "
        r"a thread, and has only 168",
        str(finding),
    )


@pytest.mark.further
def test_a_sum_in_the_order_in_which_threads_come_depends_on_it():
    findings = findings_of("unordered_sum", (24, 39, 200))
    assert {finding.kind for finding in findings} == {"order"}
    assert re.search(r"C\[\d+, \d+\] and \d+ other elements of 936 differ when threads run backwards", str(findings[0]))


def test_a_right_kernel_is_not_blamed():
    assert findings_of("right") == []


def test_results_that_the_copy_engine_stores_are_right():
    """Elements of the last tiles that lie outside of C are not stored: nothing but C is touched."""
    checked, of = run(faulty("right_store"), Problem(24, 44, 36))
    assert checked.findings == []
    np.testing.assert_allclose(checked.result, of.a @ of.b, rtol=1e-4, atol=1e-4)


TMA_STORE_STAGES = {
    "store_without_fence": (
        r"^thread \(0, 0, 0\) of block \((\d), 0, 0\) starts a store of tile(\[\d+\])+ at store_without_fence.cu:\d+"
        r"; thread \(\d+, 0, 0\) of block \(\1, 0, 0\) wrote it at .*, and has not called fence_async_shared "
        r"\(fence.proxy.async\) since$"
    ),
    "late_fence": (
        r"^thread \(0, 0, 0\) of block \((\d), 0, 0\) starts a store of tile(\[\d+\])+ at late_fence.cu:\d+"
        r"; thread \(\d+, 0, 0\) of block \(\1, 0, 0\) wrote it at .*, and no barrier is between its "
        r"fence_async_shared and this$"
    ),
    "store_before_the_barrier": (
        r"^thread \(\d+, 0, 0\) of block \(\d, 0, 0\) writes tile(\[\d+\])+ at .*; "
        r"thread \(0, 0, 0\) of block .* stored it at store_before_the_barrier.cu:\d+, and nothing orders the two$"
    ),
    "reuse_before_it_is_read": (
        r"^thread \(\d+, 0, 0\) of block \(\d, 0, 0\) writes tile(\[\d+\])+ at .*; thread \(0, 0, 0\) of block .* "
        r"started a store of it at reuse_before_it_is_read.cu:\d+, and nobody has waited for it$"
    ),
}


@pytest.mark.parametrize("name", TMA_STORE_STAGES)
def test_stores_by_the_copy_engine_are_reported(name):
    findings = findings_of(name, (24, 40, 36))
    assert any(re.search(TMA_STORE_STAGES[name], str(one)) for one in findings), findings


def test_reads_of_what_the_copy_engine_may_not_have_written_yet_are_named(tmp_path):
    """To have waited until shared memory was read is not enough."""
    kernel = faulty("right_store")
    source = kernel.source.read_text()
    read = "        if (row < M && col < N && y / 8 == half) C[row * ldc + col] += 1;\n"
    end = "        __syncthreads();\n    }\n}"
    assert source.count(end) == 1
    path = tmp_path / kernel.source.name
    path.write_text(source.replace(end, end.replace("    }", read + "    }")))
    checked, _ = run(replace(kernel, source=path), Problem(24, 40, 36))
    found = [one for one in checked.findings if one.kind == "unfinished copy"]
    words = r"reads C\[\d+, \d+\] at right_store.cu:\d+; thread \(0, 0, 0\) of block .* started a copy to it"
    assert any(re.search(words, str(one)) for one in found), checked.findings
    path.write_text(path.read_text().replace("wait_tiles_read<0>", "wait_tiles<0>"))
    checked, of = run(replace(kernel, source=path), Problem(24, 40, 36))
    assert checked.findings == []
    np.testing.assert_allclose(checked.result, of.a @ of.b + 1, rtol=1e-4, atol=1e-4)


CLUSTER_M = (24, 64, 100)
"""A problem of `right_cluster`: an even number of tiles in a row, and more than three steps along k."""


def test_a_right_kernel_of_clusters_is_not_blamed():
    checked, of = run(faulty("right_cluster"), Problem(*CLUSTER_M))
    assert checked.findings == []
    sums = of.a.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(checked.result, np.broadcast_to(sums, checked.result.shape), rtol=1e-4, atol=1e-4)


MADE = "fence_barrier_init();\n    }\n    cluster_sync();"
GIVEN = "cluster_sync();\n    sum = shared->given"
LAST = "    cluster_sync();\n}"
EARLY = "    if (rank == 0) *in_block(&shared->given[x], 1) = 0;\n"
IN_CLUSTERS = {
    "no cluster_sync after barriers are made": (
        {MADE: MADE.replace("cluster_sync", "__syncthreads")},
        "misuse",
        r"thread \(0, 0, 0\) calls load_tile_to \(right_cluster.cu:32\) for a barrier of block \(1, 0, 0\) that is not "
        r"made, or has been overwritten: cluster_sync must follow barrier_init",
    ),
    "cluster_sync before barriers are made": (
        {
            MADE: MADE.replace("cluster_sync", "__syncthreads"),
            "    if (threadIdx.x == 0) {\n        barrier_init": (
                "    cluster_sync();\n    if (threadIdx.x == 0) {\n        barrier_init"
            ),
        },
        "misuse",
        r"calls load_tile_to \(right_cluster.cu:33\) for a barrier that thread \(0, 0, 0\) of block \(1, 0, 0\) made, "
        r"without a cluster_sync between",
    ),
    "no fence after barriers are made": (
        {"fence_barrier_init();": ""},
        "misuse",
        r"for a barrier that the copy engine may not see yet: fence_barrier_init must follow barrier_init",
    ),
    "no cluster_sync at the end": (
        {GIVEN: GIVEN.replace("cluster_sync", "__syncthreads"), LAST: "}"},
        "misuse",
        r"calls (barrier_arrive_at|in_block) \(right_cluster.cu:\d+\) for block \(\d, 0, 0\) of the cluster, which has "
        r"ended: cluster_sync must be the last thing that it does",
    ),
    "an arrival at a block that ends later by luck": (
        {LAST: LAST[:-1] + "    if (rank == 0 && threadIdx.x == 0) barrier_arrive_at(&shared->empty, 1);\n}"},
        "ended block",
        r"thread \(0, 0, 0\) of block \(0, 0, 0\) arrives at byte 2056 of dynamic shared memory of block \(1, 0, 0\) "
        r"at right_cluster.cu:44, and that block may have ended before: it does not wait for this one",
    ),
    "a load for a block that has ended": (
        {LAST: LAST[:-1] + "    if (rank == 1 && x == 0) load_tile_to(1, shared->As, &A, 0, 0, 0, &shared->full);\n}"},
        "misuse",
        r"calls load_tile_to \(right_cluster.cu:44\) for block \(0, 0, 0\) of the cluster, which has ended",
    ),
    "a load that the other block does not wait for": (
        {
            LAST: LAST[:-1]
            + "    if (rank == 0 && threadIdx.x == 0) load_tile_to(2, shared->As, &A, 0, 0, 0, &shared->full);\n}"
        },
        "launch",
        r"in block \(1, 0, 0\) all threads have returned, and nobody has waited for a tile of load_tile_to "
        r"\(right_cluster.cu:44\)",
    ),
    "a refill of what the other block still reads": (
        {"2 * 8);": "8);", "% 32 < 2)": "% 32 == rank)"},
        "race",
        r"thread \(0, 0, 0\) of block \(\d, 0, 0\) starts a copy to byte \d+ of dynamic shared memory of block "
        r"\((\d), 0, 0\) at right_cluster.cu:32; thread \(\d+, 0, 0\) of block \(\1, 0, 0\) read it at "
        r"right_cluster.cu:35, and nothing orders the two",
    ),
    "a mask of blocks beyond the cluster": (
        {"load_tile_to(3,": "load_tile_to(7,"},
        "misuse",
        r"with the mask 0x00000007, which must name blocks of a cluster that has 2",
    ),
    "an arrival at a block beyond the cluster": (
        {"% 32 < 2)": "% 32 < 3)"},
        "misuse",
        r"calls barrier_arrive_at \(right_cluster.cu:37\) for block 2 of a cluster that has 2",
    ),
    "a store by a thread that has returned since": (
        {
            LAST: "    if (rank == 1 && threadIdx.x == 7) { *in_block(&shared->given[0], 0) = 3; return; }\n"
            "    cluster_sync();\n    if (rank == 0 && row < M && x == 1) C[row * ldc + col] += 0 * shared->given[0];\n"
            + LAST
        },
        "race",
        r"thread \(7, 0, 0\) of block \(1, 0, 0\) wrote it at right_cluster.cu:43, and nothing orders the two",
    ),
    "a warp at two places to wait": (
        {LAST: "    if (threadIdx.x % 2 == 0) return cluster_sync();\n" + LAST},
        "misuse",
        r"calls cluster_sync \(right_cluster.cu:4[34]\) while lane \d+ of its warp waits at cluster_sync "
        r"\(right_cluster.cu:4[34]\)",
    ),
    "a lane that comes from a wait of its own": (
        {LAST: "    if (threadIdx.x == 37) barrier_wait(&shared->full, (K + 31) / 32 % 2 ^ 1);\n" + LAST},
        "misuse",
        r"calls cluster_sync \(right_cluster.cu:44\) after other waits at barriers than lane \d+ of its warp, so that "
        r"they may diverge: __syncwarp must be between",
    ),
    "a load of what the other block stores at the same time": (
        {GIVEN: GIVEN.replace("cluster_sync", "__syncthreads")},
        "race",
        r"thread \((\d+), 0, 0\) of block \(\d, 0, 0\) .* it at right_cluster.cu:\d+, and nothing orders the two",
    ),
    "a store to a block that may not have begun": (
        {
            "    if (threadIdx.x == 0) {\n        barrier_init": EARLY
            + "    if (threadIdx.x == 0) {\n        barrier_init"
        },
        "unstarted block",
        r"thread \(0, 0, 0\) of block \(0, 0, 0\) writes byte 2064 of dynamic shared memory of block \(1, 0, 0\) at "
        r"right_cluster.cu:\d+, and that block may not have begun: no cluster_sync was before",
    ),
    "a load from a block that may have ended": (
        {LAST: LAST[:-1] + "    if (rank == 0 && row < M) C[row * ldc + col] = *in_block(shared->given, 1);\n}"},
        "ended block",
        r"of block \(0, 0, 0\) reads byte 2064 of dynamic shared memory of block \(1, 0, 0\) at right_cluster.cu:\d+, "
        r"and that block may have ended before: it does not wait for this one",
    ),
    "a load from a block that has ended": (
        {LAST: LAST[:-1] + "    if (rank == 1 && row < M) C[row * ldc + col] = *in_block(shared->given, 0);\n}"},
        "misuse",
        r"calls in_block \(right_cluster.cu:44\) for block \(0, 0, 0\) of the cluster, which has ended",
    ),
}
"""Changes of `right_cluster`, and the kind and words of what is found then."""


@pytest.mark.parametrize("case", IN_CLUSTERS)
def test_planted_faults_of_clusters_are_named(case, tmp_path):
    changes, kind, words = IN_CLUSTERS[case]
    checked, _ = run(planted(faulty("right_cluster"), tmp_path, changes), Problem(*CLUSTER_M))
    assert_named(checked, kind, words)


@pytest.mark.first(1)
@pytest.mark.parametrize("gone", ["rank == 1 && threadIdx.x == 7", "threadIdx.x % 3", "rank == 1"])
def test_threads_that_have_returned_hold_up_no_barrier_of_a_cluster(gone, tmp_path):
    changes = {LAST: f"    if ({gone}) return;\n{LAST}"}
    checked, of = run(planted(faulty("right_cluster"), tmp_path, changes), Problem(*CLUSTER_M))
    assert checked.findings == []
    sums = of.a.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(checked.result, np.broadcast_to(sums, checked.result.shape), rtol=1e-4, atol=1e-4)


def test_a_right_kernel_of_named_barriers_is_not_blamed():
    checked, of = run(faulty("right_named"), Problem(24, 39, 100))
    assert checked.findings == []
    sums = of.a.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(checked.result, np.broadcast_to(sums, checked.result.shape), rtol=1e-4, atol=1e-4)


NAMED = {
    "a tile that is read before it is full": (
        {"            sync_named<256>(FULL);\n": "", "            arrive_named<256>(FULL);\n": ""},
        "race",
        r"reads As\[0\]\[0\] at right_named.cu:\d+; thread .* wrote it at .*, and nothing orders the two",
    ),
    "a barrier that opens when one half has come": (
        {"sync_named<256>(FULL)": "sync_named<128>(FULL)", "arrive_named<256>(FULL)": "arrive_named<128>(FULL)"},
        "race",
        r"(reads|writes) As\[\d+\]\[\d+\] at .*; thread .* (read|wrote) it at .*, and nothing orders the two",
    ),
    "a producer that does not wait": (
        {"            if (k0 > 0) sync_named<256>(EMPTY);\n": "", "if (k0 + 32 < K) arrive_named<256>(EMPTY);": ""},
        "barrier",
        r"128 threads wait at sync_named \(right_named.cu:\d+\), where 128 of 256 threads have come to barrier 1, ",
    ),
    "another barrier": (
        {"arrive_named<256>(FULL)": "arrive_named<256>(3)"},
        "barrier",
        r"128 threads wait at sync_named \(right_named.cu:\d+\), where 128 of 256 threads have come to barrier 1, ",
    ),
    "other counts": (
        {"sync_named<256>(FULL);": "thread < 64 ? sync_named<256>(FULL) : sync_named<192>(FULL);"},
        "misuse",
        r"calls sync_named \(right_named.cu:\d+\) for 192 threads at barrier 1, to which 192 have come for 256",
    ),
    "the barrier of __syncthreads": (
        {"FULL = 1": "FULL = 0"},
        "misuse",
        r"calls arrive_named \(right_named.cu:\d+\) with the number 0, which must be 1 to 15",
    ),
    "a warp that has returned": (
        {"    if (threadIdx.x < 128) {": "    if (threadIdx.x < 32) return;\n    if (threadIdx.x < 128) {"},
        "barrier",
        r"128 threads wait at sync_named .*, where 224 of 256 threads have come to barrier 1, 32 threads have returned",
    ),
}
"""Changes of `right_named`, and the kind and words of what is found then."""


@pytest.mark.first(3)
@pytest.mark.parametrize("case", NAMED)
def test_planted_faults_of_named_barriers_are_named(case, tmp_path):
    changes, kind, words = NAMED[case]
    checked, _ = run(planted(faulty("right_named"), tmp_path, changes), Problem(24, 39, 100))
    assert_named(checked, kind, words)


def test_blocks_of_a_cluster_have_named_barriers_of_their_own(tmp_path):
    kernel = faulty("right_cluster")
    source = kernel.source.read_text().replace("    float sum = 0;", "    sync_named<256>(1);\n    float sum = 0;")
    (tmp_path / kernel.source.name).write_text(f"#include <ptx/named_barrier.cuh>\n{source}")
    checked, _ = run(replace(kernel, source=tmp_path / kernel.source.name), Problem(*CLUSTER_M))
    assert checked.findings == []


# Those that take batches are checked below, those of parts in tests/kernels/test_split_products.py, but for one.
@pytest.mark.one_of_each("kernel.arguments", "kernel.support.factors", "kernel.support.precision", "beta")
@pytest.mark.parametrize(
    ("kernel", "shape", "beta"),
    [
        (kernel, shape, beta)
        for kernel in KERNELS
        for shape, beta in (((128, 256, 128), 0.5), ((67, 45, 37), 0.0))
        if not kernel.support.batches or (kernel.name == "gemm_mma_bf16x6" and shape[0] % 2)
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_kernels_have_no_faults(kernel, shape, beta):
    problem = Problem(*shape, kernel.support.arithmetic())
    checked, operands = run(kernel, problem, scalars=fitting(Scalars(1.5, beta), problem.result))
    assert checked.findings == []
    assert operands.error(checked.result) <= limit(problem, kernel.support.precision)


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["clusters", "rasterized", "pingpong", "tma_store", "wgmma_int8"])
def test_a_block_below_the_last_tile_row_touches_nothing(name):
    """Though tiles divide C, so that the code has no guards."""
    kernel = find(name)
    problem = Problem(3 * 128, 64, 64, kernel.support.arithmetic())
    scalars = fitting(Scalars(1.5, 0.5), problem.result)
    checked, operands = run(kernel, problem, {"BN": 64}, scalars=scalars)
    assert checked.findings == []
    assert operands.error(checked.result) <= limit(problem)


FORMS = {
    "gemm_sm90": ((64, 128, 64), "NN"),
    "gemm_fp8": ((64, 128, 64), "NN"),
    "gemm_fp8_nn": ((67, 45, 37), "TN"),
    "gemm_fp8_fast": ((5, 260, 40), "NT"),
    "gemm_fp8_blocks": ((67, 45, 37), "TN"),
    "gemm_mma_fp8": ((67, 45, 37), "TN"),
    "gemm_mma_fp8_fast": ((5, 260, 40), "NT"),
    "gemm_mma_fp8_blocks": ((64, 128, 64), "TT"),
    "skinny_fp8": ((67, 45, 37), "TN"),
}
"""Kernels that take batches, in their default configs, which differ in little from others that
tests/kernels/test_library_on_emulator.py checks in every form; test_tf32.py and test_split_products.py check theirs."""


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "shape", "layout"), [(name, *form) for name, form in FORMS.items()], ids=str)
def test_kernels_of_batches_have_no_faults(name, layout, shape):
    """With a matrix that serves all of a batch; a bias and an activation; results of 16 bits."""
    kernel = find(name)
    a, b = orders(layout)
    b = b._replace(batch_stride=0) if shape[0] == 67 else b
    side = "row" if layout[0] == "N" else "column"
    arithmetic = Arithmetic(kernel.support.factors[0], "float16" if shape[1] == 45 else "float32")
    problem = Problem(*shape, arithmetic, 2, a, b, epilogue=Epilogue(side, "gelu"))
    checked, operands = run(kernel, problem, scalars=Scalars(-0.5, 2.0))
    assert checked.findings == []
    assert operands.error(checked.result) <= limit(problem, kernel.support.precision)


@pytest.mark.further
@pytest.mark.parametrize(
    ("overrides", "layout"),
    [
        ({"BM": 64, "BN": 256, "BK": 32, "K_SLICES": 1}, "NT"),  # A and B are transposed
        ({"BM": 128, "BK": 48, "K_SLICES": 1, "A_BUFFERS": 1, "UNROLL": 24}, "NT"),
        ({"BM": 128, "BK": 40, "K_SLICES": 1, "UNROLL": 20}, "NT"),
        ({"BM": 64, "BN": 64, "BK": 128, "K_SLICES": 4, "MIN_BLOCKS": 1}, "NT"),
    ],
    ids=str,
)
def test_tiles_that_are_transposed_in_other_steps_have_no_faults(overrides, layout):
    a, b = orders(layout)
    checked, _ = run(find("tma_transposed"), Problem(67, 260, 150, a=a, b=b), overrides)
    assert checked.findings == []


SM90 = {
    "one consumer": {"BM": 64, "BN": 48, "STAGES": 2, "CONSUMERS": 1},
    "three": {"BM": 192, "BN": 48, "STAGES": 2, "CONSUMERS": 3},
    "ping-pong": {"BM": 64, "BN": 48, "STAGES": 2, "PINGPONG": 1, "GROUP_M": 1},
    "clusters": {"BM": 128, "BN": 64, "STAGES": 2, "CLUSTER_M": 2, "CLUSTER_N": 2, "GROUP_M": 1},
    "splits": {"BM": 128, "BN": 32, "STAGES": 2, "SPLITS": 2},
}
"""Forms of gemm_sm90."""


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({", m - 1) / scales.rows": ", m + 8) / scales.rows"}, r"reads scale_a\[\d+\], outside of its 916 elements"),
        (
            {"step) * scales.step_k_b": "step + 5) * scales.step_k_b"},
            r"reads scale_b\[\d+\], outside of its 11 elements",
        ),
        ({"a += step_a;": "a += step_a + 1;"}, r"reads scale_a\[\d+\], outside of its 916 elements"),
    ],
    ids=("rows past the last", "steps past the last", "a wrong step along k"),
)
def test_scales_of_blocks_are_read_within_their_arrays(changes, words, tmp_path):
    """Scales of 131 rows, 77 columns and 6 steps along k: those of rows lie 7 apart, those of steps of B 2."""
    kernel = find("gemm_fp8_blocks")
    header = INCLUDE / "pipeline/factor_scales.cuh"
    problem = Problem(131, 77, 700, kernel.support.arithmetic())
    checked, _ = run(planted(kernel, tmp_path, changes, header), problem, {**SM90["one consumer"], "BN": 64})
    assert_named(checked, "out of bounds", words)


READS = "the tensor cores of block (0, 0, 0) read it at wgmma.cu"
CHANGES = {
    "another stride": ("matrix_descriptor(As)", "MatrixDescriptor{matrix_descriptor(As).bits + (64ull << 32)}", None),
    "a wrong step along k": ("k * 2", "k", None),
    "a wrong offset of the next 64 columns": ("Bs, BLOCK_BYTES)", "Bs, BLOCK_BYTES / 2)", None),
    "no swizzle": ("swizzled(row, piece)", "row * LINE_BYTES + piece * 16", None),
    "the wrong order of B": ("Major::across_k", "Major::along_k", None),
    "a wait for all products but one": ("wait_products<0>", "wait_products<1>", READS),
    "a store before the wait": (
        "        commit_products();",
        "        commit_products(); As[threadIdx.x] = 0;",
        READS,
    ),
    "a fence after the barrier": (
        "        fence_async_shared();  // the tensor cores reach shared memory by another way than stores do\n"
        "        __syncthreads();",
        "        __syncthreads();\n        fence_async_shared();",
        "and no barrier is between its fence_async_shared and this",
    ),
}


@pytest.mark.first(3)
@pytest.mark.parametrize("change", CHANGES)
def test_planted_faults_of_warpgroups_show(change, tmp_path):
    """As wrong results or, where words are given, as findings."""
    kernel = find("wgmma")
    text, instead, words = CHANGES[change]
    source = kernel.source.read_text()
    assert text in source
    (tmp_path / kernel.source.name).write_text(source.replace(text, instead))
    faulty_kernel = replace(kernel, source=tmp_path / kernel.source.name)
    problem = Problem(64, 128, 128, kernel.support.arithmetic())
    checked, operands = run(faulty_kernel, problem, {"BM": 64})
    if words is None:
        assert checked.findings or not operands.error(checked.result) <= limit(problem)
    else:
        assert words in " ".join(map(str, checked.findings))


def test_an_early_refill_is_named(tmp_path):
    kernel = find("specialised")
    source = kernel.source.read_text()
    early = source.replace("wait_products<1>(sums);", "").replace(
        "        commit_products();", "        commit_products();\n"
    )
    (tmp_path / kernel.source.name).write_text(early)
    problem = Problem(128, 64, 320, kernel.support.arithmetic())
    checked, _ = run(replace(kernel, source=tmp_path / kernel.source.name), problem, {"BN": 64, "STAGES": 2})
    found = [finding for finding in checked.findings if finding.kind == "race"]
    assert any("the tensor cores of block (0, 0, 0) read it at specialised.cu" in str(one) for one in found)
    assert any("starts a copy to byte" in str(one) for one in found)


HAZARDS = {
    "a wait for the wrong phase of full": (
        "ping-pong",
        "pipeline/stage_barriers.cuh",
        {"full[turn.stage], turn.parity);": "full[turn.stage], turn.parity ^ 1);"},
        "unfinished copy",
        r"reads byte \d+ of .* at gemm_sm90.cu:\d+; thread \(256, 0, 0\) .* started a copy to it",
    ),
    "a wait for the wrong phase of empty": (
        "ping-pong",
        "pipeline/stage_barriers.cuh",
        {"turn.parity ^ 1);  // returns": "turn.parity);  // returns"},
        "barrier",
        r"32 threads wait at barrier_wait \(stage_barriers.cuh:\d+\), where 4 of 4 arrivals and 0 bytes of its phase 0",
    ),
    "a stage that is released before its products": (
        "ping-pong",
        "gemm_sm90.cu",
        {"fence_sums(sums);": "shared->barriers.release(turn.stage, grid, lane);\nfence_sums(sums);"},
        "race",
        r"thread \(256, 0, 0\) .* starts a copy to byte \d+ of .*; the tensor cores of block .* read it",
    ),
    "bytes of half the tiles": (
        "ping-pong",
        "gemm_sm90.cu",
        {"(turn, bytes, ": "(turn, bytes / 2, "},
        "unfinished copy",
        r"reads byte \d+ of .* at gemm_sm90.cu:\d+; thread \(256, 0, 0\) .* started a copy to it",
    ),
    "more bytes than are loaded": (
        "ping-pong",
        "gemm_sm90.cu",
        {"(turn, bytes, ": "(turn, bytes + 16, "},
        "barrier",
        r"threads? waits? at barrier_wait \(stage_barriers.cuh:\d+\), where 0 of 1 arrivals and 16 bytes of its",
    ),
    "a stage that is empty for the own block alone": (
        "clusters",
        "pipeline/stage_barriers.cuh",
        {"WARPS * Grid::MATES": "WARPS"},
        "unfinished copy",
        r"starts a copy to byte \d+ of dynamic shared memory of block \(\d, 0, 0\)",
    ),
    "arrivals at the own block alone": (
        "clusters",
        "pipeline/stage_barriers.cuh",
        {"barrier_arrive_at(&empty[stage], grid.mate(lane))": "barrier_arrive(&empty[stage])"},
        "race",
        r"starts a copy to byte \d+ of dynamic shared memory of block .*; the tensor cores of block .* read it",
    ),
    "registers that no block has": (
        "three",
        "gemm_sm90.cu",
        {"setmaxnreg_inc<CONSUMERS == 2 ? 232 : 152>": "setmaxnreg_inc<232>"},
        "barrier",
        r"setmaxnreg_inc \(gemm_sm90.cu:\d+\), where their warpgroup waits for 232 registers a thread: it has 128",
    ),
}
"""Forms of gemm_sm90, a file of its source, changes of it, and the kind and words of what is found then."""


@pytest.mark.first(2)
@pytest.mark.parametrize("hazard", HAZARDS)
def test_planted_faults_of_the_library_s_warpgroups_are_named(hazard, tmp_path):
    kernel = find("gemm_sm90")
    form, file, changes, kind, words = HAZARDS[hazard]
    hazardous = planted(kernel, tmp_path, changes, file_of(kernel, file))
    checked, _ = run(hazardous, Problem(600, 300, 205, kernel.support.arithmetic()), SM90[form])
    assert_named(checked, kind, words)


@pytest.mark.parametrize(("operand", "statement"), [("bias", "output.bias"), ("A", "A.data"), ("B", "B.data")])
def test_writes_to_inputs_are_named(operand, statement, tmp_path):
    kernel = find("skinny")
    write = f"if (threadIdx.x == 0) const_cast<float*>({statement})[0] = 1;"
    writing = planted(kernel, tmp_path, {"grid_dependency_wait();": f"grid_dependency_wait(); {write}"})
    checked, _ = run(writing, Problem(4, 64, 64, epilogue=Epilogue("row")))
    assert_named(checked, "write to an input", rf"writes {operand}\[0(, 0)?\]")


BY_DEFAULT = {
    "specialised": ("specialised.cu", {"(step / STAGES - 1) % 2": "0"}),
    "persistent": ("persistent.cu", {"parity ^= 1;": ";"}),
    "pingpong": ("pingpong.cu", {"(number - 1) / CONSUMERS & 1": "0"}),
    "wgmma_int8": ("wgmma_int8.cu", {"turn.parity ^ 1);": "1);"}),
    "gemm_sm90": ("pipeline/stage_barriers.cuh", {"turn.parity ^ 1);": "1);"}),
    "tma_transposed": ("gemm_tma.cu", {"fence_async_shared();": ";"}),
}
"""Faults that show once a stage is filled again, or a block has several tiles."""


@pytest.mark.first(1)
@pytest.mark.parametrize("name", BY_DEFAULT)
def test_the_shapes_of_a_check_show_faults_of_later_stages_and_tiles(name, tmp_path):
    kernel = find(name)
    file, changes = BY_DEFAULT[name]
    source = file_of(kernel, file).read_text()
    for text, instead in changes.items():
        assert text in source
        source = source.replace(text, instead)
    faulty_kernel = copied(kernel, tmp_path)
    (tmp_path / file).write_text(source)
    shapes = telling_shapes(kernel, kernel.config())
    assert any(run(faulty_kernel, Problem(*shape, kernel.support.arithmetic()))[0].findings for shape in shapes)


def test_the_shapes_of_a_check_have_odd_sizes_and_sizes_that_tiles_divide():
    for kernel in KERNELS:
        tile = kernel.tile(kernel.config())
        divided, odd = telling_shapes(kernel, kernel.config())
        assert not any(size % of for size, of in zip(divided, tile, strict=True)), kernel.name
        assert all(size % 2 for size in odd), kernel.name


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["specialised", "interleaved", "gemm_sm90"])
def test_a_producer_must_give_its_registers(name, tmp_path):
    kernel = find(name)
    (tmp_path / kernel.source.name).write_text(kernel.source.read_text().replace("setmaxnreg_dec<40>();", ""))
    thrifty = replace(kernel, source=tmp_path / kernel.source.name)
    checked, _ = run(thrifty, Problem(128, 64, 64, kernel.support.arithmetic()), {"BN": 64})
    words = "waits for 232 registers a thread: it has 168, and 0 more are free"
    assert any(one.kind == "barrier" and words in str(one) for one in checked.findings), checked.findings


@pytest.mark.parametrize(
    ("name", "runs"),
    [("naive", 1), ("coalesced", 1), ("shared_tiled", 3)],  # its tiles are in shared memory
)
def test_only_threads_that_can_meet_run_in_other_orders(name, runs, monkeypatch):
    kernel, launched = find(name), []
    launch = Program.launch
    monkeypatch.setattr(Program, "launch", lambda self, *rest, **named: launched.append(launch(self, *rest, **named)))
    operands = Operands.draw(Problem(40, 33, 20))
    assert not check(kernel, kernel.config(), Problem(40, 33, 20), operands.a, operands.b, operands.c).findings
    assert len(launched) == runs


def test_a_result_of_nan_is_the_same_in_every_order():
    kernel, of = find("shared_tiled"), Operands.draw(Problem(40, 33, 20))
    of.a[3] = np.nan
    checked = check(kernel, kernel.config(), of.problem, of.a, of.b, of.c)
    assert checked.findings == []
    assert np.isnan(checked.result[3]).all()


@pytest.mark.parametrize(
    ("statement", "syncs"),
    [
        ("out[threadIdx.x] = clock();", True),
        ("out[threadIdx.x] = blockDim.x;", False),
        ("out[threadIdx.x] = __shfl_xor_sync(~0u, threadIdx.x, 1);", True),
        ("atomicAdd(out, 1);", True),
        ("__syncthreads();", True),
        ("__shared__ int own[32]; own[threadIdx.x] = 1; out[threadIdx.x] = own[threadIdx.x];", True),
    ],
)
def test_whether_threads_can_sync(statement, syncs):
    source = f'extern "C" __global__ void kernel(int* out) {{ {statement} }}'
    program = load(compile_kernel(source, "kernel", build=CHECKED), "kernel", CHECKED)
    assert program.syncs is syncs
