// Rung 1, naive: one thread computes one element of C, straight from global memory.
//
// With X_ALONG_N = 0 neighbouring threads of a warp (threadIdx.x) walk down the rows of C, as a newcomer might write it:
// at each k the 32 lanes of a warp read 32 different rows of A, lda elements apart, one sector of 32 bytes for each
// 4-byte element. X_ALONG_N = 1 is the other mapping, neighbouring threads along a row of C, with the same code.

#include "epilogue/ladder.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_X* BLOCK_Y)
    naive(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
          int ldc) {
    // The blocks of the grid are numbered in the order of the threads: along x first.
    const int extent_x = X_ALONG_N ? N : M;
    const int blocks_x = (extent_x + BLOCK_X - 1) / BLOCK_X;
    const int x = blockIdx.x % blocks_x * BLOCK_X + threadIdx.x;
    const int y = blockIdx.x / blocks_x * BLOCK_Y + threadIdx.y;
    const int row = X_ALONG_N ? y : x;
    const int col = X_ALONG_N ? x : y;
    if (EDGES && (row >= M || col >= N)) return;

    float sum = 0.0f;
#pragma unroll 16  // this many loads are in flight at once
    for (int k = 0; k < K; ++k) {
        sum += *at(A, lda, row, k) * *at(B, ldb, k, col);
    }
    store(C, ldc, M, N, row, col, alpha, sum, beta);
}
