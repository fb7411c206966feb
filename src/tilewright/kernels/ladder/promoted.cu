// Rung 28, promoted: threads take the tensor cores' sums over, every PROMOTE of k.
//
// Over rung 27 the tensor cores begin a new sum every PROMOTE of k, and threads add what they have made to sums of their own
// (promotion), in float32, which rounds. What is cut off is then in proportion to a sum over PROMOTE of k, not to one over all
// of it, and errors of rounding cancel one another. In each sum the largest products, those of first parts, come last, so that
// few additions cut off in proportion to them. What should move: the error; and instructions, by an addition for each sum that
// is taken over, for which the tensor cores wait.
//
//   k              0           PROMOTE         2 PROMOTE
//   tensor cores   | partial = ... |              | partial = ... |              | partial = ...
//   threads                     | sums += partial |            | sums += partial |
//
// For each element of its tile a thread now holds two registers.

#include "epilogue/ladder_wgmma.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

using PartType = __nv_bfloat16;

constexpr int THREADS = 128;
constexpr int SPLIT_PARTS = 3;
constexpr int BK = LINE;
constexpr int PART = PROMOTE < BK ? PROMOTE : BK;  // of a stage's k: what comes between two waits
constexpr int BLOCK_BYTES = BK * LINE_BYTES;       // of 64 columns of a part of B

struct Tiles {
    unsigned char A[SPLIT_PARTS][BM * LINE_BYTES];
    unsigned char B[SPLIT_PARTS][BN / 64 * BLOCK_BYTES];
};

struct Shared {
    Tiles stages[STAGES];
    Barrier full[STAGES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    promoted(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
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

    float sums[BM / 64][BN / 2] = {}, partial[BM / 64][BN / 2];
    for (int step = 0; step < steps; ++step) {
        const Tiles& tiles = shared->stages[step % STAGES];
        barrier_wait(&shared->full[step % STAGES], step / STAGES % 2);
#pragma unroll
        for (int first = 0; first < BK; first += PART) {
            bool adds = (step * BK + first) % PROMOTE != 0;
            fence_sums(partial);
#pragma unroll
            for (int order = SPLIT_PARTS - 1; order >= 0; --order) {  // the least products first
#pragma unroll
                for (int part = 0; part <= order; ++part) {
#pragma unroll
                    for (int k = first; k < first + PART; k += 16) {
                        const MatrixDescriptor b = matrix_descriptor(tiles.B[order - part], BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
                        for (int i = 0; i < BM / 64; ++i) {
                            const MatrixDescriptor a = matrix_descriptor(tiles.A[part]) + (i * 64 * LINE_BYTES + k * 2);
                            multiply_async<Major::along_k, Major::across_k, PartType>(partial[i], a, b, adds);
                        }
                        adds = true;
                    }
                }
            }
            commit_products();
            wait_products<0>(partial);
            if ((step * BK + first + PART) % PROMOTE != 0 && step + 1 < steps) continue;
#pragma unroll
            for (int i = 0; i < BM / 64; ++i) {
#pragma unroll
                for (int j = 0; j < BN / 2; ++j) sums[i][j] += partial[i][j];
            }
        }
        __syncthreads();  // to be sure that all four warps' products have been made: their tiles may be overwritten
        if (threadIdx.x == 0 && step + STAGES < steps) load(step + STAGES);
    }
#pragma unroll
    for (int i = 0; i < BM / 64; ++i) {
        store_sums(C, ldc, M, N, tile_row + 64 * i, tile_col, alpha, sums[i], beta);
    }
}
