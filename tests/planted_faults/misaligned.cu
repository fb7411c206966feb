// Four elements are loaded at once from wherever a row of B begins.

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    misaligned(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
               float beta, float* C, int ldc) {
    const int quads = (N + 3) / 4;
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = index / quads, col = index % quads * 4;
    if (row >= M) return;
    float sums[4] = {};
    for (int k = 0; k < K; ++k) {
        const float a = A[1LL * row * lda + k];
        const float4 b = *reinterpret_cast<const float4*>(B + 1LL * k * ldb + col);  // <- misaligned access
        sums[0] += a * b.x;
        sums[1] += a * b.y;
        sums[2] += a * b.z;
        sums[3] += a * b.w;
    }
    for (int j = 0; j < 4 && col + j < N; ++j) {
        float* const c = C + 1LL * row * ldc + col + j;
        *c = blend(alpha, sums[j], beta, c);
    }
}
