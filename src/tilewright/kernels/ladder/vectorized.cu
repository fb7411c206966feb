// Rung 6, vectorized: 128-bit loads and stores everywhere, for which A is transposed on its way into shared memory.
//
// Over rung 5 global memory is read and written as float4s. A thread's fragment of A becomes a row of As as its fragment
// of B is a row of Bs, so that both are read from shared memory as float4s too: a quarter of the load instructions.

#include "epilogue/ladder.cuh"

constexpr int THREADS = BM / TM * (BN / TN);

extern "C" __global__ void __launch_bounds__(THREADS)
    vectorized(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
               int ldc) {
    __shared__ __align__(16) float As[BK][BM];
    __shared__ __align__(16) float Bs[BK][BN];

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
        for (int first = 0; first < BM * BK / 4; first += THREADS) {
            const int row = (first + threadIdx.x) / (BK / 4);
            const int col = (first + threadIdx.x) % (BK / 4) * 4;
            const float4 four = load4(A_tile, lda, M - tile_row, K - k0, row, col);
            As[col][row] = four.x;
            As[col + 1][row] = four.y;
            As[col + 2][row] = four.z;
            As[col + 3][row] = four.w;
        }
#pragma unroll
        for (int first = 0; first < BK * BN / 4; first += THREADS) {
            const int row = (first + threadIdx.x) / (BN / 4);
            const int col = (first + threadIdx.x) % (BN / 4) * 4;
            *reinterpret_cast<float4*>(&Bs[row][col]) = load4(B_tile, ldb, K - k0, N - tile_col, row, col);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            load_fragment(a, &As[k][thread_row]);
            load_fragment(b, &Bs[k][thread_col]);
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
        for (int j = 0; j < TN; j += 4) {
            store4(C, ldc, M, N, tile_row + thread_row + i, tile_col + thread_col + j, alpha, &sums[i][j], beta);
        }
    }
}
