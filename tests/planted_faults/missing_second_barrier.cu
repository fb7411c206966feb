// The next tile is written while other threads still read this one.

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    missing_second_barrier(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                           float beta, float* C, int ldc) {
    __shared__ float As[16][16];
    const int tiles_n = (N + 15) / 16;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    const int row = blockIdx.x / tiles_n * 16 + y, col = blockIdx.x % tiles_n * 16 + x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[y][x] = row < M && k0 + x < K ? A[1LL * row * lda + k0 + x] : 0;  // <- race
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            const float b = k0 + k < K && col < N ? B[1LL * (k0 + k) * ldb + col] : 0;
            sum += As[y][k] * b;  // <- other
        }
    }
    if (row < M && col < N) C[1LL * row * ldc + col] = blend(alpha, sum, beta, C + 1LL * row * ldc + col);
}
