"""The emulator as an Engine: memory, compile, launch, time."""

import ctypes
import math
from dataclasses import replace

import numpy as np
import pytest

from launching import launch_source
from starting import poisoned
from tilewright.core.dtypes import DTYPES
from tilewright.core.errors import ArrayError, CompileError, LaunchError, ProblemError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Support, Variant
from tilewright.runtime.base import Matrix, run
from tilewright.runtime.plan import Pointers

NAIVE, VECTORIZED = find("naive"), find("vectorized")


@pytest.fixture(scope="module")
def engine():
    return EmulatorEngine()


def test_it_says_what_it_is(engine):
    assert (engine.name, engine.capability) == ("emulator", None)
    assert engine.device_name.strip()
    assert 2**18 <= engine.cache_bytes <= 2**34


@pytest.mark.parametrize("ld", [0, 5, 9])
def test_a_matrix_comes_back_as_it_went(engine, ld):
    array = np.random.default_rng(0).random((10, 7), dtype=np.float32)[::2, 1:6]
    matrix = engine.upload(array, ld)
    assert (matrix.rows, matrix.cols, matrix.ld, matrix.dtype) == (5, 5, ld or 5, "float32")
    assert matrix.pointer % 256 == 0
    back = engine.download(matrix)
    np.testing.assert_array_equal(back, array)
    whole = engine.download(Matrix(matrix.pointer, 5, matrix.ld, matrix.ld, "float32", matrix.owner))
    assert np.isnan(whole[:, 5:]).all()
    back[:] = 0
    np.testing.assert_array_equal(engine.download(matrix), array)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_a_matrix_without_elements(engine, shape):
    assert engine.download(engine.upload(np.zeros(shape, dtype=np.float32))).shape == shape


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (0, 3), (3, 0)])
def test_memory_that_nothing_was_written_to(engine, shape, dtype):
    matrix = engine.empty(*shape, dtype)
    assert (matrix.rows, matrix.cols, matrix.ld, matrix.dtype) == (*shape, max(shape[1], 1), dtype)
    assert matrix.pointer % 256 == 0
    values = engine.download(matrix)
    assert (values.shape, values.dtype.name) == (shape, dtype)
    poison = np.isnan(values.astype(np.float32)) if "float" in dtype else values.reshape(-1).view(np.uint8) == 0xFF
    assert poison.all()


def test_arrays_that_are_no_matrix(engine):
    for array in (np.zeros(3, dtype=np.float32), np.zeros((1, 2, 3, 4), dtype=np.float32)):
        with pytest.raises(ArrayError, match=f"array must be a matrix or a batch of matrices, got {array.ndim} dim"):
            engine.upload(array)
    with pytest.raises(ProblemError, match="ld must be at least the row length 4, got 3"):
        engine.upload(np.zeros((2, 4), dtype=np.float32), 3)


@pytest.mark.parametrize("kernel", [NAIVE, VECTORIZED], ids=lambda kernel: kernel.name)
def test_a_product(engine, kernel):
    problem = Problem(37, 29, 11, a=Layout(ld=12), b=Layout(ld=32), d=Layout(ld=29))
    random = np.random.default_rng(1)
    a, b, c = (random.random(shape, dtype=np.float32) for shape in ((37, 11), (11, 29), (37, 29)))
    matrices = engine.upload(a, 12), engine.upload(b, 32), engine.upload(c)
    plan = run(engine, kernel, kernel.config(), problem, *matrices, Scalars(alpha=0.5, beta=2.0))
    np.testing.assert_allclose(engine.download(matrices[2]), 0.5 * a @ b + 2 * c, rtol=1e-6)
    assert plan.executable.report.registers is plan.executable.report.spill_bytes is None
    engine.synchronize()


