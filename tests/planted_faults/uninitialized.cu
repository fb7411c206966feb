// Threads outside of the matrix leave their part of the tile as it is, and not zero.

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    uninitialized(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                  float beta, float* C, int ldc) {
    __shared__ float As[16][16], Bs[16][16];
    const int tiles_n = (N + 15) / 16;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    const int row = blockIdx.x / tiles_n * 16 + y, col = blockIdx.x % tiles_n * 16 + x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        if (row < M && k0 + x < K) As[y][x] = A[1LL * row * lda + k0 + x];
        Bs[y][x] = k0 + y < K && col < N ? B[1LL * (k0 + y) * ldb + col] : 0;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += As[y][k] * Bs[k][x];  // <- uninitialized read
        __syncthreads();
    }
    if (row < M && col < N) C[1LL * row * ldc + col] = blend(alpha, sum, beta, C + 1LL * row * ldc + col);
}
