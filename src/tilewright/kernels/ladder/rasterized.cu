// Rung 24, rasterized: blocks that run at the same time compute tiles that are neighbours in both directions.
//
// Over rung 23 the order of tiles changes, and nothing else. There clusters compute tiles row by row: those that run at the
// same time need a few rows of A and, in a wide matrix, all of B. Here they compute groups of GROUP_M rows of clusters' tiles, in
// a group column by column (tile_order.cuh). So fewer different elements of A and B are in use at a time, and more of what
// blocks ask for is in the L2 cache. What should move: the share of reads that the L2 cache serves, and bytes from DRAM.
//
//     row by row                          GROUP_M = 4                         (numbers of clusters' tiles; 12 run at a time)
//     0   1   2   3   4   5   6   7       0   4   8  12  16  20  24  28
//     8   9  10  11  12  13  14  15       1   5   9  13  17  21  25  29
//     16  17  18  ..                      2   6  10  14  18  ..
//                                         3   7  11  15  19  ..
//     0 to 11: 2 rows of A, 8 cols of B   0 to 11: 4 rows of A, 3 cols of B
//
// Roles and barriers are those of rung 23:
//
//   producer       | wait for empty[stage] (the consumers of all blocks of the cluster), load A, and a part of B for all | ...
//   consumers      | wait for full[stage], start products, arrive at empty[stage before] of all blocks | ... | store |
//
// The stage that a step uses, and its parity, now come from a header (stage_turn.cuh), as rung 22 has them.

#include "epilogue/ladder_wgmma.cuh"
#include "pipeline/stage_turn.cuh"
#include "pipeline/tile_order.cuh"
#include "ptx/cluster.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/wgmma.cuh"

using Element = __nv_bfloat16;

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int ROWS = BM / CONSUMERS;  // of a consumer
constexpr int BK = LINE;
constexpr int BLOCK_BYTES = BK * LINE_BYTES;  // of 64 columns of B
constexpr int SHARE = BK / CLUSTER_M;           // rows of B that a block loads
constexpr unsigned short ALL = (1 << CLUSTER_M) - 1;

struct Tiles {
    unsigned char A[BM * LINE_BYTES];
    unsigned char B[BN / 64 * BLOCK_BYTES];
};

struct Shared {
    Tiles stages[STAGES];
    Barrier full[STAGES], empty[STAGES];
};

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __cluster_dims__(CLUSTER_M, 1, 1) __launch_bounds__(THREADS, 1)
    rasterized(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
               float beta, Element* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);

    const int rank = cluster_rank();
    const int steps = (K + BK - 1) / BK;
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1);
            barrier_init(&shared->empty[stage], 4 * CONSUMERS * CLUSTER_M);
        }
        fence_barrier_init();
    }
    cluster_sync();

    TileOrder<BM, BN, GROUP_M, CLUSTER_M> tile({M, N, K, 1}, blockIdx.x / CLUSTER_M, gridDim.x / CLUSTER_M);
    StageTurn<STAGES> turn;
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<40>();
        while (threadIdx.x % 128 == 0 && tile.next()) {
            for (int step = 0; step < steps; ++step, turn.next()) {
                Tiles& into = shared->stages[turn.stage];
                Barrier* const full = &shared->full[turn.stage];
                barrier_wait(&shared->empty[turn.stage], turn.parity ^ 1);  // returns at once in the first STAGES steps
                barrier_expect_bytes(full, sizeof(Tiles));
                load_tile(into.A, &A, step * BK, tile.row, 0, full);
#pragma unroll
                for (int block = 0; block < BN / 64; ++block) {
                    unsigned char* const share = into.B + block * BLOCK_BYTES + rank * SHARE * LINE_BYTES;
                    load_tile_to(ALL, share, &B, tile.col + block * 64, step * BK + rank * SHARE, 0, full);
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const auto release = [&](int stage) {
            if (threadIdx.x % 32 < CLUSTER_M) barrier_arrive_at(&shared->empty[stage], threadIdx.x % 32);
        };
        while (tile.next()) {
            float sums[ROWS / 64][BN / 2] = {};
            int before = 0;  // the stage of the step before
            for (int step = 0; step < steps; ++step, turn.next()) {
                const Tiles& from = shared->stages[turn.stage];
                barrier_wait(&shared->full[turn.stage], turn.parity);
                fence_sums(sums);
#pragma unroll
                for (int k = 0; k < BK; k += 16) {
                    const MatrixDescriptor b = matrix_descriptor(from.B, BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
                    for (int i = 0; i < ROWS / 64; ++i) {
                        const int row = warpgroup * ROWS + i * 64;
                        const MatrixDescriptor a = matrix_descriptor(from.A) + (row * LINE_BYTES + k * 2);
                        multiply_async<Major::along_k, Major::across_k, Element>(sums[i], a, b);
                    }
                }
                commit_products();
                wait_products<1>(sums);  // those of the step before are made
                if (step > 0) release(before);
                before = turn.stage;
            }
            wait_products<0>(sums);
            if (steps > 0) release(before);
#pragma unroll
            for (int i = 0; i < ROWS / 64; ++i) {
                const int row = tile.row + warpgroup * ROWS + 64 * i;
                if (row < M) store_sums(C, ldc, M, N, row, tile.col, alpha, sums[i], beta);
            }
        }
    }
    __syncwarp();    // the instruction takes whole warps
    cluster_sync();  // until then others may reach into this block
}
