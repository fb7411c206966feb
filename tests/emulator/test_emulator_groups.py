"""Cooperative groups, and warp operations that combine the lanes' values, on the emulator."""

import numpy as np
import pytest
from emulator_helpers import kinds_found, launch

from tilewright.core.errors import CompileError

GROUPS = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;\n"
RANDOM = np.random.default_rng(6)


@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0000FFFF, 0x80000001, 0x12345678])
def test_reductions_of_a_mask(mask):
    source = """
    extern "C" __global__ void kernel(unsigned mask, const int* values, int* out) {
        if (!(mask >> threadIdx.x & 1)) return;
        const int value = values[threadIdx.x];
        int* row = out + 9 * threadIdx.x;
        row[0] = __reduce_add_sync(mask, value);
        row[1] = __reduce_min_sync(mask, value);
        row[2] = __reduce_max_sync(mask, value);
        row[3] = __reduce_add_sync(mask, unsigned(value));
        row[4] = __reduce_min_sync(mask, unsigned(value));
        row[5] = __reduce_max_sync(mask, unsigned(value));
        row[6] = __reduce_and_sync(mask, value);
        row[7] = __reduce_or_sync(mask, value);
        row[8] = __reduce_xor_sync(mask, value);
    }
    """
    values, out = RANDOM.integers(-(2**31), 2**31, 32).astype(np.int32), np.zeros((32, 9), np.int32)
    launch(source, np.uint32(mask).view(np.int32).item(), values, out, block=(32, 1, 1))
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    s, u = values[lanes], values[lanes].view(np.uint32)
    bitwise = [function.reduce(u) for function in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    expected = [s.sum(dtype=np.int32).view(np.uint32), s.min().view(np.uint32), s.max().view(np.uint32)]
    expected += [u.sum(dtype=np.uint32), u.min(), u.max(), *bitwise]
    np.testing.assert_array_equal(out[lanes].view(np.uint32), np.tile(expected, (len(lanes), 1)))


def test_matches():
    source = """
    extern "C" __global__ void kernel(const float* values, unsigned* out) {
        const float value = values[threadIdx.x];
        unsigned* row = out + 6 * threadIdx.x;
        int all, none;
        row[0] = __match_any_sync(0xffffffff, value);
        row[1] = __match_any_sync(threadIdx.x % 2 ? 0xaaaaaaaa : 0x55555555, (long long)threadIdx.x / 8 << 40);
        row[2] = __match_all_sync(0xffffffff, 7, &all);
        row[3] = all;
        row[4] = __match_all_sync(0xffffffff, threadIdx.x == 31, &none);
        row[5] = none;
    }
    """
    values, out = RANDOM.integers(0, 4, 32).astype(np.float32), np.zeros((32, 6), np.uint32)
    launch(source, values, out, block=(32, 1, 1))
    for lane, row in enumerate(out):
        equal = sum(1 << other for other in range(32) if values[other] == values[lane])
        near = sum(1 << other for other in range(lane % 2, 32, 2) if other // 8 == lane // 8)
        assert row.tolist() == [equal, near, 0xFFFFFFFF, 1, 0, 0]


@pytest.mark.first(2)
@pytest.mark.parametrize("size", [1, 2, 8, 32])
def test_tiles(size):
    source = (
        GROUPS
        + """
    extern "C" __global__ void kernel(const int* values, int* out) {
        cg::thread_block block = cg::this_thread_block();
        auto tile = cg::tiled_partition<SIZE>(block);
        const int value = values[block.thread_rank()];
        int* row = out + 16 * block.thread_rank();
        row[0] = tile.thread_rank();
        row[1] = tile.size();
        row[2] = tile.meta_group_rank();
        row[3] = tile.meta_group_size();
        row[4] = tile.shfl(value, SIZE - 1);
        row[5] = tile.shfl_up(value, 1);
        row[6] = tile.shfl_down(value, 1);
        row[7] = tile.shfl_xor(value, SIZE / 2);
        row[8] = tile.any(value > 90);
        row[9] = tile.all(value > 10);
        row[10] = tile.ballot(value % 2);
        row[11] = cg::reduce(tile, value, cg::plus<int>());
        row[12] = cg::reduce(tile, value, cg::less<int>());
        row[13] = cg::reduce(tile, value, cg::greater<int>());
        row[14] = tile.num_threads() + block.num_threads() + block.group_index().x;
        row[15] = tile.match_any(value % 3);
    }
    """
    )
    values = RANDOM.integers(0, 100, 96)
    out = np.zeros((96, 16), np.int32)
    launch(source, values.astype(np.int32), out, block=(8, 4, 3), defines={"SIZE": size})
    for thread, row in enumerate(out):
        first, rank = thread // size * size, thread % size
        own, value = values[first : first + size].tolist(), int(values[thread])
        bits = sum(x % 2 << i for i, x in enumerate(own))
        equal = sum(1 << i for i, x in enumerate(own) if x % 3 == value % 3)
        up, down = own[max(rank - 1, 0)], own[min(rank + 1, size - 1)]
        expected = [rank, size, thread // size, 96 // size, own[-1], up, down, own[rank ^ size // 2], max(own) > 90]
        expected += [min(own) > 10, bits, sum(own), min(own), max(own), size + 96, equal]
        np.testing.assert_array_equal(row.view(np.uint32), np.array(expected, np.uint32))


SUM = (
    GROUPS
    + """
template <typename Tile>
__device__ float total(const Tile& tile, float value) {
    for (int distance = tile.size() / 2; distance > 0; distance /= 2) value += tile.shfl_down(value, distance);
    return value;
}
extern "C" __global__ void kernel(const float* values, float* out) {
    __shared__ float sums[8];
    const auto block = cg::this_thread_block();
    const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    const float own = total(warp, values[cg::this_grid().thread_rank()]);
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = own;
    SYNC;
    if (warp.meta_group_rank() == 0) {
        const auto quarter = cg::tiled_partition<8>(warp);
        const float sum = cg::reduce(quarter, quarter.meta_group_rank() == 0 ? sums[quarter.thread_rank()] : 0.0f,
                                     [](float a, float b) { return a + b; });
        if (warp.thread_rank() == 0) out[blockIdx.x] = sum;
    }
}
"""
)


@pytest.mark.first(1)
@pytest.mark.parametrize("call", ["block.sync()", "cg::sync(block)", "cg::thread_group(block).sync()"])
def test_a_sum_of_a_block(call):
    values, out = RANDOM.integers(-9, 9, (3, 256)).astype(np.float32), np.zeros(3, np.float32)
    source = SUM.replace("SYNC", call)
    launch(source, values, out, grid=(3, 1, 1), block=(256, 1, 1))
    np.testing.assert_array_equal(out, values.sum(axis=1))
    assert kinds_found(source, values, out, grid=(3, 1, 1), block=(256, 1, 1)) == set()


def test_the_checker_misses_the_sync_of_a_group():
    arrays = np.zeros((3, 256), np.float32), np.zeros(3, np.float32)
    assert "race" in kinds_found(SUM.replace("SYNC", ""), *arrays, grid=(3, 1, 1), block=(256, 1, 1))
    tiles = (
        GROUPS
        + """
    extern "C" __global__ void kernel(int* out) {
        __shared__ int cells[64];
        const cg::thread_group tile = cg::tiled_partition<16>(cg::this_thread_block());
        cells[threadIdx.x] = threadIdx.x;
        tile.sync();
        out[threadIdx.x] = cells[threadIdx.x ^ DISTANCE] + tile.thread_rank() + tile.size();
    }
    """
    )
    out = np.zeros(64, np.int32)
    assert kinds_found(tiles.replace("DISTANCE", "15"), out, block=(64, 1, 1)) == set()
    np.testing.assert_array_equal(out, (np.arange(64) ^ 15) + np.arange(64) % 16 + 16)
    assert "race" in kinds_found(tiles.replace("DISTANCE", "16"), out, block=(64, 1, 1))
    assert "race" in kinds_found(tiles.replace("DISTANCE", "15").replace("tile.sync();", ""), out, block=(64, 1, 1))


def test_lanes_that_have_come_together():
    source = (
        GROUPS
        + """
    extern "C" __global__ void kernel(const int* values, int* out) {
        const int value = values[threadIdx.x];
        if (value % 3 != 0) return;
        const auto active = cg::coalesced_threads();
        int* row = out + 9 * threadIdx.x;
        row[0] = active.size();
        row[1] = active.thread_rank();
        row[2] = active.shfl(value, 1);
        row[3] = active.shfl_up(value, 2);
        row[4] = active.shfl_down(value, 2);
        row[5] = active.any(value == 30);
        row[6] = active.all(value < 90);
        row[7] = active.ballot(value % 2);
        row[8] = cg::reduce(active, value, cg::plus<int>());
        active.sync();
    }
    """
    )
    values = RANDOM.integers(0, 100, 64)
    out = np.zeros((64, 9), np.int32)
    launch(source, values.astype(np.int32), out, block=(64, 1, 1))
    for warp in (range(32), range(32, 64)):
        together = [thread for thread in warp if values[thread] % 3 == 0]
        own = [int(values[thread]) for thread in together]
        last = len(own) - 1
        for rank, thread in enumerate(together):
            bits = sum(x % 2 << i for i, x in enumerate(own))
            up, down = own[rank - 2 if rank >= 2 else rank], own[rank + 2 if rank + 2 <= last else rank]
            expected = [len(own), rank, own[1], up, down, 30 in own, max(own) < 90, bits, sum(own)]
            assert out[thread].tolist() == expected


PARTITIONS = f"""{GROUPS}
#include <cooperative_groups/scan.h>
extern "C" __global__ void kernel(const int* values, int* out) {{
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const auto half = cg::tiled_partition<16>(warp);
    const int value = values[threadIdx.x];
    int* row = out + 6 * threadIdx.x;
    row[0] = cg::inclusive_scan(warp, value);
    row[1] = cg::inclusive_scan(half, value, cg::greater<int>());
    row[2] = cg::exclusive_scan(warp, value);
    const auto alike = cg::labeled_partition(warp, value % 3);
    row[3] = cg::reduce(alike, value, cg::plus<int>());
    row[4] = cg::exclusive_scan(alike, value);
    const auto odd = cg::binary_partition(warp, value % 2 != 0);
    row[5] = odd.size() * 100 + odd.thread_rank();
}}
"""


def test_scans_and_partitions():
    values, out = RANDOM.integers(0, 100, 64).astype(np.int32), np.zeros((64, 6), np.int32)
    launch(PARTITIONS, values, out, block=(64, 1, 1))
    for thread, row in enumerate(out):
        before = values[thread // 32 * 32 : thread]
        warp = values[thread // 32 * 32 : thread // 32 * 32 + 32]
        alike = warp % 3 == values[thread] % 3
        odd = warp % 2 == values[thread] % 2
        assert row.tolist() == [
            before.sum() + values[thread],
            values[thread // 16 * 16 : thread + 1].max(),
            before.sum(),
            warp[alike].sum(),
            before[before % 3 == values[thread] % 3].sum(),
            odd.sum() * 100 + odd[: thread % 32].sum(),
        ]


COPIED = f"""{GROUPS}
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>
extern "C" __global__ void kernel(const float* from, float* out) {{
    __shared__ float tile[2][64];
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile[0], from, sizeof tile[0]);
    WAIT
    __pipeline_memcpy_async(&tile[1][threadIdx.x], &from[64 + threadIdx.x], 4);
    __pipeline_commit();
    PRIOR
    __syncthreads();
    out[threadIdx.x] = tile[0][63 - threadIdx.x] + tile[1][63 - threadIdx.x];
}}
"""


def test_copies_of_a_group():
    source = COPIED.replace("WAIT", "cg::wait(block);").replace("PRIOR", "__pipeline_wait_prior(0);")
    values, out = RANDOM.standard_normal(128).astype(np.float32), np.zeros(64, np.float32)
    launch(source, values, out, block=(64, 1, 1))
    np.testing.assert_array_equal(out, values[63::-1] + values[:63:-1])
    assert kinds_found(source, values, out, block=(64, 1, 1)) == set()


@pytest.mark.parametrize(("wait", "prior"), [("", "__pipeline_wait_prior(1);"), ("cg::wait(block);", "")])
def test_copies_that_nobody_waits_for(wait, prior):
    values, out = RANDOM.standard_normal(128).astype(np.float32), np.zeros(64, np.float32)
    source = COPIED.replace("WAIT", wait).replace("PRIOR", prior)
    assert "unfinished copy" in kinds_found(source, values, out, block=(64, 1, 1))


def test_a_header_that_is_not_there_is_named():
    source = '#include <cub/block/block_reduce.cuh>\nextern "C" __global__ void kernel() {}\n'
    with pytest.raises(CompileError, match=r"which has no cub/block/block_reduce\.cuh: "):
        launch(source)
