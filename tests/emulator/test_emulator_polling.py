"""Threads that look at memory until another thread changes it: locks, turns, and barriers of grids made by hand."""

import re

import numpy as np
import pytest

import tilewright
from tilewright.core.problem import Problem
from tilewright.emulator.check import check as check_product
from tilewright.emulator.launches import check_launch, draw
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime.host_compiler import find_compiler

pytestmark = pytest.mark.skipif(find_compiler().gcc < 11, reason="of GCC, from 11 on")

BARRIER = """// tilewright: y=zeros:int32[512] z=out:int32[512] count=zeros:uint32[1] grid=4 block=128
__device__ void meet(unsigned* count) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1);
        WAIT
        __threadfence();
    }
    __syncthreads();
}
__global__ void two_steps(int* y, int* z, unsigned* count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = i;
    meet(count);
    z[i] = y[511 - i];
}
"""

WAITS = {
    "a volatile read": "while (*(volatile unsigned*)count < gridDim.x) {}",
    "an atomic operation that changes nothing": "while (atomicAdd(count, 0) < gridDim.x) {}",
    "an exchange that fails": "while (atomicCAS(count, gridDim.x, gridDim.x) != gridDim.x) {}",
    "__nanosleep": "while (atomicAdd(count, 0) < gridDim.x) __nanosleep(100);",
    "__ldcv": "while (__ldcv(count) < gridDim.x) {}",
}


def check(folder, text, args=""):
    (folder / "kernel.cu").write_text(text)
    launch = read_launch(str(folder / "kernel.cu"), args)
    return check_launch(launch), draw(launch)


@pytest.mark.first(1)
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_blocks_wait_for_each_other(wait, tmp_path):
    result, _ = check(tmp_path, BARRIER.replace("WAIT", wait))
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs["z"], np.arange(512)[::-1])


@pytest.mark.first(1)
@pytest.mark.parametrize("left", ["atomicAdd(count, 1);\n", "WAIT"])
def test_a_barrier_of_a_grid_that_lacks_its_fences_is_a_race(left, tmp_path):
    text = BARRIER.replace("__threadfence();\n        " + left, left).replace(left + "\n        __threadfence();", left)
    result, _ = check(tmp_path, text.replace("WAIT", WAITS["a volatile read"]))
    assert {one.kind for one in result.findings} == {"race"}


@pytest.mark.further
def test_blocks_take_turns_backwards(tmp_path):
    text = """// tilewright: x=float32[64] y=zeros:float32[1] turn=zeros:uint32[1] grid=16 block=32
    __global__ void sum(const float* x, float* y, unsigned* turn) {
        if (threadIdx.x != 0) return;
        while (atomicAdd(turn, 0) != gridDim.x - 1 - blockIdx.x) {}
        __threadfence();
        *y += x[blockIdx.x];
        __threadfence();
        atomicAdd(turn, 1);
    }
    """
    result, inputs = check(tmp_path, text)
    assert result.findings == []
    np.testing.assert_allclose(result.outputs["y"][0], inputs["x"][:16].sum(), rtol=1e-5)


@pytest.mark.further
def test_a_wait_for_a_block_of_which_only_another_order_begins_later_is_no_fault(tmp_path):
    text = """// tilewright: y=out:int32[4] flags=zeros:int32[4] grid=4 block=32
    __global__ void wait(int* y, volatile int* flags) {
        if (threadIdx.x != 0) return;
        if (blockIdx.x > 0) while (flags[blockIdx.x - 1] == 0) {}
        __threadfence();
        y[blockIdx.x] = blockIdx.x == 0 ? 1 : y[blockIdx.x - 1] + 1;
        __threadfence();
        flags[blockIdx.x] = 1;
    }
    """
    result, _ = check(tmp_path, text)
    assert result.findings == []
    assert result.outputs["y"].tolist() == [1, 2, 3, 4]


LOCK = """// tilewright: x=float32[512] y=zeros:float32[1] locked=zeros:int32[1] grid=4 block=128
__global__ void sum(const float* x, float* y, int* locked) {
    __shared__ int own;
    __shared__ float all;
    if (threadIdx.x == 0) own = 0, all = 0;
    __syncthreads();
    while (atomicCAS(LOCK, 0, 1) != 0) {}
    FENCE
    SUM += x[blockIdx.x * 128 + threadIdx.x];
    FENCE
    atomicExch(LOCK, 0);
    __syncthreads();
    if (threadIdx.x == 0 && LOCK == &own) atomicAdd(y, all);
}
"""


