// Scales of float8 factors (Scales). FACTOR_SCALES says where they are multiplied by:
//   0  there are none
//   1  sums, at the end: scales are those of rows and columns
//   2  what tensor cores made of 128 k, as threads add that to their sums: scales are of blocks (BlockScales)
#pragma once

#include "operands.cuh"

constexpr int BLOCK_SIDES = 128;  // columns of B in a block

// What row (or column) `side` of `sides` is multiplied by.
__device__ __forceinline__ float scale_of(const float* scales, int step, int side, int sides) {
    return scales == nullptr || (EDGES && side >= sides) ? 1.0f : scales[side * step];
}

// A sum of products, of element (row, col), times the scales of its row and column.
__device__ __forceinline__ float scaled(const Scales& scales, const Sizes& sizes, int row, int col, float sum) {
    return sum * scale_of(scales.a, scales.step_a, row, sizes.m) * scale_of(scales.b, scales.step_b, col, sizes.n);
}

// A warp's sums of 16 rows (mma.cuh, or its part of wgmma.cuh), with element (row, col) of an m x n result at their corner.
//
// The lanes of a warp have the scales of 32 columns, one each, and get those of their sums' columns from each other: so a thread
// holds few of them, and all are loaded at once.
template <int COUNT>
__device__ __forceinline__ void scale_warp_sums(const Scales& scales, int m, int n, int row, int col, float (&sums)[COUNT]) {
    constexpr int RUNS = (2 * COUNT + 31) / 32;
    const int lane = threadIdx.x % 32;
    float own[RUNS];
#pragma unroll
    for (int i = 0; i < RUNS; ++i) {
        const bool exists = 32 * i + lane < 2 * COUNT;  // of the last run, there may be a part
        own[i] = exists ? scale_of(scales.b, scales.step_b, col + 32 * i + lane, n) : 1.0f;
    }
    row += lane / 4;
    const float of_rows[] = {scale_of(scales.a, scales.step_a, row, m), scale_of(scales.a, scales.step_a, row + 8, m)};
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
        const float of_column = __shfl_sync(0xffffffff, own[i / 8], i / 2 % 4 * 8 + lane % 4 * 2 + i % 2);
        sums[i / 2 * 4 + i % 2] *= of_rows[0];
        sums[i / 2 * 4 + i % 2] *= of_column;
        sums[i / 2 * 4 + i % 2 + 2] *= of_rows[1];
        sums[i / 2 * 4 + i % 2 + 2] *= of_column;
    }
}

// The same of the 64 rows that a warpgroup has sums of.
template <int COUNT>
__device__ __forceinline__ void scale_sums(const Scales& scales, int m, int n, int row, int col, float (&sums)[COUNT]) {
    scale_warp_sums(scales, m, n, row + threadIdx.x % 128 / 32 * 16, col, sums);
}

// Scales of blocks: of a thread's rows, two in each of PARTS times 64 of a warpgroup, or 16 of a warp, and of its tile's columns,
// which are all of one block.
template <int PARTS, int ROWS_OF_PART = 64>
struct BlockScales {
    const float *a, *b;  // of this step along k
    int step_a, step_b;
    int rows[PARTS][2];  // where those of the rows are

    // Of a tile at (row, col) of an m x n result, from step `step` on. Rows past the last one get its scale.
    __device__ __forceinline__ BlockScales(const Scales& scales, int m, int n, int row, int col, int step)
        : a(scales.a + static_cast<long long>(step) * scales.step_k_a),
          b(scales.b + static_cast<long long>(step) * scales.step_k_b + min(col, n - 1) / BLOCK_SIDES * scales.step_b),
          step_a(scales.step_k_a),
          step_b(scales.step_k_b) {
        const int own = row + threadIdx.x % (2 * ROWS_OF_PART) / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int i = 0; i < 2 * PARTS; ++i) {
            rows[i / 2][i % 2] = min(own + i / 2 * ROWS_OF_PART + i % 2 * 8, m - 1) / scales.rows * scales.step_a;
        }
    }

    __device__ __forceinline__ void next(int, int) {
        a += step_a;
        b += step_b;
    }

    // What a thread's sums of a part are multiplied by.
    struct Part {
        float of_rows[2];
        __device__ __forceinline__ float of(int sum) const { return of_rows[sum / 2 % 2]; }
    };
    template <int COUNT>
    __device__ __forceinline__ Part of_part(int part) const {
        return {{a[rows[part][0]] * *b, a[rows[part][1]] * *b}};
    }
};
