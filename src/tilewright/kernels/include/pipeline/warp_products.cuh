// The products of one step along k by a warp (mma.cuh), of its WM x WN part of a tile, onto sums in registers.
//
// Which products of parts are made, and why sums of tensor cores begin anew, says stage_products.cuh. Here all products but the
// largest are made fragment of A by fragment of A, so that each is loaded once: what they add is so small that their order does
// not matter.
#pragma once

#include "float32_parts/part_scales.cuh"
#include "pipeline/factor_scales.cuh"
#include "pipeline/fragment_tile.cuh"

constexpr int ROWS = WM / 16, COLS = WN / 8;               // fragments of a warp
constexpr int STEP = 32 / static_cast<int>(sizeof(FACTOR));  // of k, of an instruction
// ldmatrix transposes elements of 16 bits; others, and parts, lie along k. (Where k is 0, nothing says in which order.)
constexpr bool A_ALONG_K = !TRANSPOSED_A || SPLIT_PARTS > 1 || sizeof(FACTOR) != 2;
constexpr bool B_ALONG_K = TRANSPOSED_B || SPLIT_PARTS > 1 || sizeof(FACTOR) != 2;

struct StepTiles {
    FragmentTile<FACTOR, A_ALONG_K, BM> A[SPLIT_PARTS];
    FragmentTile<FACTOR_B, B_ALONG_K, BN> B[SPLIT_PARTS];
};

// What all of a warp's products of parts are multiplied by in step `step` of a matrix that has `depth` of k. 1 where SCALED is 0.
struct WarpPartScales {
    const float *a, *b;
    long long run_a, run_b;
    int step = 0;

    __device__ __forceinline__ WarpPartScales(const float* of_a, const float* of_b, const Sizes& sizes, int matrix, int depth, int row,
                                              int col)
        : run_a(scale_run(sizes.m)), run_b(scale_run(sizes.n)) {
        const int runs = depth / SCALED_SIDES + (depth % SCALED_SIDES != 0);  // of a matrix
        a = scale_at(of_a, matrix * sizes.step_a, runs, 0, sizes.m, row);
        b = scale_at(of_b, matrix * sizes.step_b, runs, 0, sizes.n, col);
    }

    struct Now {
        float all;
        __device__ __forceinline__ float of(int, int) const { return all; }
    };
    __device__ __forceinline__ Now now() const {
        const int run = step * BK / SCALED_SIDES;
        return {SCALED ? a[run * run_a] * b[run * run_b] : 1.0f};
    }
    __device__ __forceinline__ void next() { ++step; }
};

// The same of float8 factors whose blocks have scales: each row of a lane's has its own.
struct WarpBlockScales {
    BlockScales<ROWS, 16> scales;

    __device__ __forceinline__ WarpBlockScales(const Scales& of_factors, const Sizes& sizes, int row, int col, int steps)
        : scales(BlockScales<ROWS, 16>::template begin<false>(of_factors, sizes.m, sizes.n, row, col, 0, steps)) {}

    struct Now {
        typename BlockScales<ROWS, 16>::Part parts[ROWS];
        __device__ __forceinline__ float of(int row, int sum) const { return parts[row].of(sum); }
    };
    __device__ __forceinline__ Now now() const {
        Now found;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) found.parts[i] = scales.template of_part<4 * COLS>(i);
        return found;
    }
    __device__ __forceinline__ void next() { scales.next(0, 0); }
};

// sums += the products of the warp's part of `from`, whose element (row, col) is at its corner. scales: of this step.
template <typename Scales_>
__device__ __forceinline__ void multiply_step(const StepTiles& from, int row, int col, const Scales_& scales,
                                              Sum (&sums)[ROWS][4 * COLS]) {
    unsigned a[ROWS][4], b[SPLIT_PARTS][COLS][2];
    if constexpr (PROMOTE == 0) {
#pragma unroll
        for (int k = 0; k < BK; k += STEP) {
            from.B[0].load_columns(b[0], col, k);
            from.A[0].load_rows(a, row, k);
            multiply_fragments<FACTOR, FACTOR_B>(sums, a, b[0]);
        }
    } else {
        Begun partial[ROWS][4 * COLS];
        const auto begin = [&]() {
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < 4 * COLS; ++j) partial[i][j] = Begun{};
            }
        };
        const auto promote = [&](float share) {
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < 4 * COLS; ++j) {
                    const float scale = share * scales.of(i, j);
                    sums[i][j] = SCALED || FACTOR_SCALES == 2 ? fmaf(scale, partial[i][j], sums[i][j]) : sums[i][j] + partial[i][j];
                }
            }
        };
        if constexpr (SPLIT_PARTS > 1) {
            begin();
#pragma unroll 1  // unrolled, the next fragments come earlier than the registers have room for them
            for (int k = 0; k < BK; k += STEP) {
#pragma unroll
                for (int part = 0; part < SPLIT_PARTS; ++part) from.B[part].load_columns(b[part], col, k);
#pragma unroll
                for (int part = SPLIT_PARTS - 1; part >= 0; --part) {
                    from.A[part].load_rows(a, row, k);
#pragma unroll
                    for (int other = SPLIT_PARTS - 1 - part; other >= (part == 0); --other) multiply_fragments<FACTOR>(partial, a, b[other]);
                }
            }
            promote(1 / PART_STEP);
        }
#pragma unroll 1
        for (int first = 0; first < BK; first += PROMOTE) {
            begin();
#pragma unroll
            for (int k = first; k < first + PROMOTE; k += STEP) {
                from.A[0].load_rows(a, row, k);
                from.B[0].load_columns(b[0], col, k);
                multiply_fragments<FACTOR, FACTOR_B>(partial, a, b[0]);
            }
            promote(1);
        }
    }
}