@pytest.mark.first(1)
@pytest.mark.parametrize("lock, sum_", [("&own", "all"), ("locked", "*y")], ids=["shared", "global"])
def test_a_lock_orders_threads_of_a_block_and_of_others(lock, sum_, tmp_path):
    text = LOCK.replace("LOCK", lock).replace("SUM", sum_)
    result, inputs = check(tmp_path, text.replace("FENCE", "__threadfence();"))
    assert result.findings == []
    np.testing.assert_allclose(result.outputs["y"][0], inputs["x"].sum(), rtol=1e-4)
    result, _ = check(tmp_path, text.replace("FENCE", ""))
    assert {one.kind for one in result.findings} == {"race"}


def test_a_thread_that_waits_for_one_of_its_block_lets_it_run(tmp_path):
    text = """// tilewright: y=out:int32[64] flag=zeros:int32[1] grid=1 block=64
    __global__ void wait(int* y, volatile int* flag) {
        if (threadIdx.x == 0) while (*flag == 0) {}
        if (threadIdx.x == 63) *flag = 1;
        y[threadIdx.x] = 1;
    }
    """
    assert check(tmp_path, text)[0].findings == []


@pytest.mark.first(1)
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_wait_for_what_never_comes_is_found_with_its_line(blocks, tmp_path):
    text = """// tilewright: y=out:int32[64] flag=zeros:int32[4] grid=1 block=64
    __global__ void wait(int* y, volatile int* flag) {
        if (threadIdx.x == 5)
            while (flag[2] == 0) {}
        __syncthreads();
        y[threadIdx.x] = 1;
    }
    """
    (found,) = check(tmp_path, text.replace("grid=1", f"grid={blocks}"))[0].findings
    assert found.kind == "endless wait"
    assert str(found) == (
        "thread (5, 0, 0) of block (0, 0, 0) waits for flag[2] at kernel.cu:4, and no thread that runs changes it"
    )


@pytest.mark.further
def test_blocks_of_a_matrix_product_take_turns(tmp_path):
    path = tmp_path / "turns.cu"
    path.write_text("""// tilewright: block=(16,16) grid=(ceil(N/16),ceil(M/16),3)
    __device__ unsigned turns[16];
    extern "C" __global__ void turns_(const float* A, const float* B, float* C, int M, int N, int K) {
        const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
        const int later = gridDim.z - 1 - blockIdx.z;
        unsigned* const turn = &turns[blockIdx.y * gridDim.x + blockIdx.x];
        float sum = 0;
        if (row < M && col < N) {
            for (int k = blockIdx.z; k < K; k += 3) sum += A[row * K + k] * B[k * N + col];
        }
        if (threadIdx.x + threadIdx.y == 0) while (atomicAdd(turn, 0) != later) {}
        __syncthreads();
        __threadfence();
        if (row < M && col < N) C[row * N + col] = later == 0 ? sum : C[row * N + col] + sum;
        __threadfence();
        __syncthreads();
        if (threadIdx.x + threadIdx.y == 0) atomicExch(turn, later == 2 ? 0 : later + 1);
    }
    """)
    kernel = tilewright.Kernel.from_source(str(path))
    random = np.random.default_rng(0)
    a, b = random.standard_normal((33, 20), np.float32), random.standard_normal((20, 40), np.float32)
    result = check_product(kernel, kernel.config(), Problem(33, 40, 20), a, b, np.zeros((33, 40), np.float32))
    assert result.findings == []
    np.testing.assert_allclose(result.result, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.further
def test_more_blocks_than_run_together_are_beyond_it(tmp_path):
    text = BARRIER.replace("WAIT", WAITS["a volatile read"]).replace("grid=4", "grid=2048")
    (found,) = check(tmp_path, text.replace("[512]", "[262144]"))[0].findings
    words = r"block \(0, 0, 0\) thread \(0, 0, 0\) waits.*; up to 131,072 threads can run together"
    assert re.search(words, str(found))
