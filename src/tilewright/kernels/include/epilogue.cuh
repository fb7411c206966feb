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

// What a thread has of a tile of C that begins at (tile_row, tile_col): of its i-th row of the tile, `row_of(i)`, quads of
// columns from `col` on, APART from each other. STAGED: alpha times the sums go to `scaled`, in shared memory, from where
// `store_tile` stores the tile, of TILE_COLS columns, to C.
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
                const float four[] = {alpha * sums[i][j], alpha * sums[i][j + 1], alpha * sums[i][j + 2],
                                      alpha * sums[i][j + 3]};
                store_four(scaled + row * TILE_COLS + first, four);
            }
        }
    }
}

// A ROWS x COLS tile of C that begins at (row, col), from alpha times its sums in shared memory, by WARPS warps. For rows
// of C off 16-byte boundaries: neighbouring threads store neighbours, where a thread's own four, stored one by one,
// would have a warp touch four times the sectors that it fills. A warp reads TOGETHER rows before it stores them.
template <int ROWS, int COLS, int WARPS, int TOGETHER = 1>
__device__ __forceinline__ void store_tile(float* C, int ldc, int M, int N, int row, int col, const float* scaled,
                                           float beta) {
    static_assert(TOGETHER == 1 || ROWS % (TOGETHER * WARPS) == 0, "every warp has TOGETHER rows at a time");
    const int lane = threadIdx.x % 32;
    for (int first = threadIdx.x / 32; first < ROWS && (!EDGES || row + first < M); first += TOGETHER * WARPS) {
        float sums[TOGETHER][COLS / 32];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
#pragma unroll
            for (int j = 0; j < COLS / 32; ++j) sums[i][j] = scaled[(first + i * WARPS) * COLS + lane + 32 * j];
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            const int r = first + i * WARPS;
            float* c = at(C, ldc, row + r, col + lane);
#pragma unroll
            for (int j = 0; j < COLS / 32; ++j) {
                if (EDGES && (row + r >= M || col + lane + 32 * j >= N)) continue;
                c[32 * j] = beta == 0.0f ? sums[i][j] : sums[i][j] + beta * c[32 * j];
            }
        }
    }
}
