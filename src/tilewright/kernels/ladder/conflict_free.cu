// Rung 7, conflict_free: the columns of Bs are rearranged so that the lanes of a warp meet in no bank.
//
// In rung 6 a thread's TN columns of B are neighbours, so lanes read TN floats apart: with TN = 8 they fall on the same
// banks. Here the j-th columns of all threads are neighbours: the lanes read consecutive banks. The price is that a
// thread's own columns are no longer together, so they are read one by one: TN 32-bit loads for TN / 4 128-bit ones.

#include "epilogue/ladder.cuh"

constexpr int THREADS = BM / TM * (BN / TN);

// Where column col of a tile of B lies in its row of Bs. The exclusive or moves the slots of columns that one float4
// apart would fall on the same bank, so that storing a float4 has no conflict either.
__device__ __forceinline__ int place(int col) {
    const int slot = col % TN;
    return (slot ^ (slot / 4)) * (BN / TN) + col / TN;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conflict_free(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                  float* C, int ldc) {
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
            const float4 four = load4(B_tile, ldb, K - k0, N - tile_col, row, col);
            Bs[row][place(col)] = four.x;
            Bs[row][place(col + 1)] = four.y;
            Bs[row][place(col + 2)] = four.z;
            Bs[row][place(col + 3)] = four.w;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            load_fragment(a, &As[k][thread_row]);
#pragma unroll
            for (int j = 0; j < TN; ++j) b[j] = Bs[k][place(thread_col + j)];
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
