// Sums of scaled factors: multiplied by the scales of their rows and columns, where a launch has some (Scales).
#pragma once

#include "operands.cuh"

// What row (or column) `side` of `sides` is multiplied by.
__device__ __forceinline__ float scale_of(const float* scales, int step, int side, int sides) {
    return scales == nullptr || (EDGES && side >= sides) ? 1.0f : scales[side * step];
}

// A warpgroup's sums of 64 rows (wgmma.cuh), with element (row, col) of an m x n result at their corner.
//
// The lanes of a warp have the scales of 32 columns, one each, and get those of their sums' columns from each other: so a thread
// holds few of them, and all are loaded at once.
template <int COUNT>
__device__ __forceinline__ void scale_sums(const Scales& scales, int m, int n, int row, int col, float (&sums)[COUNT]) {
    constexpr int RUNS = (2 * COUNT + 31) / 32;
    const int thread = threadIdx.x % 128, lane = thread % 32;
    float own[RUNS];
#pragma unroll
    for (int i = 0; i < RUNS; ++i) {
        const bool exists = 32 * i + lane < 2 * COUNT;  // of the last run, there may be a part
        own[i] = exists ? scale_of(scales.b, scales.step_b, col + 32 * i + lane, n) : 1.0f;
    }
    row += thread / 32 * 16 + lane / 4;
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
