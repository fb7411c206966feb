// Rung 10, warptiled: a tile for each warp, between the block's and the thread's.
//
// Over rung 6 the block's tile is cut into WM x WN tiles, one a warp, and each of those into WMITER x WNITER pieces that the
// warp's lanes cover together, TM x TN elements a lane. The lanes of a warp then share few rows of As and columns of Bs, so
// that one shared load serves many of them at once, and each lane holds WMITER*TM x WNITER*TN results in registers.

#include "epilogue/ladder.cuh"

constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int PIECE_N = WN / WNITER;              // a piece of the warp's tile: one TM x TN tile for each lane
constexpr int PIECE_M = 32 * TM * TN / PIECE_N;
constexpr int WMITER = WM / PIECE_M;
constexpr int LANES_N = PIECE_N / TN;

extern "C" __global__ void __launch_bounds__(THREADS)
    warptiled(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
              int ldc) {
    __shared__ __align__(16) float As[BK][BM];
    __shared__ __align__(16) float Bs[BK][BN];

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    // The first element of the first piece that this lane computes, within the block's tile.
    const int lane_row = warp / (BN / WN) * WM + lane / LANES_N * TM;
    const int lane_col = warp % (BN / WN) * WN + lane % LANES_N * TN;

    const float* A_tile = at(A, lda, tile_row, 0);
    const float* B_tile = at(B, ldb, 0, tile_col);
    float sums[WMITER][WNITER][TM][TN] = {};
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
            float a[WMITER][TM], b[WNITER][TN];
#pragma unroll
            for (int wm = 0; wm < WMITER; ++wm) load_fragment(a[wm], &As[k][lane_row + wm * PIECE_M]);
#pragma unroll
            for (int wn = 0; wn < WNITER; ++wn) load_fragment(b[wn], &Bs[k][lane_col + wn * PIECE_N]);
#pragma unroll
            for (int wm = 0; wm < WMITER; ++wm) {
#pragma unroll
                for (int wn = 0; wn < WNITER; ++wn) {
#pragma unroll
                    for (int i = 0; i < TM; ++i) {
#pragma unroll
                        for (int j = 0; j < TN; ++j) sums[wm][wn][i][j] += a[wm][i] * b[wn][j];
                    }
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int wm = 0; wm < WMITER; ++wm) {
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int row = tile_row + lane_row + wm * PIECE_M + i;
#pragma unroll
            for (int wn = 0; wn < WNITER; ++wn) {
                const int col = tile_col + lane_col + wn * PIECE_N;
#pragma unroll
                for (int j = 0; j < TN; j += 4) {
                    store4(C, ldc, M, N, row, col + j, alpha, &sums[wm][wn][i][j], beta);
                }
            }
        }
    }
}
