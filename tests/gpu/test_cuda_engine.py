"""The cuda engine on a real GPU: memory, launches, streams, errors, times."""

import statistics
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from cuda.bindings import driver

from starting import poisoned, start
from tilewright.core.dtypes import DTYPES
from tilewright.core.errors import ArrayError, EngineUnavailableError, LaunchError, ProblemError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice, Kernel, Tile
from tilewright.kernels.support import Support, Variant
from tilewright.runtime.base import Matrix, run
from tilewright.runtime.cuda import CudaEngine
from tilewright.tools.bench.measure import measure

SIGNATURE = """(
  int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C, int ldc
)"""

COPY = f"""
extern "C" __global__ void __launch_bounds__(1024) copy{SIGNATURE} {{
  const int tiles = (N + 31) / 32;
  const long long row = blockIdx.x / tiles * 32 + threadIdx.x / 32;
  const int col = blockIdx.x % tiles * 32 + threadIdx.x % 32;
  if (row < M && col < N) C[row * ldc + col] = A[row * lda + col];
}}
"""

SHARED = f"""
extern "C" __global__ void shared{SIGNATURE} {{
  extern __shared__ float last[];
  if (threadIdx.x == 0) last[BYTES / 4 - 1] = A[0];
  __syncthreads();
  C[threadIdx.x] = last[BYTES / 4 - 1];
}}
"""


TILE = Tile(32, 32, 1)


@pytest.fixture
def make_kernel(tmp_path):
    """Makes a kernel of a source; each is a rung of its own to the engine."""

    def make(name, source, block=(32, 1, 1), tile=TILE, shared_bytes=0):
        path = tmp_path / f"{name}.cu"
        path.write_text(source)
        return Kernel(
            rung=0,
            name=f"{name} {tmp_path.name}",
            idea="",
            source=path,
            support=Support(vectorized=False),
            parameters=(),
            tile=lambda _: tile,
            block=lambda _: block,
            shared_bytes=lambda *_: shared_bytes,
        )

    return make


@pytest.fixture
def copy_kernel(make_kernel):
    return make_kernel("copy", COPY, block=(1024, 1, 1))


@pytest.fixture
def random():
    return np.random.default_rng(0)


def draw(random, rows, cols):
    return random.standard_normal((rows, cols), dtype=np.float32)


def copying(engine, kernel, size):
    """A plan that copies A, size x size, to D."""
    return engine.plan(kernel, kernel.config(), Problem(size, size, 1, a=Layout(ld=size)))


# Memory


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (64, 64), (1, 1000), (1000, 1), (0, 5), (5, 0)])
@pytest.mark.parametrize("gap", [0, 1, 13])
def test_up_and_down(engine, random, shape, gap):
    array = draw(random, *shape)
    matrix = engine.upload(array, ld=max(shape[1], 1) + gap)
    assert (matrix.rows, matrix.cols, matrix.ld, matrix.dtype) == (*shape, max(shape[1], 1) + gap, "float32")
    np.testing.assert_array_equal(engine.download(matrix), array)


