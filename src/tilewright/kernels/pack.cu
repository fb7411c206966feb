// A copy of a matrix as another kernel wants to read it: transposed, or with rows that begin at multiples of 16 bytes.
//
// C (M x N) = A, or with TRANSPOSE = 1 the transpose of A (N x M). K, alpha, B and beta are not used. A block moves a
// square through shared memory, so that neighbouring threads read and write neighbouring float4s. The kernel that wants
// the copy may start up meanwhile.

#include <dependent_launch.cuh>

#include "epilogue.cuh"

constexpr int FOURS = SIDE / 4;  // float4s in a row of the square

extern "C" __global__ void __launch_bounds__(THREADS)
    pack(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
         int ldc) {
    __shared__ float square[SIDE][SIDE + 1];  // a column more, so that the elements of a column lie on distinct banks

    wait_for_grid_before();
    let_grid_after_start();  // it starts when the last block here has, so it takes no place from one
    const int tiles_n = (N + SIDE - 1) / SIDE;
    const int tile_row = blockIdx.x / tiles_n * SIDE;
    const int tile_col = blockIdx.x % tiles_n * SIDE;
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * FOURS; i += THREADS) {
        const int y = i / FOURS;
        const int x = i % FOURS * 4;
        const float4 four = TRANSPOSE ? load4(A, lda, N, M, tile_col + y, tile_row + x)
                                      : load4(A, lda, M, N, tile_row + y, tile_col + x);
        (TRANSPOSE ? square[x][y] : square[y][x]) = four.x;
        (TRANSPOSE ? square[x + 1][y] : square[y][x + 1]) = four.y;
        (TRANSPOSE ? square[x + 2][y] : square[y][x + 2]) = four.z;
        (TRANSPOSE ? square[x + 3][y] : square[y][x + 3]) = four.w;
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * FOURS; i += THREADS) {
        const int y = i / FOURS;
        const int x = i % FOURS * 4;
        store4(C, ldc, M, N, tile_row + y, tile_col + x, 1.0f, &square[y][x], 0.0f);
    }
}
