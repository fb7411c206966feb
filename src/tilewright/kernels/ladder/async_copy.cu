// Rung 12, async_copy: tiles arrive straight in shared memory, several of them in flight at a time.
//
// Over rung 11 the copies (cp.async) pass through no register and no thread waits for them one by one: STAGES buffers
// go round, and STAGES - 1 tiles are on their way or being computed on. That frees registers and instructions, and
// hides longer latencies than one step.
//
// A copy cannot transpose on its way but 4 bytes at a time, which takes four times the instructions. So the tile of A
// stays as it is, rows along k, and a lane reads 16 bytes of a row: four steps of k at once, as many loads as before in
// all, for four times the registers of the fragment. Its rows are LANES_M apart, so that the lanes of a warp read
// neighbouring rows, and a swizzle keeps these on different banks: the 16-byte pieces of a row are exchanged,
// differently in each line of 128 bytes.

#include "epilogue/ladder.cuh"
#include "pipeline/async_tile_io.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/dynamic_shared.cuh"

constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int PIECE_N = WN / WNITER;              // a piece of the warp's tile: one TM x TN tile for each lane
constexpr int PIECE_M = 32 * TM * TN / PIECE_N;
constexpr int WMITER = WM / PIECE_M;
constexpr int LANES_N = PIECE_N / TN;
constexpr int LANES_M = 32 / LANES_N;

// What the numbers of a row's 16-byte pieces are xored with, in a tile of A: the number of its 128-byte line.
__device__ __forceinline__ constexpr int swizzle(int row) { return row * (BK / 4) >> 3 & (BK / 4 - 1); }

// Starts to copy a tile of A and of B. The matrices end `rows`, `cols` and `depth` elements from the tiles' first.
__device__ __forceinline__ void start(float* As, float* Bs, const float* A, int lda, const float* B, int ldb, int rows,
                                      int cols, int depth) {
#pragma unroll
    for (int first = 0; first < BM * BK / 4; first += THREADS) {
        const int row = (first + threadIdx.x) / (BK / 4);
        const int piece = (first + threadIdx.x) % (BK / 4);
        copy4_async(As + row * BK + (piece ^ swizzle(row)) * 4, A, lda, rows, depth, row, piece * 4);
    }
#pragma unroll
    for (int first = 0; first < BK * BN / 4; first += THREADS) {
        const int row = (first + threadIdx.x) / (BN / 4);
        const int col = (first + threadIdx.x) % (BN / 4) * 4;
        copy4_async(Bs + row * BN + col, B, ldb, depth, cols, row, col);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    async_copy(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
               int ldc) {
    DYNAMIC_SHARED(float, shared);  // STAGES tiles of A, BM x BK, and STAGES of B, BK x BN
    float* const As = shared;
    float* const Bs = shared + STAGES * BM * BK;

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    // The first element of the first piece that this lane computes, within the block's tile.
    const int lane_row = warp / (BN / WN) * WM + lane / LANES_N;
    const int lane_col = warp % (BN / WN) * WN + lane % LANES_N * TN;

    const float* A_tile = at(A, lda, tile_row, 0);  // the next tile to be copied, as B_tile
    const float* B_tile = at(B, ldb, 0, tile_col);
    int depth = K;  // what is left of k from there
    const auto start_next = [&](int stage) {
        if (depth > 0) {
            start(As + stage * (BM * BK), Bs + stage * (BK * BN), A_tile, lda, B_tile, ldb, M - tile_row, N - tile_col,
                  depth);
        }
        commit_copies();  // a group a step, be it empty, so that to count groups is to count steps
        A_tile += BK;
        B_tile = at(B_tile, ldb, BK, 0);
        depth -= BK;
    };
    grid_dependency_wait();
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) start_next(stage);

    float sums[WMITER][WNITER][TM][TN] = {};
    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        wait_copies<STAGES - 2>();
        __syncthreads();  // all threads' copies of this tile have arrived, and all are done with the one before
        start_next(stage == 0 ? STAGES - 1 : stage - 1);

        const float* a_rows = As + stage * (BM * BK) + lane_row * BK;
        const float* b_cols = Bs + stage * (BK * BN) + lane_col;
#pragma unroll
        for (int piece = 0; piece < BK / 4; ++piece) {
            float a[WMITER * TM][4];
#pragma unroll
            for (int i = 0; i < WMITER * TM; ++i) {
                // lane_row and i * LANES_M share no bit that counts, so that the xor of their swizzles is that of their
                // sum.
                const int place = piece ^ swizzle(lane_row) ^ swizzle(i * LANES_M);
                load_fragment(a[i], a_rows + i * LANES_M * BK + place * 4);
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                float b[WNITER][TN];
#pragma unroll
                for (int wn = 0; wn < WNITER; ++wn) {
                    load_fragment(b[wn], b_cols + (piece * 4 + k) * BN + wn * PIECE_N);
                }
#pragma unroll
                for (int wm = 0; wm < WMITER; ++wm) {
#pragma unroll
                    for (int wn = 0; wn < WNITER; ++wn) {
#pragma unroll
                        for (int i = 0; i < TM; ++i) {
#pragma unroll
                            for (int j = 0; j < TN; ++j) sums[wm][wn][i][j] += a[wm * TM + i][k] * b[wn][j];
                        }
                    }
                }
            }
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
#pragma unroll
    for (int wm = 0; wm < WMITER; ++wm) {
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int row = tile_row + lane_row + (wm * TM + i) * LANES_M;
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
