"""Asynchronous copies, mbarriers, tiles of tensor maps and workspaces on a real GPU: as their models have it."""

import time
from dataclasses import replace

import numpy as np
import pytest
from cuda.core import Device

from async_kernels import (
    BOXES,
    LOAD_STARTS,
    STARTS,
    box_as_it_lies,
    dump,
    dump_kernel,
    load_matrices,
    matrices_as_the_manual_has_them,
    split_k_kernel,
    store,
    stored_as_a_gpu_does,
)
from faulty import faulty
from starting import start
from this_gpu import CAPABILITY, HAS_TENSOR_MAPS
from tilewright.core.errors import ConfigError, ProblemError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.support import Addresses, Support
from tilewright.runtime.base import run
from tilewright.tools.bench.verify import Operands, limit

HAS_ASYNC_COPIES = [()] if CAPABILITY >= (8, 0) else []

SIGNATURE = """(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                float* C, int ldc)"""

COPIES = f"""
#include "ptx/async_copy.cuh"
extern "C" __global__ void copies{SIGNATURE} {{
    __shared__ __align__(16) float shared[2][64 * EACH];
    const int place = threadIdx.x * EACH;
    for (int i = 0; i < EACH; ++i) shared[0][place + i] = -1;
    __syncthreads();
    copy_async<4 * EACH>(&shared[0][place], A + place, threadIdx.x < 50);
    commit_copies();
    copy_async<4 * EACH>(&shared[1][place], A + 64 * EACH + place, true);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * EACH; i += 64) C[i] = shared[0][i];
    wait_copies<0>();
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * EACH; i += 64) C[64 * EACH + i] = shared[1][i];
}}
"""

TURNS = f"""
#include "ptx/mbarrier.cuh"
extern "C" __global__ void turns{SIGNATURE} {{
    __shared__ Barrier full, empty;
    __shared__ float value;
    if (threadIdx.x == 0) {{
        barrier_init(&full, 1);
        barrier_init(&empty, 32);
        fence_barrier_init();
    }}
    __syncthreads();
    if (threadIdx.x < 32) {{
        float sum = 0;
        for (int i = 0; i < K; ++i) {{
            barrier_wait(&full, i % 2);
            sum += value;
            barrier_arrive(&empty);
        }}
        C[threadIdx.x] = sum;
    }} else if (threadIdx.x == 32) {{
        for (int i = 0; i < K; ++i) {{
            barrier_wait(&empty, (i + 1) % 2);
            value = A[i];
            barrier_arrive(&full);
        }}
    }}
}}
"""


@pytest.fixture
def make_kernel(tmp_path):
    def make(name, source, **fields):
        path = tmp_path / f"{name}.cu"
        path.write_text(source)
        return Kernel(
            rung=0,
            name=f"{name} {tmp_path.name}",
            idea="",
            source=path,
            support=replace(fields.pop("support", Support()), vectorized=False),
            parameters=(Parameter("EACH", 1, (1, 2, 4), ""),),
            tile=lambda _: Tile(1 << 20, 1 << 20, 1),
            block=lambda _: (64, 1, 1),
            **fields,
        )

    return make


@pytest.mark.parametrize("_", HAS_ASYNC_COPIES)
@pytest.mark.parametrize("each", [1, 2, 4])
def test_asynchronous_copies(engine, make_kernel, each, _):
    kernel = make_kernel("copies", COPIES, support=Support(least_capability=(8, 0)))
    values = np.arange(1, 128 * each + 1, dtype=np.float32)[None]
    c = engine.upload(np.zeros_like(values))
    run(engine, kernel, kernel.config({"EACH": each}), Problem(1, 4, 128 * each), engine.upload(values), c, c)
    expected = values.copy()
    expected[0, 50 * each : 64 * each] = 0
    np.testing.assert_array_equal(engine.download(c), expected)


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
def test_producer_and_consumers_take_turns(engine, make_kernel, _):
    kernel = make_kernel("turns", TURNS, support=Support(least_capability=(9, 0)))
    values = np.arange(1, 1001, dtype=np.float32)[None]
    c = engine.upload(np.zeros((1, 32), np.float32))
    run(engine, kernel, kernel.config(), Problem(1, 4, 1000), engine.upload(values), c, c)
    np.testing.assert_array_equal(engine.download(c), values.sum())


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize("box", BOXES, ids=str)
def test_a_box_is_stored_as_the_model_does(engine, tmp_path, box, _):
    for corner in STARTS:
        found = store(engine, tmp_path, (50, 44), corner, box)
        np.testing.assert_array_equal(found, stored_as_a_gpu_does((50, 44), corner, box), err_msg=str(corner))


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
@pytest.mark.parametrize("box", BOXES, ids=str)
def test_a_box_lies_as_the_model_puts_it(engine, tmp_path, box, _):
    kernel = dump_kernel(tmp_path)
    matrix = np.arange(1, 50 * 44 + 1, dtype=np.float32).reshape(50, 44)
    for corner in LOAD_STARTS:
        expected = box_as_it_lies(matrix, *corner, *box)
        np.testing.assert_array_equal(dump(engine, kernel, matrix, corner, box), expected, err_msg=str(corner))


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
def test_maps_follow_their_operands(engine, tmp_path, _):
    kernel = dump_kernel(tmp_path)
    for first in range(3):
        matrix = np.arange(first, first + 32 * 8, dtype=np.float32).reshape(32, 8)
        np.testing.assert_array_equal(dump(engine, kernel, matrix, (0, 0), (32, 8, 0)), matrix.ravel())


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
def test_rows_off_a_16_byte_boundary_are_refused(engine, tmp_path, _):
    kernel = dump_kernel(tmp_path)
    config = kernel.config({"ROWS": 8, "COLS": 8, "BYTES": 256})
    problem = Problem(8, 8, 8, a=Layout(ld=12), b=Layout(ld=12))
    for addresses, wrong in (
        (Addresses(a=4), problem),
        (Addresses(b=4), problem),
        (Addresses(), Problem(8, 8, 8, a=Layout(ld=9))),
    ):
        with pytest.raises(ProblemError, match="needs rows of A and B that start at multiples of 16 bytes"):
            engine.plan(kernel, config, wrong, addresses)


