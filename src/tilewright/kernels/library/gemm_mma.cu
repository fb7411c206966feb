// gemm_mma: products of float32 factors on tensor cores to which each warp gives work (mma.sync, sm_80 and newer): for GPUs that
// lack the warpgroups of gemm_sm90. Each factor is split first into TERMS matrices of 16-bit elements, with lines along k
// (split_factors.cuh). What terms cannot hold is computed in float32 (float32_block.cuh).
//
// A block computes one tile, each of its warps a part of WM x WN. Tiles of all terms are copied STAGES - 1 steps ahead:
//
//   shared memory of a block:
//     | stage 0: A[TERMS], B[TERMS] | stage 1 | ...        A: BM lines of BK elements, B: BN; term_tile.cuh
//
//   copies        | 0 | 1 |   2   |   3   |   4   | ...     STAGES = 3
//   multiply          |   |   0   |   1   |   2   | ...
//
// Which products of terms are made, and why sums of tensor cores begin anew, says stage_products.cuh. Here all products but the
// largest are made fragment of A by fragment of A, so that each is loaded once: what they add is so small that their order does
// not matter.
#include <dependent_launch.cuh>
#include <dynamic_shared.cuh>
#include <mma.cuh>

#include "epilogue/warpgroup.cuh"
#include "float32_block.cuh"
#include "split_factors.cuh"
#include "term_tile.cuh"
#include "tile_order.cuh"

constexpr int WARPS = BM / WM * (BN / WN);
constexpr int THREADS = 32 * WARPS;
constexpr int ROWS = WM / 16, COLS = WN / 8;  // fragments of a warp

struct Tiles {
    TermTile<BM> A[TERMS];
    TermTile<BN> B[TERMS];
};

using Splitter = FactorSplitter<FACTOR, THREADS, true>;
using Wide = Float32Block<BM, BN, THREADS>;

union Shared {
    Splitter::Shared splitter;
    Tiles stages[STAGES];
    Wide::Shared wide;
};

// sums += the products of a step's terms, for the warp's part of the tile, whose scale this is.
__device__ __forceinline__ void multiply_step(const Tiles& from, int row, int col, float scale, float (&sums)[ROWS][4 * COLS]) {
    float made[ROWS][4 * COLS];
    const auto begin = [&]() {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < 4 * COLS; ++j) made[i][j] = 0.0f;
        }
    };
    const auto promote = [&](float by) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < 4 * COLS; ++j) sums[i][j] += SCALED ? by * made[i][j] : made[i][j];
        }
    };
    unsigned a[ROWS][4], b[TERMS][COLS][2];
    begin();
#pragma unroll 1  // unrolled, the next fragments come earlier than the registers have room for them
    for (int k = 0; k < BK; k += 16) {
#pragma unroll
        for (int term = 0; term < TERMS; ++term) from.B[term].load_columns(b[term], col, k);
#pragma unroll
        for (int term = TERMS - 1; term >= 0; --term) {
            from.A[term].load_rows(a, row, k);
#pragma unroll
            for (int other = TERMS - 1 - term; other >= (term == 0); --other) multiply_fragments<FACTOR>(made, a, b[other]);
        }
    }
    promote(scale / TERM_STEP);
#pragma unroll 1
    for (int first = 0; first < BK; first += PROMOTE) {
        begin();
#pragma unroll
        for (int k = first; k < first + PROMOTE; k += 16) {
            from.A[0].load_rows(a, row, k);
            from.B[0].load_columns(b[0], col, k);
            multiply_fragments<FACTOR>(made, a, b[0]);
        }
        promote(scale);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_mma(Sizes sizes, Factor<FACTOR> A, Factor<FACTOR> B, Output<RESULT> output,
             const __grid_constant__ Splitter::Operand split_a, const __grid_constant__ Splitter::Operand split_b,
             SplitCounters* counters) {
    DYNAMIC_SHARED(Shared, shared);

    wait_for_grid_before();
    const int depth = depth_of(sizes, output);
    TermCheck terms;
    if (depth > 0) terms = Splitter::split(split_a, split_b, counters, depth, false, shared->splitter, [] {});

    TileOrder<BM, BN, BAND> tile(sizes, blockIdx.x, gridDim.x);
    tile.next();  // there is one for each block
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;  // of the tile
    const int row = tile.row + warp_row, col = tile.col + warp_col;

    const Result<RESULT> result(output, sizes, tile.matrix);
    const auto compute_wide = [&] {
        Wide::compute(InPlace(split_a, tile.matrix, tile.row), InPlace(split_b, tile.matrix, tile.col), depth, result, tile.row,
                      tile.col, threadIdx.x, shared->wide, BlockMeeting());
    };
    if (!terms.hold) return compute_wide();

    const int steps = depth / BK + (depth % BK != 0);
    TermCopies<BM, THREADS> of_a(A, tile.matrix, sizes.m, tile.row);
    TermCopies<BN, THREADS> of_b(B, tile.matrix, sizes.n, tile.col);
    const auto load = [&](int step) {
        if (step < steps) {
            of_a.start(shared->stages[step % STAGES].A, depth - step * BK);
            of_b.start(shared->stages[step % STAGES].B, depth - step * BK);
        }
        commit_copies();
    };
    for (int step = 0; step < STAGES - 1; ++step) load(step);

    constexpr int SCALED_K = SCALED_SIDES;
    const int runs = depth / SCALED_K + (depth % SCALED_K != 0);  // of a matrix
    const float* const scales_a = scale_at(split_a.scales, tile.matrix * sizes.step_a, runs, 0, sizes.m, row);
    const float* const scales_b = scale_at(split_b.scales, tile.matrix * sizes.step_b, runs, 0, sizes.n, col);
    float sums[ROWS][4 * COLS] = {};
    for (int step = 0; step < steps; ++step) {
        const int run = step * BK / SCALED_K;
        const float scale = SCALED ? scales_a[run * scale_run(sizes.m)] * scales_b[run * scale_run(sizes.n)] : 1.0f;
        wait_copies<STAGES - 2>();
        __syncthreads();  // this step's tiles have come for all threads, and all have read those of the step before
        load(step + STAGES - 1);
        multiply_step(shared->stages[step % STAGES], warp_row, warp_col, scale, sums);
    }

    if constexpr (SCALED) {
        bool small = false;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) small |= terms_lose(sums[i], terms.least, threadIdx.x % 32, sizes.m - row - 16 * i, sizes.n - col);
        if (terms.least != 0.0f && __syncthreads_or(small)) return compute_wide();
    }
    const WarpBiases<RESULT, 8 * COLS> biases(result.bias, col);
#pragma unroll
    for (int i = 0; i < ROWS; ++i) store_warp(result, row + 16 * i, col, sums[i], biases);
}
