// Rung 4, thread_tiled_1d: each thread computes several elements of a column (or of a row) of C.
//
// Over rung 3 an element of B read from shared memory is kept in a register and used TM times: with TM = 8 there are 9
// shared loads for 8 multiply-adds instead of 16. TM = 1 with TN > 1 is the same idea along a row of C.

#include "epilogue/ladder.cuh"

constexpr int THREADS = BM / TM * (BN / TN);

extern "C" __global__ void __launch_bounds__(THREADS)
    thread_tiled_1d(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                    float* C, int ldc) {
    __shared__ float As[BM][BK + PAD];
    __shared__ float Bs[BK][BN + PAD];

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    // A thread's rows are neighbours. Its columns lie BN / TN apart, so that the lanes of a warp read neighbouring banks;
    // without SPREAD they are neighbours too.
    constexpr int COL_STEP = SPREAD ? BN / TN : 1;
    const int thread_row = threadIdx.x / (BN / TN) * TM;
    const int thread_col = threadIdx.x % (BN / TN) * (SPREAD ? 1 : TN);

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
#pragma unroll
        for (int k = 0; k < BK; ++k) {
#pragma unroll
            for (int j = 0; j < TN; ++j) {
                const float b = Bs[k][thread_col + j * COL_STEP];
#pragma unroll
                for (int i = 0; i < TM; ++i) sums[i][j] += As[thread_row + i][k] * b;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            store(C, ldc, M, N, tile_row + thread_row + i, tile_col + thread_col + j * COL_STEP, alpha, sums[i][j], beta);
        }
    }
}
