// Threads add to an element as they come: floats give another sum in another order.

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    unordered_sum(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                  float beta, float* C, int ldc) {
    const int index = blockIdx.x * 8 + threadIdx.x / 32;  // of an element of C, whose sum 32 threads share
    if (index >= M * N) return;
    const int row = index / N, col = index % N;
    __shared__ float sums[8];
    float* const sum = &sums[threadIdx.x / 32];
    if (threadIdx.x % 32 == 0) *sum = 0;
    __syncwarp();
    for (int k = threadIdx.x % 32; k < K; k += 32) {
        atomicAdd(sum, alpha * A[1LL * row * lda + k] * B[1LL * k * ldb + col]);
    }
    __syncwarp();
    float* const c = C + 1LL * row * ldc + col;
    if (threadIdx.x % 32 == 0) *c = blend(1, *sum, beta, c);
}