@pytest.mark.parametrize("shape", [(5, 7), (0, 5), (5, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_that_nothing_was_written_to(engine, shape, dtype):
    matrix = engine.empty(*shape, dtype)
    assert (matrix.rows, matrix.cols, matrix.ld, matrix.dtype) == (*shape, max(shape[1], 1), dtype)
    values = engine.download(matrix)
    assert (values.shape, values.dtype.name) == (shape, dtype)


def test_a_product_is_written_to_memory_that_held_nothing(engine, random):
    kernel = find("naive")
    a, b = draw(random, 64, 32), draw(random, 32, 96)
    c = engine.empty(64, 96)
    run(engine, kernel, kernel.config(), Problem(64, 96, 32), engine.upload(a), engine.upload(b), c)
    np.testing.assert_allclose(engine.download(c), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def test_gaps_between_rows_hold_nan(engine, random):
    matrix = engine.upload(draw(random, 3, 4), ld=6)
    whole = engine.download(Matrix(matrix.pointer, 3, 6, 6, "float32"))
    assert np.isnan(whole[:, 4:]).all()
    assert not np.isnan(whole[:, :4]).any()


def test_any_host_layout_is_taken(engine, random):
    array = draw(random, 8, 6)
    for view in (array.T, array[::2, 1::2], array[::-1], np.asfortranarray(array)):
        np.testing.assert_array_equal(engine.download(engine.upload(view)), view)


def test_a_matrix_that_ends_with_its_memory(engine, random):
    array = draw(random, 4, 8)
    matrix = engine.upload(array)
    right = Matrix(matrix.pointer + 4 * 5, 4, 3, 8, "float32", owner=matrix.owner)
    np.testing.assert_array_equal(engine.download(right), array[:, 5:])


def test_upload_refuses_what_is_no_matrix(engine):
    with pytest.raises(ArrayError, match="array must be a matrix or a batch of matrices, got 1 dimensions"):
        engine.upload(np.zeros(3, np.float32))
    with pytest.raises(ProblemError, match="ld must be at least the row length 4, got 3"):
        engine.upload(np.zeros((2, 4), np.float32), ld=3)


def test_memory_lives_as_long_as_its_matrix(engine):
    def free():
        with engine.current:
            return driver.cuMemGetInfo()[1]

    size = 256 * 2**20
    before = free()
    matrix = engine.upload(np.zeros((size // 4 // 1024, 1024), np.float32))
    assert before - free() >= size
    view = Matrix(matrix.pointer, 1, 1, 1, "float32", owner=matrix.owner)
    del matrix
    assert before - free() >= size
    del view
    assert before - free() < size // 2


# Launches


@pytest.mark.parametrize(("m", "n", "k"), [(64, 96, 32), (65, 33, 17), (1, 1, 1), (3, 200, 5)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-0.5, 2.0)])
@pytest.mark.parametrize("gap", [0, 3])
def test_a_product_is_right(engine, random, m, n, k, alpha, beta, gap):
    problem = Problem(m, n, k, a=Layout(ld=k + gap), b=Layout(ld=n + gap), d=Layout(ld=n + gap))
    a, b, c = draw(random, m, k), draw(random, k, n), draw(random, m, n) if beta else poisoned(m, n)
    kernel = find("naive")
    operands = engine.upload(a, problem.a.ld), engine.upload(b, problem.b.ld), engine.upload(c, problem.d.ld)
    run(engine, kernel, kernel.config(), problem, *operands, Scalars(alpha, beta))
    expected = alpha * a.astype(np.float64) @ b + (beta * c if beta else 0)
    np.testing.assert_allclose(engine.download(operands[2]), expected, rtol=1e-4, atol=1e-4)


def test_no_terms_give_beta_c_and_no_elements_launch_nothing(engine, random):
    kernel = find("naive")
    c = draw(random, 40, 50)
    empty = engine.upload(np.empty((40, 0), np.float32)), engine.upload(np.empty((0, 50), np.float32))
    scaled, zeroed = engine.upload(c), engine.upload(poisoned(40, 50))
    run(engine, kernel, kernel.config(), Problem(40, 50, 0), *empty, scaled, Scalars(beta=3.0))
    run(engine, kernel, kernel.config(), Problem(40, 50, 0), *empty, zeroed)
    np.testing.assert_array_equal(engine.download(scaled), 3 * c)
    np.testing.assert_array_equal(engine.download(zeroed), np.zeros_like(c))
    nothing = Matrix(0, 0, 0, 1, "float32")
    for problem in (Problem(0, 5, 5), Problem(5, 0, 5)):
        run(engine, kernel, kernel.config(), problem, nothing, nothing, nothing)
    engine.synchronize()


def test_large_dynamic_shared_memory(engine, make_kernel):
    size = 60 * 1024  # above the 48 KiB that need no asking, below what every supported GPU has
    kernel = make_kernel("shared", SHARED.replace("BYTES", str(size)), shared_bytes=size)
    a, c = engine.upload(np.full((1, 1), 7, np.float32)), engine.upload(poisoned(1, 32))
    run(engine, kernel, kernel.config(), Problem(1, 32, 1), a, a, c)
    assert (engine.download(c) == 7).all()


def test_compiled_once(engine):
    kernel = find("naive")
    variant = Variant(edges=True, aligned=False)
    first = engine.compile(kernel, kernel.config(), variant)
    assert engine.compile(kernel, kernel.config(), variant) is first
    assert first.report.registers > 0


# Streams, threads, contexts


class Foreign:
    """A stream as another library hands it over."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return 0, self.handle


@pytest.mark.parametrize("as_given", [lambda s: s, lambda s: int(s.handle), lambda s: Foreign(int(s.handle))])
def test_launch_on_another_stream(engine, copy_kernel, random, as_given):
    with engine.current:
        stream = engine.device.create_stream()
    array = draw(random, 2048, 2048)
    a, c = engine.upload(array), engine.upload(poisoned(2048, 2048))
    start(engine, copying(engine, copy_kernel, 2048), a, a, c, as_given(stream))
    with engine.current:
        stream.sync()
    np.testing.assert_array_equal(engine.download(c), array)


def test_launch_on_the_default_stream(engine, copy_kernel, random):
    array = draw(random, 64, 64)
    a, c = engine.upload(array), engine.upload(poisoned(64, 64))
    start(engine, copying(engine, copy_kernel, 64), a, a, c, stream=0)
    np.testing.assert_array_equal(engine.download(c), array)


def test_what_is_no_stream_is_refused(engine, copy_kernel):
    a = engine.upload(np.zeros((32, 32), np.float32))
    with pytest.raises(LaunchError, match=r"stream must be None.*got str"):
        start(engine, copying(engine, copy_kernel, 32), a, a, a, stream="7")


def test_a_thread_keeps_its_context(engine, copy_kernel, random):
    contexts, results = [], []
    array = draw(random, 64, 64)

    def use():
        contexts.append(int(driver.cuCtxGetCurrent()[1]))
        CudaEngine()
        a, c = engine.upload(array), engine.upload(poisoned(64, 64))
        start(engine, copying(engine, copy_kernel, 64), a, a, c)
        results.append(engine.download(c))
        contexts.append(int(driver.cuCtxGetCurrent()[1]))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contexts == [0] * 8
    assert all((result == array).all() for result in results)


def test_a_gpu_that_is_not_there():
    with pytest.raises(EngineUnavailableError, match="there is no GPU 99"):
        CudaEngine(99)


# Wrong launches


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ({"block": (32, 33, 1)}, "at most 1024 threads"),
        ({"block": (1, 1, 65)}, "64 along z"),
        ({"shared_bytes": 2**20}, "dynamic shared memory, got 1048576"),
        ({"tile": Tile(1, 1, 1)}, "a grid must have at most"),
    ],
)
def test_a_geometry_that_a_gpu_refuses(engine, make_kernel, geometry, message):
    kernel = make_kernel("copy", COPY, **geometry)
    with pytest.raises(LaunchError, match=message):
        engine.plan(kernel, kernel.config(), Problem(2**20, 2**20, 1))


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 7), (0, 5, 7), (3, 0, 7)])
def test_up_and_down_in_either_order(engine, order, shape):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    matrix = engine.upload(array, 9, order)
    assert (matrix.ld, matrix.order, matrix.batch) == (9, order, shape[0] if len(shape) == 3 else None)
    np.testing.assert_array_equal(engine.download(matrix), array)


def test_the_code_has_the_guards_that_the_operands_need(engine):
    kernel = find("vectorized")
    config = kernel.config()
    tile = kernel.tile(config)
    whole = engine.upload(np.ones((tile.m, tile.m), np.float32))
    askew = Matrix(whole.pointer + 4, tile.m, tile.m - 4, tile.m, "float32", owner=whole.owner)
    for problem, a, variant in (
        (Problem(tile.m, tile.n, tile.k, a=Layout(ld=tile.m)), whole, Variant(edges=False, aligned=True)),
        (Problem(tile.m - 1, tile.n, tile.k, a=Layout(ld=tile.m)), whole, Variant(edges=True, aligned=True)),
        (Problem(tile.m, tile.n, tile.k, a=Layout(ld=tile.m)), askew, Variant(edges=False, aligned=False)),
    ):
        d = engine.upload(poisoned(tile.m, tile.n))
        plan = run(engine, kernel, config, problem, a, whole, d)
        assert plan.executable.variant == variant
        result = engine.download(d)
        assert (result[: problem.m] == tile.k).all()
        assert np.isnan(result[problem.m :]).all()


def test_a_kernel_that_fails_shows_later():
    program = """
from tilewright.tools.bench.measure import measure
from tilewright.runtime.base import Matrix, run
from tilewright.runtime.cuda import CudaEngine
from tilewright.core.errors import LaunchError
from tilewright.kernels import find
from tilewright.core.problem import Problem
engine, kernel = CudaEngine(), find("naive")
nowhere = Matrix(256, 64, 64, 64, "float32")
run(engine, kernel, kernel.config(), Problem(64, 64, 64), nowhere, nowhere, nowhere)
for use in (engine.synchronize, lambda: engine.download(nowhere)):
    try:
        use()
    except LaunchError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.count("the GPU reports CUDA_ERROR_ILLEGAL_ADDRESS") == 2, done.stderr


# Times


def copy_work(engine, kernel, sets, size):
    plan = copying(engine, kernel, size)

    def work(index, stream):
        a, c = sets[index % len(sets)]
        start(engine, plan, a, a, c, stream)

    return work


def test_a_copy_takes_as_long_as_the_memory_does(engine, copy_kernel):
    size = 8192
    sets = [(engine.upload(np.ones((size, size), np.float32)), engine.upload(poisoned(size, size)))]
    (samples,) = engine.time([copy_work(engine, copy_kernel, sets, size)], 5)
    properties = engine.device.properties
    peak = 2 * properties.memory_clock_rate * 1e3 * properties.global_memory_bus_width / 8
    assert 0.3 < 2 * size * size * 4 / (statistics.median(samples) * 1e-6) / peak < 1.05


def test_twice_the_work_takes_twice_as_long(engine, copy_kernel):
    size = 4096
    sets = [(engine.upload(np.ones((size, size), np.float32)), engine.upload(poisoned(size, size))) for _ in range(4)]
    once = copy_work(engine, copy_kernel, sets, size)

    def twice(index, stream):
        once(index, stream)
        once(index + 1, stream)

    first, second = engine.time([once, twice], 7, rotation=4)
    assert 1.8 < statistics.median(second) / statistics.median(first) < 2.2


def test_short_runs_are_not_timed_by_the_host(engine, copy_kernel):
    sets = [(engine.upload(np.ones((32, 32), np.float32)), engine.upload(poisoned(32, 32)))]
    (samples,) = engine.time([copy_work(engine, copy_kernel, sets, 32)], 20)
    assert 0.3 < statistics.median(samples) < 5
    assert max(samples) < 3 * min(samples)


def test_samples_callbacks_and_rotation(engine, copy_kernel, random):
    array = draw(random, 64, 64)
    sets = [(engine.upload(array), engine.upload(poisoned(64, 64))) for _ in range(37)]
    work, calls = copy_work(engine, copy_kernel, sets, 64), []
    times = engine.time([work, work, work], 4, rotation=37, on_sample=lambda: calls.append(1))
    assert [len(samples) for samples in times] == [4, 4, 4]
    assert len(calls) == 12
    for _, c in sets:
        np.testing.assert_array_equal(engine.download(c), array)


def test_a_work_that_fails_leaves_the_engine_usable(engine, copy_kernel):
    a, plan = engine.upload(np.zeros((32, 32), np.float32)), copying(engine, copy_kernel, 32)

    def fails_in_capture(_, stream):
        if stream is not engine.stream:
            raise LaunchError("on purpose")
        start(engine, plan, a, a, a, stream)

    with pytest.raises(LaunchError, match="on purpose"):
        engine.time([fails_in_capture], 3)
    test_short_runs_are_not_timed_by_the_host(engine, copy_kernel)


def test_a_launch_is_cheap(engine, copy_kernel):
    """Host time of a launch from Python; calls whose plan exists go through the compiled launcher."""
    a, plan = engine.upload(np.zeros((32, 32), np.float32)), copying(engine, copy_kernel, 32)
    best = float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(100):
            start(engine, plan, a, a, a)
        best = min(best, (time.perf_counter() - begin) / 100)
        engine.synchronize()
    assert best < 30e-6


def test_a_product_is_timed_after_other_work_whose_time_is_taken_off(engine):
    kernel = find("coalesced")
    (record,) = measure(engine, [Choice(kernel, kernel.config())], Problem(512, 512, 512), samples=5, library=None)
    assert 0.5 < record.after_other_work_us.median / record.time_us.median < 1.5