def test_no_depth_gives_beta_times_c_and_no_elements_launch_nothing(engine):
    c = engine.upload(np.full((3, 4), 1.5, dtype=np.float32))
    nothing = engine.upload(np.zeros((3, 0), dtype=np.float32))
    run(engine, NAIVE, NAIVE.config(), Problem(3, 4, 0), nothing, nothing, c, Scalars(beta=2.0))
    np.testing.assert_array_equal(engine.download(c), 3)
    for m, n in ((0, 4), (3, 0)):
        plan = run(engine, NAIVE, NAIVE.config(), Problem(m, n, 3), nothing, nothing, c)
        assert (plan.executable, plan.steps) == (None, ())
    np.testing.assert_array_equal(engine.download(c), 3)


def test_static_shared_memory_is_reported(engine):
    config = VECTORIZED.config({"BM": 64, "BN": 32, "BK": 16, "TM": 4, "TN": 4})
    report = engine.compile(VECTORIZED, config, Variant(edges=False, aligned=True)).report
    assert report.shared_bytes == 4 * 16 * (64 + 32)


def test_a_kernel_is_compiled_once(engine):
    config = NAIVE.config()
    first = engine.compile(NAIVE, config, Variant(edges=True, aligned=False))
    assert engine.compile(NAIVE, config, Variant(edges=True, aligned=False)) is first
    assert engine.compile(NAIVE, config, Variant(edges=False, aligned=False)) is not first


def own_kernel(path, text, **fields):
    path.write_text(text)
    geometry = {"tile": lambda config: NAIVE.tile(NAIVE.config()), "block": lambda config: (32, 1, 1)}
    plain = {"parameters": (), "support": Support(vectorized=False)}
    return Kernel(name=path.stem, idea="", source=path, **(plain | geometry | fields))


PARAMETERS = (
    "int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C, int ldc"
)


def test_a_kernel_of_ones_own_with_dynamic_shared_memory(engine, tmp_path):
    text = f"""
    #include "ptx/dynamic_shared.cuh"
    extern "C" __global__ void mine({PARAMETERS}) {{
        DYNAMIC_SHARED(float, cells);
        cells[threadIdx.x] = alpha * lda + ldb + beta + ldc + A[0] + B[0];
        C[threadIdx.x] = cells[threadIdx.x] + M + 100 * N + K;
    }}
    """
    kernel = own_kernel(tmp_path / "mine.cu", text, shared_bytes=lambda config, layout: 60 * 1024)
    ones = np.ones((2, 64), dtype=np.float32)
    a, b, c = engine.upload(ones, 70), engine.upload(ones, 80), engine.upload(ones, 90)
    problem = Problem(2, 64, 2, a=Layout(ld=70), b=Layout(ld=80), d=Layout(ld=90))
    run(engine, kernel, kernel.config(), problem, a, b, c, Scalars(alpha=2.0, beta=0.25))
    expected = 2 * 70 + 80 + 0.25 + 90 + 2 + 2 + 6400 + 2
    np.testing.assert_array_equal(engine.download(c)[0, :32], expected)


def test_errors_name_the_kernel(engine, tmp_path):
    config, variant = NAIVE.config(), Variant(edges=False, aligned=False)
    broken = own_kernel(tmp_path / "broken.cu", 'extern "C" __global__ void broken() { oops; }')
    with pytest.raises(CompileError, match=r"(?s)broken.cu does not compile.*oops"):
        engine.compile(broken, config, variant)
    large = own_kernel(
        tmp_path / "large.cu",
        f'extern "C" __global__ void large({PARAMETERS}) {{}}',
        block=lambda config: (2048, 1, 1),
    )
    one = engine.upload(np.ones((1, 1), dtype=np.float32))
    with pytest.raises(LaunchError, match="large: block along x must be 1 to 1024 threads, got 2048"):
        run(engine, large, large.config(), Problem(1, 1, 1), one, one, one)


