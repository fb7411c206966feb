// The end of every kernel: C = alpha * A @ B + beta * C, for the sums of A @ B that a thread holds in registers.
#pragma once

#include "tile_io.cuh"

// With beta = 0 the old value is not even read, so that a NaN in it cannot survive.
__device__ __forceinline__ float blend(float alpha, float sum, float beta, const float* old) {
    return beta == 0.0f ? alpha * sum : alpha * sum + beta * *old;
}

// Element (row, col) of the M x N matrix C.
__device__ __forceinline__ void store(float* C, int ldc, int M, int N, int row, int col, float alpha, float sum,
                                      float beta) {
    if (EDGES && (row >= M || col >= N)) return;
    float* c = at(C, ldc, row, col);
    *c = blend(alpha, sum, beta, c);
}

// Elements (row, col) to (row, col + 3); col is a multiple of 4.
__device__ __forceinline__ void store4(float* C, int ldc, int M, int N, int row, int col, float alpha,
                                       const float* sums, float beta) {
    if (EDGES && row >= M) return;
    float* c = at(C, ldc, row, col);
    if (ALIGNED && (!EDGES || col + 4 <= N)) {
        float4 four = make_float4(alpha * sums[0], alpha * sums[1], alpha * sums[2], alpha * sums[3]);
        if (beta != 0.0f) {
            const float4 old = *reinterpret_cast<const float4*>(c);
            four.x += beta * old.x;
            four.y += beta * old.y;
            four.z += beta * old.z;
            four.w += beta * old.w;
        }
        *reinterpret_cast<float4*>(c) = four;
    } else {
        // One check of the row for four elements: with one each, the compiler gathers all old values first, and spills.
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (!EDGES || col + i < N) c[i] = blend(alpha, sums[i], beta, c + i);
        }
    }
}

// Where element (row, col) of a tile of C stands in shared memory. Every fourth row begins a bank further, so that lanes
// which stand four rows apart, as those that computed the tile do, write to distinct banks.
template <int COLS>
__device__ __forceinline__ int in_shared(int row, int col) {
    return row * COLS + row / 4 + col;
}

// What a thread has of a tile of C that begins at (tile_row, tile_col): of its i-th row of the tile, `row_of(i)`, fours of
// columns from `col` on, APART from each other. STAGED: alpha times the sums go to `scaled`, in shared memory, from where
// `store_tile` brings the tile, of TILE_COLS columns, to C.
template <bool STAGED, int TILE_COLS, int APART, int ROWS, int COLS, typename RowOf>
__device__ __forceinline__ void store_results(float* C, int ldc, int M, int N, int tile_row, int tile_col, RowOf row_of,
                                              int col, float alpha, const float (&sums)[ROWS][COLS], float beta,
                                              float* scaled) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int row = row_of(i);
#pragma unroll
        for (int j = 0; j < COLS; j += 4) {
            const int first = col + j / 4 * APART;
            if (!STAGED) {
                store4(C, ldc, M, N, tile_row + row, tile_col + first, alpha, &sums[i][j], beta);
            } else {
#pragma unroll
                for (int q = 0; q < 4; ++q) scaled[in_shared<TILE_COLS>(row, first + q)] = alpha * sums[i][j + q];
            }
        }
    }
}

// A ROWS x COLS tile of C that begins at (row, col), from alpha times its sums in shared memory, by WARPS warps. For rows
// of C off 16-byte boundaries: neighbouring threads store neighbours, where a thread's own four, stored one by one,
// would have a warp touch four times the sectors that it fills.
template <int ROWS, int COLS, int WARPS>
__device__ __forceinline__ void store_tile(float* C, int ldc, int M, int N, int row, int col, const float* scaled,
                                           float beta) {
    const int lane = threadIdx.x % 32;
    for (int r = threadIdx.x / 32; r < ROWS && (!EDGES || row + r < M); r += WARPS) {
        float* c = at(C, ldc, row + r, col + lane);
        const float* sums = scaled + in_shared<COLS>(r, lane);
#pragma unroll
        for (int j = 0; j < COLS; j += 32) {
            if (!EDGES || col + lane + j < N) c[j] = beta == 0.0f ? sums[j] : sums[j] + beta * c[j];
        }
    }
}
