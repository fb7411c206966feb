// Rung 25, pingpong: the consumers take turns: one stores its tile while the other multiplies.
//
// Over rung 24 each consumer computes tiles of its own, every second one of the block's, alone at the tensor cores. It holds
// all sums of its tile, so a tile has half the size. The producer loads tile after tile, whoever multiplies them. A consumer
// counts the other's stages too, and starts when the other has started its last product: `read` says so. What should move:
// the time that the tensor cores wait while tiles are stored.
//
//   producer       | load tile 0          | load tile 1          | load tile 2          | load tile 3 ...
//   consumer 0         | multiply tile 0      | store tile 0     .   | multiply tile 2      | store tile 2 ...
//   consumer 1                                | multiply tile 1      | store tile 1     .   | multiply tile 3 ...
//   tensor cores       | tile 0               | tile 1               | tile 2               | tile 3 ...
//                                        read[0] ^           read[1] ^           read[0] ^    4 warps arrive, the other consumer waits
//
//   As in rung 24, the producer waits for empty[stage], and the consumer whose tile it is for full[stage].

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
    Barrier read[CONSUMERS];  // all stages of the consumer's tile
};

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __cluster_dims__(CLUSTER_M, 1, 1) __launch_bounds__(THREADS, 1)
    pingpong(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
             float beta, Element* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);

    const int rank = cluster_rank();
    const int steps = (K + BK - 1) / BK;
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1);
            barrier_init(&shared->empty[stage], 4 * CLUSTER_M);
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) barrier_init(&shared->read[consumer], 4);
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
        const int lane = threadIdx.x % 32;
        const auto release = [&](int stage) {
            if (lane < CLUSTER_M) barrier_arrive_at(&shared->empty[stage], lane);
        };
        for (int number = 0; tile.next(); ++number) {
            if (number % CONSUMERS != warpgroup) {
                turn.skip(steps);
                continue;
            }
            // A phase is known by its parity alone: the tile before has to be read first.
            if (number > 0) barrier_wait(&shared->read[1 - warpgroup], (number - 1) / CONSUMERS & 1);
            float sums[BM / 64][BN / 2] = {};
            int before = 0;  // the stage of the step before
            for (int step = 0; step < steps; ++step, turn.next()) {
                const Tiles& from = shared->stages[turn.stage];
                barrier_wait(&shared->full[turn.stage], turn.parity);
                fence_sums(sums);
#pragma unroll
                for (int k = 0; k < BK; k += 16) {
                    const MatrixDescriptor b = matrix_descriptor(from.B, BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
                    for (int i = 0; i < BM / 64; ++i) {
                        const MatrixDescriptor a = matrix_descriptor(from.A) + (i * 64 * LINE_BYTES + k * 2);
                        multiply_async<Major::along_k, Major::across_k, Element>(sums[i], a, b);
                    }
                }
                commit_products();
                wait_products<1>(sums);  // those of the step before are made
                if (step > 0) release(before);
                before = turn.stage;
            }
            if (lane == 0) barrier_arrive(&shared->read[warpgroup]);
            wait_products<0>(sums);
            if (steps > 0) release(before);

            if (tile.row >= M) continue;  // a cluster's last block may have no rows
#pragma unroll
            for (int i = 0; i < BM / 64; ++i) {
                store_sums(C, ldc, M, N, tile.row + 64 * i, tile.col, alpha, sums[i], beta);
            }
        }
    }
    __syncwarp();    // the instruction takes whole warps
    cluster_sync();  // until then others may reach into this block
}
