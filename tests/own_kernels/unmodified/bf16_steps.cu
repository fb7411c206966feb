#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <ctime>
#include <random>

typedef __nv_bfloat16 bf16;
using namespace std;

constexpr int BM = 32;
constexpr int BN = 32;

// A is row-major, B and C are column-major.
__global__ void matmul_naive(int M, int N, int K, bf16* A, bf16* B, bf16* C) {
    const int row = blockIdx.x * BM + threadIdx.x / BN, col = blockIdx.y * BN + threadIdx.x % BN;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; ++k) acc += __bfloat162float(A[row * K + k]) * __bfloat162float(B[col * K + k]);
        C[col * M + row] = __float2bfloat16(acc);
    }
}

static default_random_engine generator(69);

void randomize_matrix(bf16* mat, int N) {
    normal_distribution<float> distribution(0, 1);
    for (int i = 0; i < N; i++) mat[i] = distribution(generator);
}

void runKernel(int M, int N, int K, bf16* A, bf16* B, bf16* C) {
    matmul_naive<<<dim3((M + BM - 1) / BM, (N + BN - 1) / BN), BM * BN>>>(M, N, K, A, B, C);
}
