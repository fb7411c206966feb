// What small_m does about factors that parts cannot represent (part_range.cuh): the blocks of a tile tell each other what they have
// seen while they split, and look for sums that may have lost too much. They compute such a tile in float32.
#pragma once

#include "float32_parts/float32_block.cuh"
#include "float32_parts/tile_sums.cuh"
#include "float32_parts/warp_sync.cuh"

constexpr int FALLBACK_ROWS = BM < 64 ? BM : 64, FALLBACK_COLS = SPLITS > 4 ? 16 : 64 / SPLITS;  // that a warpgroup computes at a time
using FallbackTile = Float32Block<FALLBACK_ROWS, FALLBACK_COLS, 128>;

// By the warpgroups that multiply, which have stored their sums: whether parts represent the tile, of which the result has `rows` and
// `cols`. found: what is known of what this block has split.
template <int CONSUMERS, typename Shared>
__device__ __forceinline__ bool parts_in_range(Shared& shared, const RangeCheck& found, int rows, int cols) {
    RangeCheck check = found;
    if (SPLITS > 1) {
        if (threadIdx.x == 0) shared.check = found;
        cluster_sync();
        check = {};
        for (int block = 0; block < SPLITS; ++block) check.add(*in_block(&shared.check, block));
    } else {
        sync_warps(&shared.consumers_synced, 0);
    }
    if (check.in_range && check.least > 0) {
        if (shared.sums.any_below(check.least, rows, cols, threadIdx.x, 128 * CONSUMERS)) atomicMax(&shared.smaller, 1);
        sync_warps(&shared.consumers_synced, SPLITS == 1);
        check.in_range &= shared.smaller == 0;
        if (!check.in_range) shared.sums.sync();  // all blocks have read each other's sums, and find the same
    }
    return check.in_range;
}

// By one warpgroup for each 64 columns: computes this block's part of the tile, that of the block of this rank.
template <typename Shared, typename T, typename Tile>
__device__ __forceinline__ void compute_fallback(Shared& shared, const Factor<float>& A, const Factor<float>& B, const Sizes& sizes,
                                             int depth, const Result<T>& result, const Tile& tile, int rank, int warpgroup) {
    if (rank * FALLBACK_COLS >= 64) return;
    unsigned phase = 0;
    const auto sync = [&] { sync_warps(&shared.synced[warpgroup], phase++); };
    const int col = tile.col + warpgroup * 64 + rank * FALLBACK_COLS;
    for (int row = tile.row; row < min(tile.row + BM, sizes.m) && col < sizes.n; row += FALLBACK_ROWS) {
        const InPlace of_rows(A, tile.matrix, row, sizes.m, true);
        const InPlace of_cols(B, tile.matrix, col, sizes.n, TRANSPOSED_B);
        FallbackTile::compute(of_rows, of_cols, depth, result, row, col, threadIdx.x % 128, shared.fallback[warpgroup], sync);
        sync();  // all have read the last parts
    }
}
