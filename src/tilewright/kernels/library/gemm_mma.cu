// gemm_mma: products on tensor cores to which each warp gives work (mma.sync, sm_80 and newer): for GPUs that lack the warpgroups of
// gemm_sm90. Of factors of 16 bits in either order, of float32 factors, rounded to TF32 on their way into registers, and of float8
// and int8 factors with scales; these have lines along k. And of float32 factors that are first split into SPLIT_PARTS matrices of
// 16 bits, with lines along k (parts_of_warps.cuh).
//
// A block computes one tile, each of its warps a part of WM x WN. With WORKERS, as many blocks of a multiprocessor share the tiles
// left over from the last full wave (stream-K, schedule.cuh): one multiplies while another waits. Tiles of all parts are copied
// STAGES - 1 steps ahead:
//
//   shared memory of a block:
//     | stage 0: A[SPLIT_PARTS], B[SPLIT_PARTS] | stage 1 | ...        lines along k, or across it: fragment_tile.cuh
//
//   copies        | 0 | 1 |   2   |   3   |   4   | ...     STAGES = 3
//   multiply          |   |   0   |   1   |   2   | ...
//
// What a step multiplies, and where sums of tensor cores begin anew, says warp_products.cuh.
#include "epilogue/warpgroup.cuh"
#include "float32_parts/parts_of_warps.cuh"
#include "pipeline/schedule.cuh"
#include "pipeline/shifted_copies.cuh"
#include "pipeline/tile_order.cuh"
#include "pipeline/warp_products.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/dynamic_shared.cuh"

constexpr int WARPS = BM / WM * (BN / WN);
constexpr int THREADS = 32 * WARPS;
constexpr bool SHARES = WORKERS > 0;
using Parts = PartsOfWarps<BM, BN, THREADS>;

union Shared {
    Parts::Memory of_parts;  // before stages are loaded, or in their place
    StepTiles stages[STAGES];
};

// What a block computes: all steps of one tile; or, where blocks share tiles, some steps of one or two.
template <bool>
struct Tiles : TileOrder<BM, BN, GROUP_M> {
    static constexpr int from = 0, to = 0x7fffffff;  // steps along k

    __device__ __forceinline__ explicit Tiles(const Sizes& sizes) : TileOrder(sizes, blockIdx.x, gridDim.x) {}
    template <int, typename Sums>
    __device__ __forceinline__ bool reduce(Sums&, const Workspace&) const {
        return true;
    }
};
template <>
struct Tiles<true> : Schedule<BM, BN, BK> {
    using Schedule::Schedule;
};

extern "C" __global__ void __launch_bounds__(THREADS, SHARES ? WORKERS : 1)
    gemm_mma(Sizes sizes, Factor<FACTOR> A, Factor<FACTOR_B> B, Output<RESULT> output, const __grid_constant__ Parts::Operand split_a,
             const __grid_constant__ Parts::Operand split_b, Scales scales_of_factors, SplitCounters* counters,
             Workspace workspace) {
    DYNAMIC_SHARED(Shared, shared);

    grid_dependency_wait();
    const int depth = depth_of(sizes, output);
    const SplitFactors factors = Parts::split(split_a, split_b, counters, depth, shared->of_parts);

    Tiles<SHARES> tile(sizes);
    if (!tile.next() && SHARES) return;  // else there is one for each block
    do {
        const int warp = threadIdx.x / 32;
        const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;  // of the tile
        const int row = tile.row + warp_row, col = tile.col + warp_col;

        const Result<RESULT> result(output, sizes, tile.matrix);
        const auto compute_fallback = [&] {
            Parts::compute_fallback(split_a, split_b, tile.matrix, depth, result, tile.row, tile.col, shared->of_parts);
        };
        const RangeCheck& parts = factors.parts;
        const bool stores_anew = factors.listed_of_a + factors.listed_of_b > 0;
        if (SPLIT_PARTS > 1 && (!parts.in_range || (stores_anew && output.beta != 0.0f))) return compute_fallback();  // D may be C

        const int from = tile.from, steps = min(depth / BK + (depth % BK != 0), tile.to);
        TileCopies<FACTOR, A_ALONG_K, BM, SPLIT_PARTS, THREADS> of_a(A, tile.matrix, sizes.m, tile.row, from * BK);
        TileCopies<FACTOR_B, B_ALONG_K, BN, SPLIT_PARTS, THREADS> of_b(B, tile.matrix, sizes.n, tile.col, from * BK);
        const auto load = [&](int step) {
            if (step < steps) {
                of_a.start(shared->stages[step % STAGES].A, depth - step * BK, step);
                of_b.start(shared->stages[step % STAGES].B, depth - step * BK, step);
            }
            commit_copies();
        };
        load(from);
        for (int step = 1; step < STAGES - 1; ++step) load(from + step);

        auto scales = [&] {
            if constexpr (FACTOR_SCALES == 2) {
                return WarpBlockScales(scales_of_factors, sizes, row, col, steps);
            } else {
                return WarpPartScales(split_a.scales, split_b.scales, sizes, tile.matrix, depth, row, col);
            }
        }();
        const SumScales<ROWS, 8 * COLS, 16> sum_scales{scales_of_factors, sizes.m, sizes.n, row + own_row<16>(), col, depth > 0};
        Sum sums[ROWS][4 * COLS] = {};
        for (int step = from; step < steps; ++step, scales.next()) {
            const auto of_step = scales.now();
            wait_copies<STAGES - 2>();
            of_a.shift(shared->stages[step % STAGES].A, depth - step * BK, step);
            of_b.shift(shared->stages[step % STAGES].B, depth - step * BK, step);
            __syncthreads();  // this step's tiles have come for all threads, and all have read those of the step before
            load(step + STAGES - 1);
            multiply_step(shared->stages[step % STAGES], warp_row, warp_col, of_step, sums);
        }

        if constexpr (SPLIT_PARTS > 1) {
            bool small = false;
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                small |= sums_too_small(sums[i], parts.least, threadIdx.x % 32, sizes.m - row - 16 * i, sizes.n - col);
            }
            if (parts.least != 0.0f && __syncthreads_or(small)) return compute_fallback();
        }
        // With alpha = 0 there is nothing to add. Else a block syncs here before its next tile: all have read the stages.
        if (SHARES && (depth > 0 ? !tile.reduce<THREADS>(sums, workspace) : tile.from > 0)) continue;
        const WarpBiases<RESULT, 8 * COLS> biases(result.bias, col);
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            SumsFor<RESULT, Sum, 4 * COLS> totals(sums[i]);
            sum_scales.scale(i, totals.numbers);
            store_warp(result, row + 16 * i, col, totals.numbers, biases);
        }
        Parts::store_not_finite(split_a, split_b, factors, tile.matrix, result, tile.row, tile.col, shared->of_parts);
    } while (SHARES && tile.next());
}
