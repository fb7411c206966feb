// Rung 3, shared_tiled: a block stages square tiles of A and B in shared memory.
//
// Over rung 2 every element fetched from global memory serves TILE threads: 2*K/TILE loads a result instead of 2*K. What
// limits it now is shared memory, from which each thread still reads two elements for every multiply-add.

#include "epilogue/ladder.cuh"

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    shared_tiled(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                 float* C, int ldc) {
    __shared__ float As[TILE][TILE + PAD];
    __shared__ float Bs[TILE][TILE + PAD];

    const int tiles_n = (N + TILE - 1) / TILE;
    const int thread_row = threadIdx.x / TILE;
    const int thread_col = threadIdx.x % TILE;
    const int row = blockIdx.x / tiles_n * TILE + thread_row;
    const int col = blockIdx.x % tiles_n * TILE + thread_col;

    // The elements that this thread fetches next.
    const float* a = at(A, lda, row, thread_col);
    const float* b = at(B, ldb, thread_row, col);
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE, a += TILE, b = at(b, ldb, TILE, 0)) {
        As[thread_row][thread_col] = load(a, row < M && k0 + thread_col < K);
        Bs[thread_row][thread_col] = load(b, k0 + thread_row < K && col < N);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            sum += As[thread_row][k] * Bs[k][thread_col];
        }
        __syncthreads();
    }
    store(C, ldc, M, N, row, col, alpha, sum, beta);
}
