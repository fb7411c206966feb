"""CUDA's language on the emulator: geometry, shared memory, barriers, vector types, atomics, arithmetic."""

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.emulator.program import Watch

GEOMETRY = """
extern "C" __global__ void kernel(unsigned* out) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned* row = out + 6 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
    row[0] = blockIdx.x; row[1] = blockIdx.y; row[2] = blockIdx.z;
    row[3] = threadIdx.x; row[4] = threadIdx.y; row[5] = threadIdx.z;
}
"""


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((7, 1, 1), (1024, 1, 1)),
        ((3, 5, 1), (16, 8, 1)),
        ((2, 3, 4), (5, 3, 7)),
        ((1, 1, 9), (2, 2, 64)),
    ],
)
def test_every_thread_of_every_block_runs_once_and_knows_its_place(grid, block):
    out = np.full((*grid[::-1], *block[::-1], 6), 0xFFFFFFFF, dtype=np.uint32)
    launch(GEOMETRY, out, grid=grid, block=block)
    z, y, x, tz, ty, tx = np.indices(out.shape[:-1])
    np.testing.assert_array_equal(out, np.stack([x, y, z, tx, ty, tz], axis=-1))


@pytest.mark.parametrize("threads", [1, 31, 32, 33, 257, 1024])
def test_barriers_separate_the_steps_of_a_block(threads):
    source = """
    extern "C" __global__ void kernel(int steps, int* out) {
        __shared__ int cells[1024];
        const int i = threadIdx.x, n = blockDim.x;
        cells[i] = i;
        __syncthreads();
        for (int step = 0; step < steps; ++step) {
            const int next = cells[(i + 1) % n] + cells[(i + n - 1) % n];
            __syncthreads();
            cells[i] = next & 0xffff;
            __syncthreads();
        }
        out[blockIdx.x * n + i] = cells[i];
    }
    """
    out = np.zeros((5, threads), dtype=np.int32)
    launch(source, 20, out, grid=(5, 1, 1), block=(threads, 1, 1))
    cells = np.arange(threads)
    for _ in range(20):
        cells = (np.roll(cells, -1) + np.roll(cells, 1)) & 0xFFFF
    np.testing.assert_array_equal(out, np.tile(cells, (5, 1)))


def test_barriers_in_a_function_and_in_a_loop_of_many_threads_blocks():
    source = """
    __device__ int reversed(int* shared, int value) {
        shared[threadIdx.x] = value;
        __syncthreads();
        const int other = shared[blockDim.x - 1 - threadIdx.x];
        __syncthreads();
        return other;
    }
    extern "C" __global__ void kernel(int* out) {
        __shared__ int shared[64];
        int value = threadIdx.x;
        for (unsigned i = 0; i <= blockIdx.x; ++i) value = reversed(shared, value) + 1;
        out[blockIdx.x * blockDim.x + threadIdx.x] = value;
    }
    """
    out = np.zeros((50, 64), dtype=np.int32)
    launch(source, out, grid=(50, 1, 1), block=(64, 1, 1))
    value = np.arange(64)
    for row in out:
        value = value[::-1] + 1
        np.testing.assert_array_equal(row, value)


def test_barriers_that_count_and_vote():
    source = """
    extern "C" __global__ void kernel(const int* predicates, int* out) {
        const int i = threadIdx.x;
        for (int round = 0; round < 3; ++round) {
            const int predicate = predicates[round * blockDim.x + i];
            int* row = out + (round * blockDim.x + i) * 3;
            row[0] = __syncthreads_count(predicate);
            row[1] = __syncthreads_and(predicate);
            row[2] = __syncthreads_or(predicate);
        }
    }
    """
    predicates = np.zeros((3, 100), dtype=np.int32)
    predicates[0, ::3] = 5
    predicates[1, :] = -1
    out = np.full((3, 100, 3), -7, dtype=np.int32)
    launch(source, predicates, out, block=(100, 1, 1))
    np.testing.assert_array_equal(out, [[[34, 0, 1]] * 100, [[100, 1, 1]] * 100, [[0, 0, 0]] * 100])


