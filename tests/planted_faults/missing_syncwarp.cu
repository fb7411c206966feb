// Lanes of a warp leave sums for each other, and none waits for the others.

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    missing_syncwarp(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                     float beta, float* C, int ldc) {
    __shared__ float sums[8][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int index = blockIdx.x * 8 + warp;  // of an element of C, whose sum the lanes of a warp share
    if (index >= M * N) return;
    const int row = index / N, col = index % N;
    float sum = 0;
    for (int k = lane; k < K; k += 32) sum += A[1LL * row * lda + k] * B[1LL * k * ldb + col];
    sums[warp][lane] = sum;  // <- other
    if (lane < 31) return;
    sum = 0;
    for (int other = 0; other < 32; ++other) sum += sums[warp][other];  // <- race
    C[1LL * row * ldc + col] = blend(alpha, sum, beta, C + 1LL * row * ldc + col);
}
