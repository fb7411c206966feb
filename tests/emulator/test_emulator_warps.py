"""Warp-wide operations on the emulator: shuffles, votes, __syncwarp, __activemask."""

import numpy as np
import pytest
from emulator_helpers import launch

WIDTHS = (1, 2, 4, 8, 16, 32)
ARGUMENTS = range(-3, 40)
POISON = 0xFFFFFFFF


def source_lane(kind, lane, argument, width):
    """Whose value a lane gets, as the PTX manual's shfl.sync has it; the argument's low five bits count."""
    b, segment = argument % 32, lane - lane % width
    last = segment + width - 1
    if kind == "":
        return segment + b % width
    if kind == "_up":
        return lane - b if lane - b >= segment else lane
    if kind == "_down":
        return lane + b if lane + b <= last else lane
    return lane ^ b if lane ^ b <= last else lane


@pytest.mark.parametrize("kind", ["", "_up", "_down", "_xor"])
def test_shuffles_take_the_value_of_the_lane_that_the_manual_names(kind):
    source = f"""
    extern "C" __global__ void kernel(int first, int last, int* out) {{
        for (int width = 1; width <= 32; width *= 2) {{
            for (int argument = first; argument <= last; ++argument, out += blockDim.x) {{
                const int value = 1000 * (threadIdx.x / 32) + threadIdx.x % 32;
                out[threadIdx.x] = __shfl{kind}_sync(0xffffffff, value, argument, width);
            }}
        }}
    }}
    """
    out = np.full((len(WIDTHS), len(ARGUMENTS), 3, 32), -1, dtype=np.int32)
    launch(source, ARGUMENTS[0], ARGUMENTS[-1], out, block=(96, 1, 1))
    lanes = [[[source_lane(kind, lane, b, width) for lane in range(32)] for b in ARGUMENTS] for width in WIDTHS]
    np.testing.assert_array_equal(out, np.array(lanes)[:, :, None, :] + 1000 * np.arange(3)[:, None])


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32, np.float64, np.int64])
def test_shuffles_move_every_type(dtype):
    name = {"int32": "int", "uint32": "unsigned", "float32": "float", "float64": "double", "int64": "long long"}
    source = f"""
    extern "C" __global__ void kernel(const {name[np.dtype(dtype).name]}* in, {name[np.dtype(dtype).name]}* out) {{
        out[threadIdx.x] = __shfl_xor_sync(0xffffffff, in[threadIdx.x], 31);
    }}
    """
    values = (np.arange(32) * 1234567.0 - 3e7).astype(dtype)
    out = np.zeros_like(values)
    launch(source, values, out, block=(32, 1, 1))
    np.testing.assert_array_equal(out, values[::-1])


def test_a_warp_reduces_by_shuffles():
    source = """
    extern "C" __global__ void kernel(const float* in, float* out) {
        float sum = in[blockIdx.x * blockDim.x + threadIdx.x];
        for (int delta = 16; delta > 0; delta /= 2) sum += __shfl_down_sync(0xffffffff, sum, delta);
        __shared__ float sums[32];
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x >= 32) return;
        sum = sums[threadIdx.x];
        for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
        out[blockIdx.x * 32 + threadIdx.x] = sum;
    }
    """
    values = np.random.default_rng(1).integers(0, 100, (20, 1024)).astype(np.float32)
    out = np.zeros((20, 32), dtype=np.float32)
    launch(source, values, out, grid=(20, 1, 1), block=(1024, 1, 1))
    np.testing.assert_array_equal(out, np.tile(values.sum(axis=1, keepdims=True), 32))


VOTES = """
extern "C" __global__ void kernel(const int* predicates, unsigned mask, unsigned* out) {
    if (!(mask >> threadIdx.x % 32 & 1)) return;
    const int predicate = predicates[threadIdx.x];
    out[3 * threadIdx.x] = __ballot_sync(mask, predicate);
    out[3 * threadIdx.x + 1] = __any_sync(mask, predicate);
    out[3 * threadIdx.x + 2] = __all_sync(mask, predicate);
}
"""


@pytest.mark.parametrize("mask", [-1, 0x0F0F0F0F, 1 << 30])
def test_votes_count_the_lanes_of_the_mask(mask):
    predicates = np.zeros((4, 32), dtype=np.int32)
    predicates[1] = 2
    predicates[2] = np.random.default_rng(2).integers(0, 2, 32)
    predicates[3, 30] = -1
    out = np.full((4, 32, 3), 99, dtype=np.uint32)
    launch(VOTES, predicates, mask, out, block=(128, 1, 1))
    members = np.array([mask >> lane & 1 for lane in range(32)], dtype=bool)
    for row, true in zip(out, predicates != 0, strict=True):
        ballot = sum(1 << lane for lane in range(32) if true[lane] and members[lane])
        np.testing.assert_array_equal(row[members], [[ballot, true[members].any(), true[members].all()]] * sum(members))
        assert (row[~members] == 99).all()


