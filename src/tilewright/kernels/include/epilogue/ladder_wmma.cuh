// The end of the kernels that sum in fragments. Which lane holds which element of a fragment is not specified, so the sums go
// through shared memory on their way to C: 16 rows of a warp's tile at a time, then stored as whole rows.
#pragma once

#include "epilogue/ladder.cuh"
#include "ptx/wmma.cuh"

// Columns beyond a warp's own in its 16 rows of shared memory: they let the rows of a fragment begin in other banks.
constexpr int RESULTS_PAD = 8;

// A warp's tile of ROWS x COLS fragments, with element (row, col) of the M x N matrix C at its corner.
template <int ROWS, int COLS, typename Sums>
__device__ __forceinline__ void store_fragments(float* C, int ldc, int M, int N, int row, int col, float alpha,
                                                const Sums (&sums)[ROWS][COLS], float beta,
                                                float (&results)[16][16 * COLS + RESULTS_PAD]) {
    constexpr int FOURS = 16 * COLS / 4;  // in a row
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
            wmma::store_matrix_sync(&results[0][16 * j], sums[i][j], 16 * COLS + RESULTS_PAD, wmma::mem_row_major);
        }
        __syncwarp();
#pragma unroll 1  // the registers are full of sums
        for (int first = 0; first < 16 * FOURS; first += 32) {
            const int r = (first + lane) / FOURS;
            const int c = (first + lane) % FOURS * 4;
            float four[4];
            load_fragment(four, &results[r][c]);
            store4(C, ldc, M, N, row + 16 * i + r, col + c, alpha, four, beta);
        }
        __syncwarp();
    }
}
