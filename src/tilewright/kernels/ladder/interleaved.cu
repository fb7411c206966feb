// Rung 29, interleaved: while the threads of one consumer add, the tensor cores multiply for the other.
//
// Over rung 28 the roles are those of rung 22: a producer loads, two consumers multiply, and a block computes tile after tile.
// In rung 28 the tensor cores rest whenever threads take over what they have made. Here neither consumer waits for the other,
// so that the products of one are made while the other adds. What should move: the time that the tensor cores wait, and bytes
// asked of global memory, since both consumers read the same tiles of B.
//
//   producer       | load 0 | load 1 |               | load 2     | load 3     | ...
//   consumer 0              | partial = ... | sums += partial | partial = ... | sums += partial | ...
//   consumer 1                           | partial = ...   | sums += partial | partial = ... | sums += partial | ...
//   tensor cores            |    of 0    |     of 1     |    of 0    |     of 1     | ...
//
//   The producer waits for empty[stage], at which the warps of both consumers arrive; each consumer waits for full[stage] alone.

#include "epilogue/ladder_wgmma.cuh"
#include "pipeline/stage_turn.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

using PartType = __nv_bfloat16;

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int ROWS = BM / CONSUMERS;  // of a consumer: those that one instruction multiplies
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
    Barrier full[STAGES], empty[STAGES];
};

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    interleaved(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
                float beta, float* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);

    const int tiles_n = (N + BN - 1) / BN;
    const int tiles = (M + BM - 1) / BM * tiles_n;
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

    StageTurn<STAGES> turn;
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<40>();
        if (threadIdx.x % 128 != 0) return;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int tile_row = tile / tiles_n * BM, tile_col = tile % tiles_n * BN;
            for (int step = 0; step < steps; ++step, turn.next()) {
                Tiles& into = shared->stages[turn.stage];
                Barrier* const full = &shared->full[turn.stage];
                barrier_wait(&shared->empty[turn.stage], turn.parity ^ 1);  // returns at once in the first STAGES steps
                barrier_expect_bytes(full, sizeof(Tiles));
                for (int part = 0; part < SPLIT_PARTS; ++part) {
                    load_tile(into.A[part], &A, step * BK, tile_row, part, full);
#pragma unroll
                    for (int block = 0; block < BN / 64; ++block) {
                        load_tile(into.B[part] + block * BLOCK_BYTES, &B, tile_col + block * 64, step * BK, part, full);
                    }
                }
            }
        }
        return;
    }

    setmaxnreg_inc<232>();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sums[BN / 2] = {}, partial[BN / 2];
        for (int step = 0; step < steps; ++step, turn.next()) {
            const Tiles& from = shared->stages[turn.stage];
            barrier_wait(&shared->full[turn.stage], turn.parity);
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
                            const int first_row = warpgroup * ROWS;
                            const MatrixDescriptor a = matrix_descriptor(from.A[part]) + (first_row * LINE_BYTES + k * 2);
                            const MatrixDescriptor b = matrix_descriptor(from.B[order - part], BLOCK_BYTES) + k * LINE_BYTES;
                            multiply_async<Major::along_k, Major::across_k, PartType>(partial, a, b, adds);
                            adds = true;
                        }
                    }
                }
                commit_products();
                wait_products<0>(partial);
                if (first + PART == BK && threadIdx.x % 32 == 0) barrier_arrive(&shared->empty[turn.stage]);
                if ((step * BK + first + PART) % PROMOTE != 0 && step + 1 < steps) continue;
#pragma unroll
                for (int i = 0; i < BN / 2; ++i) sums[i] += partial[i];
            }
        }
        const int row = tile / tiles_n * BM + warpgroup * ROWS;
        store_sums(C, ldc, M, N, row, tile % tiles_n * BN, alpha, sums, beta);
    }
}
