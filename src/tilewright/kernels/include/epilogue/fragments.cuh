// A warp's sums in fragments, from registers to memory. Which lane holds which element of a fragment is not specified, so sums
// pass through shared memory: 16 rows of the warp's tile at a time, from where neighbouring lanes store neighbours.
#pragma once

#include "epilogue/result.cuh"
#include "ptx/wmma.cuh"

// 16 rows of COLS sums. The padding lets the rows of a fragment begin in different banks.
template <int COLS>
struct SumRows {
    static constexpr int LD = COLS + 8;
    float rows[16][LD];
};

// A warp's tile of ROWS x COLS fragments, with element (row, col) of the result at its corner.
template <typename T, int ROWS, int COLS, typename Sums>
__device__ __forceinline__ void store_fragments(const Result<T>& result, int row, int col, const Sums (&sums)[ROWS][COLS],
                                                SumRows<16 * COLS>& staged) {
    constexpr int WIDTH = ALIGNED ? 4 : 1;  // neighbours that a lane stores
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
            wmma::store_matrix_sync(&staged.rows[0][16 * j], sums[i][j], staged.LD, wmma::mem_row_major);
        }
        __syncwarp();
#pragma unroll 1  // the registers are full of sums
        for (int element = WIDTH * lane; element < 16 * 16 * COLS; element += WIDTH * 32) {
            const int r = element / (16 * COLS);
            const int c = element % (16 * COLS);
            if (ALIGNED) {
                float quad[4];
                load_float4(quad, &staged.rows[r][c]);
                result.store_quad(row + 16 * i + r, col + c, quad);
            } else {
                result.store(row + 16 * i + r, col + c, staged.rows[r][c]);
            }
        }
        __syncwarp();
    }
}
