// Rung 13, wmma_tf32: tensor cores through fragments, float in and out.
//
// Over rung 10 a warp's tile is cut into 16x16 fragments, which its lanes hold together, and one mma_sync multiplies 16x16x8
// where a lane alone would need 64 FFMAs. The factors are rounded to TF32, which keeps float's exponent but 10 bits of its
// mantissa; sums stay float. What should move: FFMA instructions go to none, and so do most shared loads. What it costs: a
// relative error of 3e-4 in place of 1e-6.
//
// A stays as it lies, rows of k, since load_matrix_sync transposes by itself. The elements are rounded once, on their way into
// shared memory, not by every warp that reads them; and the next tile is fetched into registers while this one is
// multiplied, since tensor cores are soon done with it.

#include "epilogue/ladder.cuh"
#include "epilogue/ladder_wmma.cuh"
#include "ptx/wmma.cuh"

constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int FRAGMENTS_M = WM / 16;
constexpr int FRAGMENTS_N = WN / 16;
constexpr int FETCHES_A = BM * BK / 4 / THREADS;  // float4s that a thread moves
constexpr int FETCHES_B = BK * BN / 4 / THREADS;

using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 8, float>;

// The padding spreads what a fragment takes over all banks: 8 rows of 4 neighbours of A, 4 rows of 8 neighbours of B.
struct Tiles {
    float As[BM][BK + 4];
    float Bs[BK][BN + 8];
};

union Shared {
    Tiles tiles;
    float results[THREADS / 32][16][WN + RESULTS_PAD];  // once the tiles are done with
};

__device__ __forceinline__ float4 to_tf32(float4 four) {
    return make_float4(wmma::__float_to_tf32(four.x), wmma::__float_to_tf32(four.y), wmma::__float_to_tf32(four.z),
                       wmma::__float_to_tf32(four.w));
}

extern "C" __global__ void __launch_bounds__(THREADS, EDGES ? 1 : MIN_BLOCKS)  // guards take registers of their own
    wmma_tf32(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
              int ldc) {
    __shared__ __align__(128) Shared shared;
    auto& As = shared.tiles.As;
    auto& Bs = shared.tiles.Bs;

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM;  // within the block's tile
    const int warp_col = warp % (BN / WN) * WN;

    const float* A_tile = at(A, lda, tile_row, 0);
    const float* B_tile = at(B, ldb, 0, tile_col);
    float4 next_a[FETCHES_A], next_b[FETCHES_B];
    const auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < FETCHES_A; ++i) {
            const int four = i * THREADS + threadIdx.x;
            next_a[i] = load4(A_tile, lda, M - tile_row, K - k0, four / (BK / 4), four % (BK / 4) * 4);
        }
#pragma unroll
        for (int i = 0; i < FETCHES_B; ++i) {
            const int four = i * THREADS + threadIdx.x;
            next_b[i] = load4(B_tile, ldb, K - k0, N - tile_col, four / (BN / 4), four % (BN / 4) * 4);
        }
        A_tile += BK;
        B_tile = at(B_tile, ldb, BK, 0);
    };

    Sums sums[FRAGMENTS_M][FRAGMENTS_N];
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
    }
    if (K > 0) fetch(0);
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int i = 0; i < FETCHES_A; ++i) {
            const int four = i * THREADS + threadIdx.x;
            *reinterpret_cast<float4*>(&As[four / (BK / 4)][four % (BK / 4) * 4]) = to_tf32(next_a[i]);
        }
#pragma unroll
        for (int i = 0; i < FETCHES_B; ++i) {
            const int four = i * THREADS + threadIdx.x;
            *reinterpret_cast<float4*>(&Bs[four / (BN / 4)][four % (BN / 4) * 4]) = to_tf32(next_b[i]);
        }
        __syncthreads();
        if (k0 + BK < K) fetch(k0 + BK);
#pragma unroll 1  // with the fragments of two steps at once there are too few registers for two blocks
        for (int k = 0; k < BK; k += 8) {
            FragmentA a[FRAGMENTS_M];
            FragmentB b[FRAGMENTS_N];
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) wmma::load_matrix_sync(a[i], &As[warp_row + 16 * i][k], BK + 4);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) wmma::load_matrix_sync(b[j], &Bs[k][warp_col + 16 * j], BN + 8);
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
    store_fragments(C, ldc, M, N, tile_row + warp_row, tile_col + warp_col, alpha, sums, beta, shared.results[warp]);
}
