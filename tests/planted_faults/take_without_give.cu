// The third warpgroup returns without giving its registers to the two that compute.

#include "epilogue/ladder.cuh"
#include "ptx/register_budget.cuh"

extern "C" __global__ void __launch_bounds__(384, 1)
    take_without_give(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                      float beta, float* C, int ldc) {
    if (threadIdx.x >= 256) {
        return;
    }
    setmaxnreg_inc<232>();  // <- barrier
    const int tiles_n = (N + 15) / 16;
    const int row = blockIdx.x / tiles_n * 16 + threadIdx.x / 16, col = blockIdx.x % tiles_n * 16 + threadIdx.x % 16;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[1LL * row * lda + k] * B[1LL * k * ldb + col];
    C[1LL * row * ldc + col] = blend(alpha, sum, beta, C + 1LL * row * ldc + col);
}
