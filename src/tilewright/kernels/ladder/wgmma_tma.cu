// Rung 20, wgmma_tma: the copy engine loads tiles, several steps ahead of the tensor cores.
//
// Over rung 19 no thread touches an element of A or B: one asks for boxes of them, which come swizzled as the tensor cores
// read them, with zeros outside the matrices. STAGES tiles of each are in shared memory or in flight, and the products of
// one step are still being made when those of the next are started. What should move: instructions, and the time that the
// tensor cores wait.
//
//   copy engine   | load 0 | load 1 | load 2 |          | load 3            | load 4            | ...
//   tensor cores           | multiply 0           | multiply 1        | multiply 2        | ...
//   threads       ask 0-2, | wait for 0, start 0 | wait for 1, start 1, | wait for 2, start 2,
//                 then       wait for tile           products 0 done,       products 1 done,
//                                                    ask for 3              ask for 4           (here with 3 stages)

#include "epilogue/ladder_wgmma.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

using Element = __nv_bfloat16;

constexpr int THREADS = 128;
constexpr int BK = LINE;
constexpr int BLOCK_BYTES = BK * LINE_BYTES;  // of 64 columns of B

struct Tiles {
    unsigned char A[BM * LINE_BYTES];
    unsigned char B[BN / 64 * BLOCK_BYTES];
};

struct Shared {
    Tiles stages[STAGES];
    Barrier full[STAGES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
    wgmma_tma(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
              float beta, Element* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    const int steps = (K + BK - 1) / BK;

    const auto load = [&](int step) {
        Tiles& tiles = shared->stages[step % STAGES];
        Barrier* const full = &shared->full[step % STAGES];
        barrier_expect_bytes(full, sizeof(Tiles));
        load_tile(tiles.A, &A, step * BK, tile_row, 0, full);
#pragma unroll
        for (int block = 0; block < BN / 64; ++block) {
            load_tile(tiles.B + block * BLOCK_BYTES, &B, tile_col + block * 64, step * BK, 0, full);
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
        for (int k = 0; k < BK; k += 16) {
            const MatrixDescriptor b = matrix_descriptor(tiles.B, BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
            for (int i = 0; i < BM / 64; ++i) {
                const MatrixDescriptor a = matrix_descriptor(tiles.A) + (i * 64 * LINE_BYTES + k * 2);
                multiply_async<Major::along_k, Major::across_k, Element>(sums[i], a, b);
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
