"""Launches that begin while the one before them still runs, on a real GPU: none reads or writes what that one uses."""

import time
from collections import Counter

import numpy as np
import pytest
from cuda.bindings import driver

from starting import poisoned, start
from this_gpu import CAPABILITY, HAS_TENSOR_MAPS
from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, Scalars, orders
from tilewright.kernels import KERNELS, find
from tilewright.kernels.kernel import Kernel, Parameter, Schedule, Tile
from tilewright.kernels.library.tma_packed import KERNEL
from tilewright.kernels.support import Support
from tilewright.runtime.base import run
from tilewright.runtime.driver import check
from tilewright.tools.bench.measure import verify
from tilewright.tools.bench.verify import Operands, limit

OVERLAPPING = [
    kernel
    for kernel in KERNELS
    if kernel.overlaps and CAPABILITY > (0, 0) and kernel.support.runs_on(CAPABILITY, kernel.support.factors[0])
]

SHAPES = [
    (512, 512, 512),
    (4096, 64, 512),  # packing takes longer than the product
    (64, 4096, 512),  # and the other way round
    (333, 250, 257),  # B is packed too
    (100, 37, 0),  # nothing is
]
SETS = 8

PLACES = """
#include "ptx/dependent_launch.cuh"

// C[b]: the multiprocessor that block b runs on, where it stays until others had time to start next to it.
extern "C" __global__ void places(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                                  float beta, float* C, int ldc) {
    extern __shared__ float unused[];
    unsigned place;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(place));
    grid_dependency_wait();
    for (const long long begin = clock64(); clock64() - begin < 100000;) {}
    C[blockIdx.x * ldc] = place;
}
"""