def test_threads_may_return_where_no_barrier_follows():
    source = """
    extern "C" __global__ void kernel(int* out) {
        __shared__ int total;
        if (threadIdx.x == 0) total = 0;
        __syncthreads();
        if (threadIdx.x % 2) return;
        atomicAdd(&total, 1);
        out[threadIdx.x] = 1;
    }
    """
    out = np.zeros(64, dtype=np.int32)
    launch(source, out, block=(64, 1, 1))
    np.testing.assert_array_equal(out, [1, 0] * 32)


@pytest.mark.parametrize("schedule", [0, 1, 7])
def test_barriers_do_not_wait_for_threads_that_have_returned(schedule):
    """A tree of additions, in which threads return as soon as they have nothing to add, also while others wait."""
    source = """
    extern "C" __global__ void kernel(const int* cells, int* out) {
        __shared__ int sums[256];
        const int self = threadIdx.x;
        sums[self] = cells[self];
        __syncthreads();
        for (int half = 128; half >= 1; half /= 2) {
            if (self >= half) return;
            sums[self] += sums[self + half];
            out[half] = __syncthreads_count(self % 2 == 0);
        }
        out[0] = sums[0];
    }
    """
    cells, out = np.arange(256, dtype=np.int32) ** 2, np.full(129, -1, dtype=np.int32)
    launch(source, cells, out, block=(256, 1, 1), watch=Watch(schedule=schedule))
    assert out[0] == cells.sum()
    assert [out[half] for half in (128, 64, 2, 1)] == [64, 32, 1, 1]


