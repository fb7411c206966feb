#include <cuda_runtime.h>
#include <cassert>
#include <iostream>

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

// As it was found: no line says how it is launched. A thread computes TM x TN elements of a block's BM x BN.
template <const uint BM, const uint BN, const uint BK, const uint TM, const uint TN>
__global__ void __launch_bounds__((BM * BN) / (TM * TN))
    sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    assert(blockDim.x == BM * BN / (TM * TN));
    const uint firstRow = blockIdx.y * BM, firstCol = blockIdx.x * BN;
    const uint threadRow = threadIdx.x / (BN / TN), threadCol = threadIdx.x % (BN / TN);
    float sums[TM * TN] = {0.0f};
    float ofA[TM], ofB[TN];

    for (uint k = 0; k < K; k += BK) {
        for (uint i = threadIdx.x; i < BM * BK; i += blockDim.x) {
            const uint row = firstRow + i / BK, col = k + i % BK;
            As[i] = row < M && col < K ? A[row * K + col] : 0.0f;
        }
        for (uint i = threadIdx.x; i < BK * BN; i += blockDim.x) {
            const uint row = k + i / BN, col = firstCol + i % BN;
            Bs[i] = row < K && col < N ? B[row * N + col] : 0.0f;
        }
        __syncthreads();
        for (uint dot = 0; dot < BK; ++dot) {
            for (uint i = 0; i < TM; ++i) ofA[i] = As[(threadRow * TM + i) * BK + dot];
            for (uint j = 0; j < TN; ++j) ofB[j] = Bs[dot * BN + threadCol * TN + j];
            for (uint i = 0; i < TM; ++i)
                for (uint j = 0; j < TN; ++j) sums[i * TN + j] += ofA[i] * ofB[j];
        }
        __syncthreads();
    }
    for (uint i = 0; i < TM; ++i) {
        for (uint j = 0; j < TN; ++j) {
            const uint row = firstRow + threadRow * TM + i, col = firstCol + threadCol * TN + j;
            if (row >= M || col >= N) continue;
            const float before = beta == 0.0f ? 0.0f : beta * C[row * N + col];
            C[row * N + col] = alpha * sums[i * TN + j] + before;
        }
    }
}

void run_sgemm(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C) {
    const uint BM = 64, BN = 64, BK = 8, TM = 8, TN = 8;
    dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
    dim3 blockDim((BM * BN) / (TM * TN));
    sgemm<BM, BN, BK, TM, TN><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
    if (cudaGetLastError() != cudaSuccess) std::cerr << "the launch failed" << std::endl;
}
