// gemm_wmma: products of 16-bit factors on tensor cores, with operands in either order.
//
// Rung 14 with its tiles in shared memory as the operands lie in global memory. So every order is loaded by 16-byte pieces,
// and the fragments are given the order: row_major or col_major. A step along k is one tile of each operand; while it is
// multiplied, the next one is on its way into registers.
//
//             A row-major      A column-major          B row-major      B column-major
//                BK +8             BM    +8                BN    +8         BK +8
//             +------+-+       +----------+-+          +----------+-+    +------+-+
//          BM |      | |    BK |          | |       BK |          | | BN |      | |
//             |      | |       +----------+-+          +----------+-+    |      | |
//             +------+-+                                                 +------+-+
//
// Lines end in 8 elements of padding, 16 bytes: a line is then an odd number of 16-byte pieces long, and the pieces of 8
// neighbouring lines, which a warp loads at once, are in different banks. When all steps are done, the same memory has for
// each warp 16 rows x (WN + 8) floats, through which the sums pass on their way to D.

#include "epilogue/fragments.cuh"
#include "pipeline/half_operand.cuh"
#include "ptx/keep.cuh"

constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int FRAGMENTS_M = WM / 16;
constexpr int FRAGMENTS_N = WN / 16;
using TileA = HalfTile<!TRANSPOSED_A, BM, BK>;
using TileB = HalfTile<TRANSPOSED_B, BN, BK>;

template <bool ROW_MAJOR>
struct Order {
    using Name = wmma::row_major;
};
template <>
struct Order<false> {
    using Name = wmma::col_major;
};
using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 16, FACTOR, Order<!TRANSPOSED_A>::Name>;
using FragmentB = wmma::fragment<wmma::matrix_b, 16, 16, 16, FACTOR, Order<!TRANSPOSED_B>::Name>;
using Sums = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

struct Tiles {
    TileA A;
    TileB B;
};

union Shared {
    Tiles tiles;
    SumRows<WN> results[THREADS / 32];  // once the tiles are done with
};

// Where a warp's tile is. Computed before the loop and again after it: kept meanwhile, it would take registers of the loop.
struct Place {
    int matrix, tile_row, tile_col;
    int warp, warp_row, warp_col;  // row and column within the block's tile

    __device__ __forceinline__ Place(const Sizes& sizes) {
        int block = blockIdx.x, thread = threadIdx.x;
        keep(block);
        keep(thread);
        const int tiles_n = (sizes.n + BN - 1) / BN;
        const int tiles = (sizes.m + BM - 1) / BM * tiles_n;
        matrix = block / tiles;
        tile_row = block % tiles / tiles_n * BM;
        tile_col = block % tiles % tiles_n * BN;
        warp = thread / 32;
        warp_row = warp / (BN / WN) * WM;
        warp_col = warp % (BN / WN) * WN;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, EDGES ? 1 : MIN_BLOCKS)  // guards take registers of their own
    gemm_wmma(Sizes sizes, Factor<FACTOR> A, Factor<FACTOR> B, Output<RESULT> output) {
    __shared__ __align__(128) Shared shared;

    const Place place(sizes);

    HalfStream<TileA, THREADS> a_stream(A, place.matrix, place.tile_row, sizes.m);
    HalfStream<TileB, THREADS> b_stream(B, place.matrix, place.tile_col, sizes.n);

    Sums sums[FRAGMENTS_M][FRAGMENTS_N];
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
    }
    if (depth_of(sizes, output) > 0) {
        a_stream.load(sizes.k);
        b_stream.load(sizes.k);
        for (int k0 = 0; k0 < sizes.k; k0 += BK) {
            a_stream.store(shared.tiles.A);
            b_stream.store(shared.tiles.B);
            __syncthreads();
            if (k0 + BK < sizes.k) {
                a_stream.load(sizes.k - k0 - BK);
                b_stream.load(sizes.k - k0 - BK);
            }
#pragma unroll
            for (int k = 0; k < BK; k += 16) {
                FragmentA a[FRAGMENTS_M];
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i) shared.tiles.A.load(a[i], place.warp_row + 16 * i, k);
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
                    FragmentB b;
                    shared.tiles.B.load(b, place.warp_col + 16 * j, k);
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i) wmma::mma_sync(sums[i][j], a[i], b, sums[i][j]);
                }
            }
            __syncthreads();
        }
    }
    const Place again(sizes);
    const Result<RESULT> result(output, sizes, again.matrix);
    store_fragments(result, again.tile_row + again.warp_row, again.tile_col + again.warp_col, sums,
                    shared.results[again.warp]);
}