def test_static_shared_memory_is_a_blocks_own_and_starts_poisoned(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", "1")  # so that every block finds what another has left
    source = """
    __shared__ float outer[3];
    template <int N> __device__ float* inner() { __shared__ float cells[N]; return cells; }
    extern "C" __global__ void kernel(float* out) {
        static __shared__ float local[2][2];
        float* row = out + 3 * blockIdx.x;
        row[0] = outer[2]; row[1] = inner<5>()[4]; row[2] = local[1][1];
        outer[2] = inner<5>()[4] = local[1][1] = 1.0f;
    }
    """
    out = np.zeros((4, 3), dtype=np.float32)
    launch(source, out, grid=(4, 1, 1))
    assert np.isnan(out).all()


@pytest.mark.parametrize("size", [64, 100 * 1024, 227 * 1024])
def test_dynamic_shared_memory(monkeypatch, size):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", "1")
    source = """
    #include "ptx/dynamic_shared.cuh"
    extern "C" __global__ void kernel(int count, unsigned* out) {
        DYNAMIC_SHARED(unsigned, cells);
        unsigned* row = out + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
        row[0] = cells[threadIdx.x];
        row[1] = reinterpret_cast<unsigned long long>(cells) % 1024;
        __syncthreads();
        cells[count - 1 - threadIdx.x] = threadIdx.x;
        __syncthreads();
        row[2] = cells[count - 1 - (threadIdx.x + 1) % blockDim.x];
        row[3] = cells[count - 1];
    }
    """
    out = np.zeros((3, 8, 4), dtype=np.uint32)
    launch(source, size // 4, out, grid=(3, 1, 1), block=(8, 1, 1), shared_bytes=size)
    expected = [[0xFFFFFFFF, 0, (i + 1) % 8, 0] for i in range(8)]
    np.testing.assert_array_equal(out, [expected] * 3)


def test_vector_types_have_the_sizes_and_alignments_of_the_gpu():
    types = ["float2", "float3", "float4", "int2", "int3", "int4", "uint2", "uint3", "uint4"]
    types += ["double2", "double3", "double4", "__half", "__half2", "__nv_bfloat16", "__nv_bfloat162"]
    rows = "".join(f"*out++ = sizeof({name}); *out++ = alignof({name});" for name in types)
    source = f'#include "ptx/half.cuh"\nextern "C" __global__ void kernel(int* out) {{ {rows} }}'
    out = np.zeros((len(types), 2), dtype=np.int32)
    launch(source, out)
    # CUDA C++ Programming Guide, "Built-in Vector Types"
    four = [[8, 8], [12, 4], [16, 16]]
    halves = [[2, 2], [4, 4], [2, 2], [4, 4]]
    np.testing.assert_array_equal(out, [*four, *four, *four, [16, 16], [24, 8], [32, 16], *halves])


def test_vectors_are_made_and_moved_whole():
    source = """
    extern "C" __global__ void kernel(const float* in, float* out) {
        const float4 four = *reinterpret_cast<const float4*>(in + 4 * threadIdx.x);
        const float4 other = make_float4(four.w, four.z, four.y, four.x);
        *reinterpret_cast<float4*>(out + 4 * threadIdx.x) = other;
        const int2 two = make_int2(3, 4);
        const uint4 many = make_uint4(1, 2, 3, 4);
        const double2 wide = make_double2(0.5, 0.25);
        if (threadIdx.x == 0) out[0] += two.x * many.w + two.y + wide.x + wide.y;
    }
    """
    values = np.arange(64, dtype=np.float32).reshape(16, 4)
    out = np.zeros_like(values)
    launch(source, values, out, block=(16, 1, 1))
    expected = values[:, ::-1].copy()
    expected[0, 0] += 3 * 4 + 4 + 0.75
    np.testing.assert_array_equal(out, expected)


def test_atomics_of_all_blocks_add_up():
    source = """
    extern "C" __global__ void kernel(int* i, unsigned* u, float* f) {
        atomicAdd(i, -2);
        atomicAdd(u, 3u);
        atomicAdd(f, 0.5f);
    }
    """
    i, u, f = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.uint32), np.zeros(1, dtype=np.float32)
    launch(source, i, u, f, grid=(1000, 1, 1), block=(64, 1, 1))
    assert (i[0], u[0], f[0]) == (-128000, 192000, 32000)


def test_atomics_return_the_old_value():
    source = """
    extern "C" __global__ void kernel(unsigned* counter, int* out) { out[atomicAdd(counter, 1u)] = 1; }
    """
    counter, out = np.zeros(1, dtype=np.uint32), np.zeros(1000, dtype=np.int32)
    launch(source, counter, out, grid=(10, 1, 1), block=(100, 1, 1))
    assert out.all()


def test_blocks_run_at_the_same_time(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", "3")
    source = """
    extern "C" __global__ void kernel(int* arrived, int* met) {
        atomicAdd(arrived, 1);
        for (int i = 0; i < 300000000 && !met[blockIdx.x]; ++i) met[blockIdx.x] = atomicAdd(arrived, 0) == 3;
    }
    """
    arrived, met = np.zeros(1, dtype=np.int32), np.zeros(3, dtype=np.int32)
    launch(source, arrived, met, grid=(3, 1, 1))
    assert met.all()


def test_arithmetic():
    source = """
    __constant__ int table[3] = {1, 2, 4};
    extern "C" __global__ void __launch_bounds__(32, 1) kernel(const float* __restrict__ x, float* out) {
        *out++ = fmaf(x[0], x[1], x[2]);
        *out++ = __fmaf_rn(x[0], x[1], -x[2]);
        *out++ = min(x[0], x[1]);
        *out++ = max(x[0], nanf(""));
        *out++ = min(3, 4u) + max(-5LL, -4);
        *out++ = __popc(0xf0f0u);
        *out++ = __ffs(8) * 10 + __ffs(0);
        *out++ = __clz(1) * 100 + __clz(0);
        *out++ = __funnelshift_l(0x30000000u, 1u, 4) * 100 + __funnelshift_l(9u, 8u, 32);
        *out++ = __ldg(x + 1) + table[2];
        *out++ = warpSize;
    }
    """
    x = np.array([1 + 2**-12, 1 - 2**-12, -1], dtype=np.float32)
    out = np.zeros(11, dtype=np.float32)
    launch(source, x, out)
    fused = -(2.0**-24)  # lost where the product is rounded on its own
    np.testing.assert_array_equal(out, [fused, 2, x[1], x[0], 3 - 4, 8, 40, 3132, 1908, x[1] + np.float32(4), 32])


def test_a_multiply_and_an_add_become_one_fma_where_the_processor_has_it():
    source = """
    extern "C" __global__ void kernel(const float* x, float* out) {
        out[0] = x[0] * x[1] + x[2];
    #if defined(__FMA__) || defined(__aarch64__)
        out[1] = 1;
    #endif
    }
    """
    x = np.array([1 + 2**-12, 1 - 2**-12, -1], dtype=np.float32)
    out = np.zeros(2, dtype=np.float32)
    launch(source, x, out)
    assert out[0] == (-(2.0**-24) if out[1] else 0)
