// Rung 2, coalesced: the lanes of a warp walk along a row of B and of C.
//
// Over rung 1 only the mapping of threads changes. At each k a warp reads 32 neighbouring elements of B, four whole
// sectors, and one element of A for all its lanes: 5 sectors a step instead of 33, and every byte fetched is used.

#include "epilogue/ladder.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK* BLOCK)
    coalesced(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
              int ldc) {
    // A one-dimensional block of BLOCK*BLOCK threads covers a square of C.
    const int tiles_m = (M + BLOCK - 1) / BLOCK;
    const int row = blockIdx.x % tiles_m * BLOCK + threadIdx.x / BLOCK;
    const int col = blockIdx.x / tiles_m * BLOCK + threadIdx.x % BLOCK;
    if (EDGES && (row >= M || col >= N)) return;

    float sum = 0.0f;
#pragma unroll 16  // this many loads are in flight at once
    for (int k = 0; k < K; ++k) {
        sum += *at(A, lda, row, k) * *at(B, ldb, k, col);
    }
    store(C, ldc, M, N, row, col, alpha, sum, beta);
}
