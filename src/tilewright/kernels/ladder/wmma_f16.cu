// Rung 14, wmma_f16: half or bfloat16 in, float sums and float out.
//
// Over rung 13 an element has 16 bits: a fragment reaches 16 along k, one mma_sync does twice the work, and every byte that
// is moved carries twice the elements. Nothing is rounded on the way: products of two halves are exact in float. What should
// move: half the global sectors and half the shared wavefronts an operation.

#include "epilogue/ladder_wmma.cuh"
#include "pipeline/half_tile_io.cuh"
#include "ptx/wmma.cuh"

#if BFLOAT16
using Element = __nv_bfloat16;
#else
using Element = __half;
#endif

constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int FRAGMENTS_M = WM / 16;
constexpr int FRAGMENTS_N = WN / 16;
constexpr int FETCHES_A = BM * BK / 8 / THREADS;  // pieces of 8 elements, 16 bytes, that a thread moves
constexpr int FETCHES_B = BK * BN / 8 / THREADS;

using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 16, Element, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, 16, 16, 16, Element, wmma::row_major>;
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

// The padding lets the 16-byte pieces of 8 neighbouring rows, which a warp reads at once, lie in different banks.
struct Tiles {
    Element As[BM][BK + 8];
    Element Bs[BK][BN + 8];
};

union Shared {
    Tiles tiles;
    float results[THREADS / 32][16][WN + RESULTS_PAD];  // once the tiles are done with
};

extern "C" __global__ void __launch_bounds__(THREADS, EDGES ? 1 : MIN_BLOCKS)  // guards take registers of their own
    wmma_f16(int M, int N, int K, float alpha, const Element* A, int lda, const Element* B, int ldb, float beta, float* C,
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

    const Element* A_tile = at(A, lda, tile_row, 0);
    const Element* B_tile = at(B, ldb, 0, tile_col);
    uint4 next_a[FETCHES_A], next_b[FETCHES_B];
    const auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < FETCHES_A; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            next_a[i] = load8(A_tile, lda, M - tile_row, K - k0, piece / (BK / 8), piece % (BK / 8) * 8);
        }
#pragma unroll
        for (int i = 0; i < FETCHES_B; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            next_b[i] = load8(B_tile, ldb, K - k0, N - tile_col, piece / (BN / 8), piece % (BN / 8) * 8);
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
            const int piece = i * THREADS + threadIdx.x;
            *reinterpret_cast<uint4*>(&As[piece / (BK / 8)][piece % (BK / 8) * 8]) = next_a[i];
        }
#pragma unroll
        for (int i = 0; i < FETCHES_B; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            *reinterpret_cast<uint4*>(&Bs[piece / (BN / 8)][piece % (BN / 8) * 8]) = next_b[i];
        }
        __syncthreads();
        if (k0 + BK < K) fetch(k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            FragmentA a[FRAGMENTS_M];
            FragmentB b[FRAGMENTS_N];
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) wmma::load_matrix_sync(a[i], &As[warp_row + 16 * i][k], BK + 8);
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
