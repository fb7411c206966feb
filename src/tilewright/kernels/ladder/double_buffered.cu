// Rung 11, double_buffered: the next tile is on its way while the threads compute on this one.
//
// Over rung 10 there are two buffers for the tiles in shared memory, and each thread asks for its part of the next
// tiles before it computes: the loads from global memory then wait in registers, and not the threads for them. One
// barrier a step is enough, since what is written is never what others read. The stalls on global loads should all but
// vanish; the price is the registers of the tiles in between, and twice the shared memory.

#include "epilogue/ladder.cuh"

constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int PIECE_N = WN / WNITER;              // a piece of the warp's tile: one TM x TN tile for each lane
constexpr int PIECE_M = 32 * TM * TN / PIECE_N;
constexpr int WMITER = WM / PIECE_M;
constexpr int LANES_N = PIECE_N / TN;

// A thread's part of a tile of A and of B, between global and shared memory.
struct Part {
    float4 a[BM * BK / 4 / THREADS];
    float4 b[BK * BN / 4 / THREADS];
};

__device__ __forceinline__ void fetch(Part& part, const float* A, int lda, const float* B, int ldb, int rows, int cols,
                                      int depth) {
#pragma unroll
    for (int first = 0; first < BM * BK / 4; first += THREADS) {
        const int row = (first + threadIdx.x) / (BK / 4);
        const int col = (first + threadIdx.x) % (BK / 4) * 4;
        part.a[first / THREADS] = load4(A, lda, rows, depth, row, col);
    }
#pragma unroll
    for (int first = 0; first < BK * BN / 4; first += THREADS) {
        const int row = (first + threadIdx.x) / (BN / 4);
        const int col = (first + threadIdx.x) % (BN / 4) * 4;
        part.b[first / THREADS] = load4(B, ldb, depth, cols, row, col);
    }
}

__device__ __forceinline__ void put(const Part& part, float (&As)[BK][BM], float (&Bs)[BK][BN]) {
#pragma unroll
    for (int first = 0; first < BM * BK / 4; first += THREADS) {
        const int row = (first + threadIdx.x) / (BK / 4);
        const int col = (first + threadIdx.x) % (BK / 4) * 4;
        const float4 four = part.a[first / THREADS];
        As[col][row] = four.x;
        As[col + 1][row] = four.y;
        As[col + 2][row] = four.z;
        As[col + 3][row] = four.w;
    }
#pragma unroll
    for (int first = 0; first < BK * BN / 4; first += THREADS) {
        const int row = (first + threadIdx.x) / (BN / 4);
        const int col = (first + threadIdx.x) % (BN / 4) * 4;
        *reinterpret_cast<float4*>(&Bs[row][col]) = part.b[first / THREADS];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    double_buffered(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                    float* C, int ldc) {
    __shared__ __align__(16) float As[2][BK][BM];
    __shared__ __align__(16) float Bs[2][BK][BN];

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
    Part next;
    if (K > 0) {
        fetch(next, A_tile, lda, B_tile, ldb, M - tile_row, N - tile_col, K);
        put(next, As[0], Bs[0]);
    }
    __syncthreads();
    float sums[WMITER][WNITER][TM][TN] = {};
    int buffer = 0;
    for (int k0 = BK; k0 < K + BK; k0 += BK, buffer ^= 1) {  // k0 is where the next tile begins
        if (k0 < K) {
            A_tile += BK;
            B_tile = at(B_tile, ldb, BK, 0);
            fetch(next, A_tile, lda, B_tile, ldb, M - tile_row, N - tile_col, K - k0);
        }
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[WMITER][TM], b[WNITER][TN];
#pragma unroll
            for (int wm = 0; wm < WMITER; ++wm) load_fragment(a[wm], &As[buffer][k][lane_row + wm * PIECE_M]);
#pragma unroll
            for (int wn = 0; wn < WNITER; ++wn) load_fragment(b[wn], &Bs[buffer][k][lane_col + wn * PIECE_N]);
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
        if (k0 < K) put(next, As[buffer ^ 1], Bs[buffer ^ 1]);
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