def test_the_code_has_the_guards_that_the_operands_need(engine):
    config = VECTORIZED.config({"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4})
    whole = engine.upload(np.ones((32, 32), dtype=np.float32))
    shifted = replace(whole, pointer=whole.pointer + 4, cols=28)
    for problem, a, variant in (
        (Problem(32, 32, 32), whole, Variant(edges=False, aligned=True)),
        (Problem(32, 31, 32, b=Layout(ld=32), d=Layout(ld=32)), whole, Variant(edges=True, aligned=True)),
        (Problem(32, 32, 24, a=Layout(ld=32)), shifted, Variant(edges=False, aligned=False)),
    ):
        d = engine.upload(poisoned(32, 32))
        plan = run(engine, VECTORIZED, config, problem, a, whole, d)
        assert plan.executable.variant == variant
        np.testing.assert_array_equal(engine.download(d)[:, : problem.n], problem.k)
        assert np.isnan(engine.download(d)[:, problem.n :]).all()


def test_a_plan_is_started_on_other_operands_with_other_scalars(engine):
    plan = engine.plan(NAIVE, NAIVE.config(), Problem(3, 4, 5))
    for value in (2, 3):
        a, b, d = (engine.upload(np.full(shape, value, dtype=np.float32)) for shape in ((3, 5), (5, 4), (3, 4)))
        engine.start(plan, Pointers(a.pointer, b.pointer, d.pointer), Scalars(alpha=value, beta=10.0))
        np.testing.assert_array_equal(engine.download(d), 5 * value**3 + 10 * value)


def test_alpha_0_reads_neither_a_nor_b(engine):
    a, b, d = (engine.upload(array) for array in (poisoned(3, 5), poisoned(5, 4), np.ones((3, 4), np.float32)))
    plan = run(engine, NAIVE, NAIVE.config(), Problem(3, 4, 5), a, b, d, Scalars(alpha=0.0, beta=2.0))
    assert plan.problem.k == 0
    np.testing.assert_array_equal(engine.download(d), 2)


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (0, 3, 5), (2, 0, 5), (2, 3, 0)])
def test_a_matrix_or_batch_comes_back_in_either_order(engine, order, shape):
    array = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    matrix = engine.upload(array, 7, order)
    batch = shape[0] if len(shape) == 3 else None
    assert (matrix.rows, matrix.cols, matrix.ld, matrix.order, matrix.batch) == (*shape[-2:], 7, order, batch)
    np.testing.assert_array_equal(engine.download(matrix), array)


def test_columns_lie_one_after_the_other_in_memory(engine):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    matrix = engine.upload(array, 4, "column")
    lines = engine.download(Matrix(matrix.pointer, 3, 4, 4, "float32", matrix.owner))
    np.testing.assert_array_equal(lines[:, :2], array.T)
    assert np.isnan(lines[:, 2:]).all()


def test_timing_takes_turns_and_counts_on(engine, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("tilewright.emulator.engine.time.perf_counter", lambda: clock[0])
    runs, sampled = [], []

    def work(name, seconds):
        def go(i, stream):
            assert stream is None
            runs.append((name, i))
            clock[0] += seconds

        return go

    slow, quick = engine.time(
        [work("slow", 0.5), work("quick", 0.0004)], 3, rotation=2, on_sample=lambda: sampled.append(len(runs))
    )
    assert slow == pytest.approx([5e5] * 3)
    assert quick == pytest.approx([400] * 3)
    # A warm-up each; then samples in turn, of one slow run, and of enough quick ones to last 1 ms, in whole rotations.
    assert runs[:2] == [("slow", 0), ("quick", 0)]
    assert runs[2:7] == [("slow", 1), ("quick", 1), ("quick", 2), ("quick", 3), ("quick", 4)]
    assert [i for name, i in runs if name == "quick"] == list(range(13))
    assert sampled == [3, 7, 8, 12, 13, 17]


@pytest.mark.further
def test_times_are_those_of_the_launches(engine):
    source = 'extern "C" __global__ void spin(int n, volatile float* out) { for (int i = 0; i < n; ++i) *out += 1; }'
    out = engine.upload(np.zeros((1, 1), dtype=np.float32))

    def work(count):
        arguments = [ctypes.c_int(count), ctypes.c_void_p(out.pointer)]
        return lambda i, stream: launch_source(source, "spin", (1, 1, 1), (1, 1, 1), arguments)

    short, long = engine.time([work(1_000_000), work(16_000_000)], 5)
    assert all(math.isfinite(time) and time > 0 for time in short + long)
    assert 3 < min(long) / min(short) < 80  # other processes may take turns with either
