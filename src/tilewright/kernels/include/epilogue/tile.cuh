// A block's tile of the result: from the registers of its threads to memory, or by way of shared memory.
#pragma once

#include "epilogue/result.cuh"

// What a thread has of a tile that begins at (tile_row, tile_col): of its i-th row of the tile, `row_of(i)`, quads of columns
// from `col` on, APART from each other. The sums are scaled by alpha. STAGED: they go to `scaled`, in shared memory, TILE_COLS a
// row, from where `store_tile` stores them.
//
// BY_COLUMNS: all are scaled before one is stored, and the first quad of every row is stored before the second. That decides
// which registers NVRTC finds for the loop that makes the sums: in gemm_tma some that let loads run a whole k ahead. Else a row
// is scaled and stored after the other, which takes fewer registers.
template <bool STAGED, bool BY_COLUMNS, int TILE_COLS, int APART, typename T, int ROWS, int COLS, typename RowOf>
__device__ __forceinline__ void store_results(const Result<T>& result, int tile_row, int tile_col, RowOf row_of, int col,
                                              float (&sums)[ROWS][COLS], float* scaled) {
    constexpr int QUADS = COLS / 4;  // of a row
    float of_columns[COLS];
    const auto scale = [&](int i, int j) {
#pragma unroll
        for (int q = 0; q < 4; ++q) sums[i][j + q] *= result.alpha;
    };
#pragma unroll
    for (int number = 0; BY_COLUMNS && number < ROWS * QUADS; ++number) scale(number / QUADS, number % QUADS * 4);
#pragma unroll
    for (int number = 0; number < ROWS * QUADS; ++number) {
        const int i = BY_COLUMNS ? number % ROWS : number / QUADS;
        const int j = (BY_COLUMNS ? number / ROWS : number % QUADS) * 4;
        const int row = row_of(i), first = col + j / 4 * APART;
        if (!BY_COLUMNS) scale(i, j);
#pragma unroll
        for (int q = 0; !STAGED && i == 0 && q < 4; ++q) of_columns[j + q] = result.bias_of_column(tile_col + first + q);
        if (STAGED) {
            store_four(scaled + row * TILE_COLS + first, &sums[i][j]);
        } else {
            const float of_row = result.bias_of_row(tile_row + row);
            result.store_scaled_quad(tile_row + row, tile_col + first, &sums[i][j], of_row, &of_columns[j]);
        }
    }
}

// A ROWS x COLS tile that begins at (row, col), from alpha times its sums in shared memory, by WARPS warps. For rows off
// 16-byte boundaries: neighbouring threads store neighbours, where a thread's own four, stored one by one, would have a warp
// touch four times the sectors that it fills. A warp loads TOGETHER rows before it stores them.
template <int ROWS, int COLS, int WARPS, int TOGETHER = 1, typename T>
__device__ __forceinline__ void store_tile(const Result<T>& result, int row, int col, const float* scaled) {
    static_assert(TOGETHER == 1 || ROWS % (TOGETHER * WARPS) == 0, "every warp has TOGETHER rows at a time");
    const int lane = threadIdx.x % 32;
    float of_columns[COLS / 32];
#pragma unroll
    for (int j = 0; j < COLS / 32; ++j) of_columns[j] = result.bias_of_column(col + lane + 32 * j);
    for (int first = threadIdx.x / 32; first < ROWS && (!EDGES || row + first < result.m); first += TOGETHER * WARPS) {
        float sums[TOGETHER][COLS / 32];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
#pragma unroll
            for (int j = 0; j < COLS / 32; ++j) sums[i][j] = scaled[(first + i * WARPS) * COLS + lane + 32 * j];
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            const int r = row + first + i * WARPS;
            const float of_row = result.bias_of_row(r);
#pragma unroll
            for (int j = 0; j < COLS / 32; ++j) {
                result.store_scaled(r, col + lane + 32 * j, sums[i][j], of_row, of_columns[j]);
            }
        }
    }
}