@pytest.fixture
def draw(engine):
    """Make sets of operands of a problem, on the host and on the GPU (A and B)."""

    def draw(problem, sets=SETS):
        operands = [Operands.draw(problem, seed=seed) for seed in range(sets)]
        return operands, [(engine.upload(each.a), engine.upload(each.b)) for each in operands]

    return draw


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_launches_back_to_back_share_the_packed_memory(engine, draw, shape, _):
    """The packing of launch i + 1 waits for the kernel of launch i, which reads the same memory; and that one has
    waited for the packing of launch i. So no two of them can meet."""
    problem = Problem(*shape)
    operands, factors = draw(problem)
    alone = []
    for a, b in factors:
        c = engine.upload(poisoned(problem.m, problem.n))
        plan = run(engine, KERNEL, KERNEL.config(), problem, a, b, c)
        alone.append(engine.download(c))
    for each, result in zip(operands, alone, strict=True):
        assert each.error(result) <= limit(problem)
    results = [engine.upload(poisoned(problem.m, problem.n)) for _launch in range(200)]
    for i, c in enumerate(results):
        start(engine, plan, *factors[i % SETS], c)
    for i, c in enumerate(results):
        np.testing.assert_array_equal(engine.download(c), alone[i % SETS], err_msg=f"launch {i}")


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_launch_reads_what_the_one_before_wrote(engine, draw, shape, _):
    """C = A_i @ B_i + C over and over. The packing of a launch waits for the end of the launch before, and the kernel
    reads C after it has waited for the packing."""
    problem = Problem(*shape)
    operands, factors = draw(problem)
    c = engine.upload(np.zeros((problem.m, problem.n), np.float32))
    plan = engine.plan(KERNEL, KERNEL.config(), problem)
    for a, b in factors:
        start(engine, plan, a, b, c, scalars=Scalars(beta=1.0))
    exact = sum(each.a.astype(np.float64) @ each.b.astype(np.float64) for each in operands)
    error = np.linalg.norm(engine.download(c) - exact)
    assert error <= limit(Problem(problem.m, problem.n, SETS * problem.k)) * max(np.linalg.norm(exact), 1.0)


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize(("shape", "packings"), [((512, 512, 512), 1), ((333, 250, 257), 1), ((64, 64, 0), 0)], ids=str)
def test_a_captured_graph_keeps_the_overlap(engine, draw, shape, packings, _):
    """All its edges are programmatic ones: from a packing to the kernel, and from there to the next packing."""
    problem, launches = Problem(*shape), 20
    operands, factors = draw(problem)
    results = [engine.upload(poisoned(problem.m, problem.n)) for _launch in range(launches)]
    plan = run(engine, KERNEL, KERNEL.config(), problem, *factors[0], results[0])
    engine.synchronize()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    with engine.current:
        stream = engine.device.create_stream()
        check(driver.cuStreamBeginCapture(stream.handle, mode))
        for i, c in enumerate(results):
            start(engine, plan, *factors[i % SETS], c, stream)
        graph = check(driver.cuStreamEndCapture(stream.handle))
        status, *edges, count = driver.cuGraphGetEdges(graph, launches * (packings + 1))
        check((status,))
        _before, _after, data = edges
        programmatic = int(driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
        assert count == launches * (packings + 1) - 1
        assert [int(edge.type) for edge in data[:count]] == [programmatic] * count
        executable_graph = check(driver.cuGraphInstantiate(graph, 0))
        for _replay in range(5):
            check(driver.cuGraphLaunch(executable_graph, stream.handle))
        for i, c in enumerate(results):
            assert operands[i % SETS].error(engine.download(c)) <= limit(problem), f"launch {i}"
        check(driver.cuGraphExecDestroy(executable_graph))
        check(driver.cuGraphDestroy(graph))


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
def test_timing_replays_give_right_results(engine, draw, _):
    problem = Problem(1000, 600, 300)
    operands, factors = draw(problem)
    results = [engine.upload(poisoned(problem.m, problem.n)) for _set in range(SETS)]
    plan = run(engine, KERNEL, KERNEL.config(), problem, *factors[0], results[0])

    def work(i, stream):
        start(engine, plan, *factors[i % SETS], results[i % SETS], stream)

    (times,) = engine.time([work], 3, rotation=SETS)
    assert min(times) > 0
    for each, c in zip(operands, results, strict=True):
        assert each.error(engine.download(c)) <= limit(problem)


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
def test_a_launch_with_its_packing_takes_microseconds(engine, draw, _):
    problem = Problem(64, 64, 64)
    _operands, ((a, b),) = draw(problem, 1)
    c = engine.upload(poisoned(64, 64))
    plan = engine.plan(KERNEL, KERNEL.config(), problem)
    best = float("inf")
    for _repeat in range(20):
        begin = time.perf_counter()
        for _launch in range(100):
            start(engine, plan, a, b, c)
        best = min(best, (time.perf_counter() - begin) / 100)
        engine.synchronize()
    assert best < 100e-6  # of two launches: 35 to 60 us, as the host is


@pytest.mark.parametrize("kernel", OVERLAPPING, ids=lambda kernel: kernel.name)
def test_launches_in_a_row_read_what_the_ones_before_wrote(engine, kernel):
    """X = A @ X over and over, from one matrix to another and back: each launch reads all that the one before wrote,
    and writes over what that one read."""
    dtype = kernel.support.factors[0]
    rng = np.random.default_rng(5)
    size, launches = 192, 41
    a = np.linalg.qr(rng.standard_normal((size, size)))[0].astype(dtype)
    x = rng.standard_normal((size, size)).astype(dtype)
    exact = np.linalg.matrix_power(a.astype(np.float64), launches) @ x.astype(np.float64)
    problem = kernel.support.scaled(Problem(size, size, size, Arithmetic(dtype, dtype)))
    drawn = Operands.draw(problem)
    scales = [None if one is None else engine.upload(np.ones_like(one)) for one in (drawn.scale_a, drawn.scale_b)]
    factor, matrices = engine.upload(a), [engine.upload(x), engine.upload(poisoned(size, size).astype(dtype))]
    for i in range(launches):
        run(engine, kernel, kernel.config(), problem, factor, matrices[i % 2], matrices[1 - i % 2], scales=scales)
    error = np.linalg.norm(engine.download(matrices[launches % 2]) - exact) / np.linalg.norm(exact)
    assert error < launches * limit(problem, kernel.support.precision)


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
def test_a_captured_launch_waits_for_other_streams_and_copies(engine, _):
    """Before it in the graph are a copy, and work of another stream that the capture joined."""
    problem = Problem(256, 256, 256)
    operands = Operands.draw(problem)
    a, b = engine.upload(operands.a), engine.upload(operands.b)
    copied, joined, c = (engine.upload(poisoned(256, 256)) for _matrix in range(3))
    kernel = find("split_k")
    plan = run(engine, kernel, kernel.config(), problem, a, b, c)
    engine.synchronize()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    size = 4 * 256 * 256
    with engine.current:
        stream, other = engine.device.create_stream(), engine.device.create_stream()
        forked, done = (check(driver.cuEventCreate(0)) for _event in range(2))
        check(driver.cuStreamBeginCapture(stream.handle, mode))
        check(driver.cuEventRecord(forked, stream.handle))
        check(driver.cuStreamWaitEvent(other.handle, forked, 0))
        start(engine, plan, a, b, joined, other)
        check(driver.cuEventRecord(done, other.handle))
        check(driver.cuMemcpyDtoDAsync(copied.pointer, b.pointer, size, stream.handle))
        check(driver.cuStreamWaitEvent(stream.handle, done, 0))
        start(engine, plan, joined, copied, c, stream)
        graph = check(driver.cuStreamEndCapture(stream.handle))
        executable_graph = check(driver.cuGraphInstantiate(graph, 0))
        check(driver.cuGraphLaunch(executable_graph, stream.handle))
        result = engine.download(c)
        check(driver.cuGraphExecDestroy(executable_graph))
        check(driver.cuGraphDestroy(graph))
    exact = operands.a.astype(np.float64) @ operands.b @ operands.b
    assert np.linalg.norm(result - exact) / np.linalg.norm(exact) < 2 * limit(problem)


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize("copied", [0, 1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(1120, 256, 1312), (777, 777, 777), (31, 65, 7)])
def test_a_config_says_which_factors_are_copied_first(engine, shape, layout, copied, _):
    a, b = orders(layout)
    problem, kernel = Problem(*shape, a=a, b=b), find("tma_transposed")
    _plan, error = verify(engine, kernel, kernel.config({"COPIED": copied}), Operands.draw(problem))
    assert error <= limit(problem)


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize("each", [1, 2, 3])
def test_blocks_that_begin_during_the_packing_spread_evenly(engine, tmp_path, each, _):
    """They would fill the multiprocessors that the packing leaves first, and leave others without any."""
    source = tmp_path / "places.cu"
    source.write_text(PLACES)
    kernel = Kernel(
        rung=0,
        name=f"places {tmp_path.name}",
        idea="",
        source=source,
        support=Support(vectorized=False),
        parameters=(Parameter("GRID", 1, (), ""),),
        tile=lambda config: Tile(1, 1, 1),
        block=lambda config: (128, 1, 1),
        schedule=lambda problem, config, multiprocessors: Schedule(config.GRID),
        shared_bytes=lambda config, layout: 1024,
        relayouts=lambda config: ("row", "row"),
        overlaps=True,
    )
    multiprocessors = engine.device.properties.multiprocessor_count
    problem = Problem(4000, 1, 257)
    a, b = engine.upload(np.ones((4000, 257), np.float32)), engine.upload(np.ones((257, 1), np.float32))
    for _launch in range(20):
        c = engine.upload(poisoned(4000, 1))
        run(engine, kernel, kernel.config({"GRID": each * multiprocessors}), problem, a, b, c)
        places = engine.download(c)[: each * multiprocessors, 0]
        assert Counter(places.tolist()) == dict.fromkeys(range(multiprocessors), each)
