// Reads an element before it waits for the launch before.

#include "ptx/dependent_launch.cuh"

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    early_access(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                 float beta, float* C, int ldc) {
    const int tiles_n = (N + 15) / 16;
    const int row = blockIdx.x / tiles_n * 16 + threadIdx.x / 16;
    const int col = blockIdx.x % tiles_n * 16 + threadIdx.x % 16;
    if (row >= M || col >= N) return;
    const float first = K > 0 ? A[1LL * row * lda] : 0;  // <- early access
    grid_dependency_wait();
    float sum = K > 0 ? first * B[col] : 0;
    for (int k = 1; k < K; ++k) sum += A[1LL * row * lda + k] * B[1LL * k * ldb + col];
    C[1LL * row * ldc + col] = blend(alpha, sum, beta, C + 1LL * row * ldc + col);
}
