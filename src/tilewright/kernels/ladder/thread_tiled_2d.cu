// Rung 5, thread_tiled_2d: each thread computes a TM x TN tile of C.
//
// Over rung 4 both operands are kept in registers: TM + TN shared loads serve TM * TN multiply-adds, a quarter of a load
// each with 8 x 8 instead of nine eighths. The block's tile can grow with it, which halves global traffic as well.

#include "epilogue/ladder.cuh"

constexpr int THREADS = BM / TM * (BN / TN);

extern "C" __global__ void __launch_bounds__(THREADS)
    thread_tiled_2d(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                    float* C, int ldc) {
    __shared__ float As[BM][BK + PAD];
    __shared__ float Bs[BK][BN + PAD];

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    const int thread_row = threadIdx.x / (BN / TN) * TM;
    const int thread_col = threadIdx.x % (BN / TN) * TN;

    const float* A_tile = at(A, lda, tile_row, 0);
    const float* B_tile = at(B, ldb, 0, tile_col);
    float sums[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK, A_tile += BK, B_tile = at(B_tile, ldb, BK, 0)) {
#pragma unroll
        for (int first = 0; first < BM * BK; first += THREADS) {
            const int i = first + threadIdx.x;
            As[i / BK][i % BK] = load(A_tile, lda, M - tile_row, K - k0, i / BK, i % BK);
        }
#pragma unroll
        for (int first = 0; first < BK * BN; first += THREADS) {
            const int i = first + threadIdx.x;
            Bs[i / BN][i % BN] = load(B_tile, ldb, K - k0, N - tile_col, i / BN, i % BN);
        }
        __syncthreads();
// Unrolled further, the compiler reads four k of A at a time, and the registers for them leave room for one block.
#pragma unroll 2
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) a[i] = As[thread_row + i][k];
#pragma unroll
            for (int j = 0; j < TN; ++j) b[j] = Bs[k][thread_col + j];
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j] += a[i] * b[j];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            store(C, ldc, M, N, tile_row + thread_row + i, tile_col + thread_col + j, alpha, sums[i][j], beta);
        }
    }
}