def test_lanes_that_have_returned_are_not_waited_for():
    """Programming Guide: all *non-exited* threads named in the mask take part."""
    source = """
    extern "C" __global__ void kernel(int alive, unsigned* out) {
        if (threadIdx.x >= alive) return;
        out[threadIdx.x] = __ballot_sync(0xffffffff, 1);
        __syncwarp();
        out[64 + threadIdx.x] = __shfl_sync(0xffffffffu, threadIdx.x, 20);
    }
    """
    out = np.zeros((2, 64), dtype=np.uint32)
    launch(source, 37, out, block=(50, 1, 1))
    np.testing.assert_array_equal(out[0], [0xFFFFFFFF] * 32 + [0b11111] * 5 + [0] * 27)
    np.testing.assert_array_equal(out[1], [20] * 32 + [POISON] * 5 + [0] * 27)  # lane 20 of the second warp is gone


def test_parts_of_a_warp_go_their_own_ways():
    source = """
    extern "C" __global__ void kernel(int* out) {
        const int lane = threadIdx.x % 32;
        int value = lane;
        if (lane < 8) {
            for (int i = 0; i < 5; ++i) value = __shfl_sync(0x000000ff, value, (lane + 1) % 8);
        } else if (lane < 20) {
            value = __ballot_sync(0x000fff00, lane % 2);
            __syncwarp(0x000fff00);
        } else {
            value = __shfl_down_sync(0xfff00000, value, 2);
        }
        __syncwarp();
        out[threadIdx.x] = __shfl_xor_sync(0xffffffff, value, 1);
    }
    """
    out = np.zeros((2, 32), dtype=np.int32)
    launch(source, out, block=(64, 1, 1))
    value = [(lane + 5) % 8 for lane in range(8)] + [0xAAA00 & 0xFFF00] * 12
    value += [min(lane + 2, 99) if lane + 2 < 32 else lane for lane in range(20, 32)]
    np.testing.assert_array_equal(out, [np.array(value)[np.arange(32) ^ 1]] * 2)


def test_syncwarp_orders_shared_memory_within_a_warp():
    source = """
    extern "C" __global__ void kernel(int* out) {
        __shared__ int cells[128];
        const int i = threadIdx.x, first = i & ~31;
        cells[i] = i;
        for (int step = 0; step < 10; ++step) {
            __syncwarp();
            const int next = cells[first + (i + 1) % 32];
            __syncwarp();
            cells[i] = next;
        }
        out[i] = cells[i];
    }
    """
    out = np.zeros((4, 32), dtype=np.int32)
    launch(source, out, block=(128, 1, 1))
    np.testing.assert_array_equal(out, (np.arange(32) + 10) % 32 + 32 * np.arange(4)[:, None])


def test_each_warp_elects_one_thread_when_all_have_come():
    source = """
    #include <ptx/elect.cuh>
    extern "C" __global__ void kernel(int* out) {
        __shared__ int came[64];
        came[threadIdx.x] = threadIdx.x < 32 || threadIdx.x % 2 == 0;
        if (!elect_one()) return;
        for (int lane = 0; lane < 32; ++lane) out[threadIdx.x / 32] += came[threadIdx.x / 32 * 32 + lane];
    }
    """
    out = np.zeros(2, dtype=np.int32)
    launch(source, out, block=(64, 1, 1))
    assert out.tolist() == [32, 16]


def test_activemask_names_the_lanes_that_run_together():
    source = """
    extern "C" __global__ void kernel(unsigned* out) {
        unsigned* row = out + 3 * threadIdx.x;
        row[0] = __activemask();
        if (threadIdx.x % 32 < 8) {
            row[1] = __activemask();
        } else {
            row[1] = __activemask();
            if (threadIdx.x % 32 == 31) return;
        }
        __syncwarp();
        row[2] = __activemask();
    }
    """
    out = np.zeros((2, 32, 3), dtype=np.uint32)
    launch(source, out, block=(64, 1, 1))
    np.testing.assert_array_equal(out[:, :, 0], 0xFFFFFFFF)
    np.testing.assert_array_equal(out[:, :8, 1], 0xFF)
    np.testing.assert_array_equal(out[:, 8:, 1], 0xFFFFFF00)
    np.testing.assert_array_equal(out[:, :31, 2], 0x7FFFFFFF)
    np.testing.assert_array_equal(out[:, 31, 2], 0)
