// One thread waits for the launch before, and the others do not meet it before they read.

#include "ptx/dependent_launch.cuh"

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    one_thread_waits(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                     float beta, float* C, int ldc) {
    const int tiles_n = (N + 15) / 16;
    const int row = blockIdx.x / tiles_n * 16 + threadIdx.x / 16;
    const int col = blockIdx.x % tiles_n * 16 + threadIdx.x % 16;
    if (threadIdx.x == 0) grid_dependency_wait();
    float sum = 0;
    float first = 0;
    if (row < M && K > 0) first = A[1LL * row * lda];  // <- early access
    __syncthreads();
    for (int k = 0; k < K && row < M && col < N; ++k) {
        sum += (k == 0 ? first : A[1LL * row * lda + k]) * B[1LL * k * ldb + col];
    }
    if (row < M && col < N) C[1LL * row * ldc + col] = blend(alpha, sum, beta, C + 1LL * row * ldc + col);
}
