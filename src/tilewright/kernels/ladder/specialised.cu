// Rung 21, specialised: one warpgroup loads, two multiply.
//
// Over rung 20 no thread does both: a producer asks for tiles as soon as a stage is free, consumers wait for nothing but
// tiles. The block never meets; a stage's two barriers pass it to and fro. The producer gives most of its registers to the
// consumers, so that the block's tile, and what is multiplied for each byte that is loaded, can be twice as large. What
// should move: the time that the tensor cores wait, and bytes asked of global memory.
//
//   producer (one thread)    | load 0 | load 1 | load 2 | wait for empty 0, load 3 | wait for empty 1, load 4 | ...
//                                 full 0 |    full 1 |            ^ empty 0 (8 arrivals: a lane of each warp)
//   consumer 0, 1            | wait for full 0, start 0 | wait for full 1, start 1, wait for 0, arrive at empty 0 | ...
//     rows 0 to BM/2 - 1 of the tile, and the others                                           (here with 3 stages)

#include "epilogue/ladder_wgmma.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

using Element = __nv_bfloat16;

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int ROWS = BM / CONSUMERS;  // of a consumer
constexpr int BK = LINE;
constexpr int BLOCK_BYTES = BK * LINE_BYTES;  // of 64 columns of B

struct Tiles {
    unsigned char A[BM * LINE_BYTES];
    unsigned char B[BN / 64 * BLOCK_BYTES];
};

struct Shared {
    Tiles stages[STAGES];
    Barrier full[STAGES], empty[STAGES];
};

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    specialised(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
                float beta, Element* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);

    const int tiles_n = (N + BN - 1) / BN;
    const int tile_row = blockIdx.x / tiles_n * BM;
    const int tile_col = blockIdx.x % tiles_n * BN;
    const int steps = (K + BK - 1) / BK;
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1);
            barrier_init(&shared->empty[stage], 4 * CONSUMERS);
        }
        fence_barrier_init();
    }
    __syncthreads();

    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<40>();
        if (threadIdx.x % 128 != 0) return;
        for (int step = 0; step < steps; ++step) {
            const int stage = step % STAGES;
            Tiles& tiles = shared->stages[stage];
            Barrier* const full = &shared->full[stage];
            if (step >= STAGES) barrier_wait(&shared->empty[stage], (step / STAGES - 1) % 2);
            barrier_expect_bytes(full, sizeof(Tiles));
            load_tile(tiles.A, &A, step * BK, tile_row, 0, full);
#pragma unroll
            for (int block = 0; block < BN / 64; ++block) {
                load_tile(tiles.B + block * BLOCK_BYTES, &B, tile_col + block * 64, step * BK, 0, full);
            }
        }
        return;
    }

    setmaxnreg_inc<232>();
    float sums[ROWS / 64][BN / 2] = {};
    for (int step = 0; step < steps; ++step) {
        const Tiles& tiles = shared->stages[step % STAGES];
        barrier_wait(&shared->full[step % STAGES], step / STAGES % 2);
        fence_sums(sums);
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            const MatrixDescriptor b = matrix_descriptor(tiles.B, BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
            for (int i = 0; i < ROWS / 64; ++i) {
                const int row = warpgroup * ROWS + i * 64;
                const MatrixDescriptor a = matrix_descriptor(tiles.A) + (row * LINE_BYTES + k * 2);
                multiply_async<Major::along_k, Major::across_k, Element>(sums[i], a, b);
            }
        }
        commit_products();
        wait_products<1>(sums);  // those of the step before are made
        if (step > 0 && threadIdx.x % 32 == 0) barrier_arrive(&shared->empty[(step - 1) % STAGES]);
    }
    wait_products<0>(sums);
#pragma unroll
    for (int i = 0; i < ROWS / 64; ++i) {
        store_sums(C, ldc, M, N, tile_row + warpgroup * ROWS + 64 * i, tile_col, alpha, sums[i], beta);
    }
}
