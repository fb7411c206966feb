// Rung 27, split: float32 factors on the tensor cores, each as the sum of three bfloat16 matrices.
//
// Over rung 20 A and B are float32. A kernel before this one has split each into three parts, which hold its 24 bits: the
// first is the element rounded to bfloat16, the second what that leaves, and so on. Of the nine products of parts six are made;
// what the others add is below the last bit of float32:
//
//     element    |1.xxxxxxx|xxxxxxxx|xxxxxxxx|             a0 b2   a1 b1   a2 b0  |  a0 b1   a1 b0  |  a0 b0
//     parts       a0        a1       a2         products:  2^-16                  |  2^-8           |  1       of a b
//
// All of them are added up in one sum of the tensor cores, over all of k, as rung 20 adds up its products. What should move:
// six times as many products for each tile, and the error. It does not become float32's: the tensor cores cut off what does
// not fit into a sum, where float32 rounds, so the errors of long sums all point one way, and grow with k.

#include "epilogue/ladder_wgmma.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

using PartType = __nv_bfloat16;

constexpr int THREADS = 128;
constexpr int SPLIT_PARTS = 3;
constexpr int BK = LINE;
constexpr int BLOCK_BYTES = BK * LINE_BYTES;  // of 64 columns of a part of B

struct Tiles {
    unsigned char A[SPLIT_PARTS][BM * LINE_BYTES];
    unsigned char B[SPLIT_PARTS][BN / 64 * BLOCK_BYTES];
};

struct Shared {
    Tiles stages[STAGES];
    Barrier full[STAGES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    split(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
          float beta, float* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    const int steps = (K + BK - 1) / BK;

    const auto load = [&](int step) {
        Tiles& tiles = shared->stages[step % STAGES];
        Barrier* const full = &shared->full[step % STAGES];
        barrier_expect_bytes(full, sizeof(Tiles));
        for (int part = 0; part < SPLIT_PARTS; ++part) {
            load_tile(tiles.A[part], &A, step * BK, tile_row, part, full);
#pragma unroll
            for (int block = 0; block < BN / 64; ++block) {
                load_tile(tiles.B[part] + block * BLOCK_BYTES, &B, tile_col + block * 64, step * BK, part, full);
            }
        }
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) barrier_init(&shared->full[stage], 1);
        fence_barrier_init();
        for (int step = 0; step < min(STAGES, steps); ++step) load(step);
    }
    __syncthreads();

    float sums[BM / 64][BN / 2] = {};
    for (int step = 0; step < steps; ++step) {
        const Tiles& tiles = shared->stages[step % STAGES];
        barrier_wait(&shared->full[step % STAGES], step / STAGES % 2);
        fence_sums(sums);
#pragma unroll
        for (int order = SPLIT_PARTS - 1; order >= 0; --order) {  // the least products first
#pragma unroll
            for (int part = 0; part <= order; ++part) {
#pragma unroll
                for (int k = 0; k < BK; k += 16) {
                    const MatrixDescriptor b = matrix_descriptor(tiles.B[order - part], BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
                    for (int i = 0; i < BM / 64; ++i) {
                        const MatrixDescriptor a = matrix_descriptor(tiles.A[part]) + (i * 64 * LINE_BYTES + k * 2);
                        multiply_async<Major::along_k, Major::across_k, PartType>(sums[i], a, b);
                    }
                }
            }
        }
        commit_products();
        wait_products<1>(sums);  // those of the step before are made: its tiles may be overwritten
        __syncthreads();         // to be sure that all four warps' are
        if (threadIdx.x == 0 && step > 0 && step - 1 + STAGES < steps) load(step - 1 + STAGES);
    }
    wait_products<0>(sums);
#pragma unroll
    for (int i = 0; i < BM / 64; ++i) {
        store_sums(C, ldc, M, N, tile_row + 64 * i, tile_col, alpha, sums[i], beta);
    }
}