@pytest.mark.parametrize("_", HAS_TENSOR_MAPS)
def test_a_launch_with_maps_takes_microseconds(engine, tmp_path, _):
    kernel = dump_kernel(tmp_path)
    config = kernel.config({"ROWS": 8, "COLS": 8, "BYTES": 256})
    a = engine.upload(np.zeros((8, 8), np.float32))
    c = engine.upload(np.zeros((8, 8), np.float32))
    plan = engine.plan(kernel, config, Problem(8, 8, 8))
    best = float("inf")
    for _repeat in range(20):
        begin = time.perf_counter()
        for _launch in range(100):
            start(engine, plan, a, a, c)
        best = min(best, (time.perf_counter() - begin) / 100)
        engine.synchronize()
    assert best < 30e-6


def test_a_gpu_too_old_is_named(engine, make_kernel):
    kernel = make_kernel("turns", TURNS, support=Support(least_capability=(99, 0)))
    with pytest.raises(ConfigError, match=r"turns .* needs a GPU of compute capability 99.0 or newer for float32, got"):
        engine.plan(kernel, kernel.config(), Problem(1, 4, 4))


def test_matrices_come_as_the_model_has_them(engine, tmp_path):
    np.testing.assert_array_equal(load_matrices(engine, tmp_path), matrices_as_the_manual_has_them())


def test_warps_pass_tiles_to_and_fro_by_named_barriers(engine):
    kernel, problem = faulty("right_named"), Problem(200, 304, 3000)
    operands, (a, b, c) = draw(engine, problem)
    run(engine, kernel, kernel.config(), problem, a, b, c)
    sums = operands.a.astype(np.float64).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(engine.download(c), np.broadcast_to(sums, (200, 304)), atol=1e-3)


# Workspaces


def draw(engine, problem, scalars=Scalars()):
    operands = Operands.draw(problem, scalars)
    return operands, [engine.upload(array) for array in (operands.a, operands.b, operands.c)]


@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize("shape", [(16, 16, 64), (500, 330, 70), (1, 100, 3), (20, 20, 0)])
def test_blocks_share_the_work_on_a_tile(engine, tmp_path, splits, shape):
    kernel = split_k_kernel(tmp_path)
    problem, scalars = Problem(*shape), Scalars(alpha=0.5)
    operands, (a, b, c) = draw(engine, problem, scalars)
    plan = run(engine, kernel, kernel.config({"SPLIT_K": splits}), problem, a, b, c, scalars)
    first = engine.download(c)
    assert operands.error(first) <= limit(problem)
    for _ in range(20):
        start(engine, plan, a, b, c, scalars=scalars)
        np.testing.assert_array_equal(engine.download(c), first)


def test_launches_on_two_streams_do_not_meet(engine, tmp_path):
    kernel = split_k_kernel(tmp_path)
    problem = Problem(512, 512, 512)
    with engine.current:
        streams = [Device().create_stream() for _ in range(2)]
    sets = [draw(engine, problem) for _ in streams]
    plan = engine.plan(kernel, kernel.config(), problem)
    for _ in range(20):
        for stream, (_operands, matrices) in zip(streams, sets, strict=True):
            start(engine, plan, *matrices, stream)
    for operands, matrices in sets:
        assert operands.error(engine.download(matrices[2])) <= limit(problem)


def test_the_first_launch_on_a_stream_inside_a_capture(engine, tmp_path):
    kernel = split_k_kernel(tmp_path)
    small, problem = Problem(64, 64, 64), Problem(400, 400, 100)
    operands, (a, b, c) = draw(engine, problem)
    others, rest = draw(engine, small)
    plan, of_small = (engine.plan(kernel, kernel.config(), one) for one in (problem, small))
    with engine.current:
        builder = engine.device.create_graph_builder().begin_building("global")
        start(engine, of_small, *rest, builder.stream)
        start(engine, plan, a, b, c, builder.stream)  # what the small one uses is too small for it
        graph = builder.end_building().complete()
    for _ in range(3):
        with engine.current:
            graph.launch(engine.stream)
        assert operands.error(engine.download(c)) <= limit(problem)
        assert others.error(engine.download(rest[2])) <= limit(small)


def test_timing_a_kernel_with_a_workspace(engine, tmp_path):
    kernel = split_k_kernel(tmp_path)
    problem = Problem(300, 300, 300)
    operands, (a, b, c) = draw(engine, problem)
    plan = engine.plan(kernel, kernel.config(), problem)
    (times,) = engine.time([lambda _, stream: start(engine, plan, a, b, c, stream)], 3)
    assert min(times) > 0
    assert operands.error(engine.download(c)) <= limit(problem)
