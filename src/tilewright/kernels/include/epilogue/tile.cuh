// A block's tile of the result: from the registers of its threads to memory, or by way of shared memory.
#pragma once

#include "epilogue/result.cuh"

// What the bias has for a thread's rows and columns of a tile, see `store_results`; nothing where results are STAGED.
template <typename T, bool STAGED, int ROWS, int COLS, int STRIDE>
struct TileBias {
    Bias<T> bias;
    float of_rows[ROWS];
    float of_columns[COLS];

    __device__ __forceinline__ TileBias(const Output<T>& output, const Sizes& sizes) : bias(output, sizes) {}

    template <typename RowOf>
    __device__ __forceinline__ void load(int tile_row, int tile_col, RowOf row_of, int col) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) of_rows[i] = STAGED ? 0.0f : bias.of_row(tile_row + row_of(i));
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
            of_columns[j] = STAGED ? 0.0f : bias.of_column(tile_col + col + j / 4 * STRIDE + j % 4);
        }
    }
};

// What a thread has of a tile that begins at (tile_row, tile_col): of its i-th row of the tile, `row_of(i)`, quads of columns
// from `col` on, STRIDE from each other. STAGED: alpha times the sums go to `scaled`, in shared memory, TILE_COLS a row, from
// where `store_tile` stores them.
template <int TILE_COLS, typename T, bool STAGED, int ROWS, int COLS, int STRIDE, typename RowOf>
__device__ __forceinline__ void store_results(const Result<T>& result, int tile_row, int tile_col, RowOf row_of, int col,
                                              const float (&sums)[ROWS][COLS],
                                              const TileBias<T, STAGED, ROWS, COLS, STRIDE>& bias, float* scaled) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int row = row_of(i);
#pragma unroll
        for (int j = 0; j < COLS; j += 4) {
            const int first = col + j / 4 * STRIDE;
            if (!STAGED) {
                result.store_quad(tile_row + row, tile_col + first, &sums[i][j], bias.of_rows[i], &bias.of_columns[j]);
            } else {
                const float quad[] = {result.scale(sums[i][j]), result.scale(sums[i][j + 1]),
                                      result.scale(sums[i][j + 2]), result.scale(sums[i][j + 3])};
                store_float4(scaled + row * TILE_COLS + first, quad);
            }
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
    for (int j = 0; j < COLS / 32; ++j) of_columns[j] = result.bias.of_column(col + lane + 32 * j);
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
            const float of_row = result.bias.of_row(r);
#pragma unroll
            for (int j = 0; j < COLS / 32; ++j) {
                result.store_scaled(r, col + lane + 32 * j, sums[i][j], of_row, of_columns[j]);
            }
        }
    }
}
