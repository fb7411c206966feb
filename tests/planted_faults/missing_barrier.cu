// A tile is read as soon as this thread has done its part of it.

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    missing_barrier(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                    float beta, float* C, int ldc) {
    __shared__ float Bs[16][16];
    const int tiles_n = (N + 15) / 16;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    const int row = blockIdx.x / tiles_n * 16 + y, col = blockIdx.x % tiles_n * 16 + x;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        Bs[y][x] = k0 + y < K && col < N ? B[1LL * (k0 + y) * ldb + col] : 0;  // <- other
        for (int k = 0; k < 16; ++k) {
            const float a = row < M && k0 + k < K ? A[1LL * row * lda + k0 + k] : 0;
            sum += a * Bs[k][x];  // <- race
        }
        __syncthreads();
    }
    if (row < M && col < N) C[1LL * row * ldc + col] = blend(alpha, sum, beta, C + 1LL * row * ldc + col);
}
