// Rung 19, wgmma: a warpgroup's 128 threads multiply together, straight from shared memory.
//
// Over rung 14 no fragment is loaded: one instruction multiplies 64 rows of A by BN columns of B. The tensor cores read both
// themselves, from where a descriptor says that they lie, and only the sums are in registers. What should move: no shared
// loads at all, and fewer instructions.
//
//   As: BM lines of 64 k                     Bs: BN / 64 blocks of 64 lines, one a k, of 64 columns
//     row 0  | 8 pieces of 16 bytes |          k 0  | 8 pieces |    k 0  | 8 pieces |
//     row 1  | ...                  |          k 1  | ...      |    k 1  | ...      |
//
// The products are asynchronous, but here the threads wait for them before they load the next tiles: what overlaps is the
// work of different blocks.

#include "epilogue/ladder_wgmma.cuh"
#include "pipeline/half_tile_io.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

using Element = __nv_bfloat16;

constexpr int THREADS = 128;
constexpr int BK = LINE;
constexpr int BLOCK_BYTES = BK * LINE_BYTES;  // of 64 columns of B

extern "C" __global__ void __launch_bounds__(THREADS, EDGES ? 1 : MIN_BLOCKS)  // guards take registers of their own
    wgmma(int M, int N, int K, float alpha, const Element* A, int lda, const Element* B, int ldb, float beta, Element* C,
          int ldc) {
    __shared__ __align__(1024) unsigned char As[BM * LINE_BYTES];
    __shared__ __align__(1024) unsigned char Bs[BN / 64 * BLOCK_BYTES];

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    const Element* A_tile = at(A, lda, tile_row, 0);
    const Element* B_tile = at(B, ldb, 0, tile_col);

    const int line = threadIdx.x / 8, piece = threadIdx.x % 8;  // that this thread moves first
    float sums[BM / 64][BN / 2] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int row = line; row < BM; row += THREADS / 8) {
            const uint4 elements = load8(A_tile, lda, M - tile_row, K - k0, row, piece * 8);
            *reinterpret_cast<uint4*>(As + swizzled(row, piece)) = elements;
        }
#pragma unroll
        for (int block = 0; block < BN / 64; ++block) {
#pragma unroll
            for (int k = line; k < BK; k += THREADS / 8) {
                const uint4 elements = load8(B_tile, ldb, K - k0, N - tile_col, k, (block * 8 + piece) * 8);
                *reinterpret_cast<uint4*>(Bs + block * BLOCK_BYTES + swizzled(k, piece)) = elements;
            }
        }
        A_tile += BK;
        B_tile = at(B_tile, ldb, BK, 0);
        fence_async_shared();  // the tensor cores reach shared memory by another way than stores do
        __syncthreads();
        fence_sums(sums);
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            const MatrixDescriptor b = matrix_descriptor(Bs, BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
            for (int i = 0; i < BM / 64; ++i) {
                const MatrixDescriptor a = matrix_descriptor(As) + (i * 64 * LINE_BYTES + k * 2);
                multiply_async<Major::along_k, Major::across_k, Element>(sums[i], a, b);
            }
        }
        commit_products();
        wait_products<0>(sums);
        __syncthreads();  // to be sure that all four warps' products have been made
    }
#pragma unroll
    for (int i = 0; i < BM / 64; ++i) {
        store_sums(C, ldc, M, N, tile_row + 64 * i, tile_col, alpha, sums[i], beta);
    }
}
