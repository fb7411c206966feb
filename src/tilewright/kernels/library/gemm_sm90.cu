// gemm_sm90: products of 16-bit matrices on Hopper's tensor cores (sm_90a alone). One warp loads tiles by TMA, and CONSUMERS
// warpgroups multiply them by wgmma. Blocks are persistent: each computes tile after tile (tile_order.cuh), and its stages go on.
// TF32, float8 and float32 by parts of 16 bits have another source with these roles, gemm_sm90_precisions.cu.
//
//   shared memory: | results on their way to D | stage 0: A, B | stage 1 | ... | full[STAGES] | empty[STAGES] | read[CONSUMERS] |
//     A and B: lines of 128 bytes along k, or blocks of such lines across 64 k (swizzled_tile.cuh)
//
//   role        waits for                                        then                           and arrives at
//   producer    empty[s]: all consumers have read stage s        loads A and B of a step to s   full[s], by the bytes that TMA writes
//   consumers   full[s]; PINGPONG: read[other] before a tile     start wgmma on stage s         empty[s - 1], whose products are done
//
//   PINGPONG 0: the consumers share a tile, each with an equal part of its rows. STAGES 4, 8 steps a tile:
//     producer       | load 0 1 2 3 | wait empty[0], load 4 | ... load 7 | next tile: wait empty[0], load 0 | ...
//     consumers             | wait full[0], multiply 0 | 1, arrive at empty[0] | ... 7 | store D | wait full[0], multiply 0 | ...
//   PINGPONG 1: each of two has all rows of every second tile, and stores D while the other multiplies (consumers.cuh).
//
//   CLUSTER_M, CLUSTER_N: blocks below and next to each other load parts of tiles of B and A for each other (cluster_grid.cuh).
//   SPLITS: this many blocks of a cluster share the k of a tile, and add up their sums (cluster_sums.cuh).
//   SWAP_AB: D^T = B^T A^T is computed. All below is of this product, but D, which is stored as it is (transposed_tiles.cuh).
#include "epilogue/transposed_tiles.cuh"
#include "operands.cuh"
#include "pipeline/cluster_grid.cuh"
#include "pipeline/cluster_sums.cuh"
#include "pipeline/consumers.cuh"
#include "pipeline/stage_barriers.cuh"
#include "pipeline/swizzled_tile.cuh"
#include "pipeline/tile_order.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/wgmma.cuh"

constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int COLS = BN / SPLITS;              // columns of a tile that a block stores
using Grid = ClusterGrid<CLUSTER_M, CLUSTER_N, SPLITS>;  // blocks that load for each other
constexpr int BLOCKS = Grid::BLOCKS * SPLITS;  // of a cluster
using Multiplying = Consumers<CONSUMERS, PINGPONG, BM>;
constexpr int SUBTILES = Multiplying::ROWS / 64;  // rows of a consumer's tile, by 64: what one wgmma multiplies
using Order = TileOrder<BM, BN, GROUP_M, CLUSTER_M, CLUSTER_N>;
using Totals = ClusterSums<SPLITS, 128 * CONSUMERS, BN / 2, Grid::BLOCKS>;
constexpr Major MAJOR_A = (SWAP_AB ? !TRANSPOSED_B : TRANSPOSED_A) ? Major::across_k : Major::along_k;
constexpr Major MAJOR_B = (SWAP_AB ? !TRANSPOSED_A : TRANSPOSED_B) ? Major::along_k : Major::across_k;
constexpr int EIGHTS = 8 * CLUSTER_M;  // where B lies along k, each of CLUSTER_M blocks loads eights of its columns, as many as the others
using TileA = SwizzledTile<MAJOR_A, BM, LINE>;
using TileB = SwizzledTile<MAJOR_B, MAJOR_B == Major::along_k ? (BN + EIGHTS - 1) / EIGHTS * EIGHTS : BN, LINE>;

struct Stage {  // what a step multiplies: LINE (64) of k
    TileA A;
    TileB B;
};

struct Shared : ResultTiles<SWAP_AB, 4 * CONSUMERS, TMA_STORE_STAGES> {
    union {
        Stage stages[STAGES];
        float4 sums[SPLITS > 1 ? BM * BN / 4 : 1];  // once all stages have been read
    };
    StageBarriers<STAGES, 4 * Multiplying::TOGETHER, Grid> barriers;
    Multiplying consumers;
};

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(BLOCKS, 1, 1)
    gemm_sm90(Sizes of_d, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, Output<RESULT> output,
              const __grid_constant__ TensorMap D) {
    DYNAMIC_SHARED(Shared, shared);
    const Sizes sizes = either<SWAP_AB>(swapped(of_d), of_d);
    const int depth = depth_of(sizes, output);
    const int all_steps = depth / LINE + (depth % LINE != 0);
    const int rank = blockIdx.x / Grid::BLOCKS % SPLITS;  // of the blocks that share a tile's k
    const int first_step = all_steps * rank / SPLITS, steps = all_steps * (rank + 1) / SPLITS - first_step;
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), warpgroup = warp / 4;  // the compiler sees: one for a warp
    grid_dependency_launch();
    Order tile = Order::of_block(sizes, BLOCKS, 0);
    bool more = warp != THREADS / 32 - 1 && tile.next();
    if (warp == THREADS / 32 - 1 && elect_one()) {  // the last warp does nothing else
        prefetch_map(&A);
        prefetch_map(&B);
        shared->barriers.init();
        shared->consumers.init();
        fence_barrier_init();
    }
    BLOCKS == 1 ? __syncthreads() : cluster_sync_relaxed();
    grid_dependency_wait();

    const Grid grid;
    StageTurn<STAGES> turn;
    if (warpgroup == CONSUMERS) {  // the producer
        const unsigned bytes = TileA::bytes(grid.of_row(), sizes.m) + TileB::bytes(grid.of_column(), sizes.n);
        if constexpr (CONSUMERS > 1) setmaxnreg_dec<40>();  // else all threads have enough
        for (; warp % 4 == 0 && more; more = tile.next()) {
            const int matrix_a = tile.matrix * sizes.step_a, matrix_b = tile.matrix * sizes.step_b;
            for (int step = first_step; step < first_step + steps; ++step, turn.next()) {
                shared->barriers.fill(turn, bytes, [&](Barrier* full) {
                    Stage& stage = shared->stages[turn.stage];
                    stage.A.load_shared(grid.of_row(), SWAP_AB ? &B : &A, tile.row, step * LINE, matrix_a, full);
                    stage.B.load_shared(grid.of_column(), SWAP_AB ? &A : &B, tile.col, step * LINE, matrix_b, full);
                });
            }
        }
        if (SPLITS > 1) Totals::attend();
        if (Grid::BLOCKS > 1 && warp % 4 == 0) shared->barriers.wait_read(turn);
        return;
    }
    if constexpr (CONSUMERS > 1) setmaxnreg_inc<CONSUMERS == 2 ? 232 : 152>();
    const int lane = threadIdx.x % 32, first = Multiplying::first_row(warpgroup);  // row of a tile
    for (int number = 0; more; ++number) {
        const Order here = tile;
        const auto next_tile = [&] { more = (tile = Order::of_block(sizes, BLOCKS, number + 1)).next(); };
        if (!Multiplying::own(number, warpgroup)) {
            next_tile();
            turn.skip(steps);
            continue;
        }
        const int row = here.row + first, col = here.col + rank * COLS;
        const Shared::Biases<RESULT, SUBTILES, COLS> biases(Bias<RESULT>(output, of_d), SWAP_AB ? row : col);
        shared->consumers.wait_turn(number, warpgroup);
        float sums[SUBTILES][BN / 2] = {};
        for (int step = 0; step < steps; ++step, turn.next()) {
            shared->barriers.wait_full(turn);
            const Stage& stage = shared->stages[turn.stage];
            fence_sums(sums);
#pragma unroll
            for (int k = 0; k < LINE_BYTES / STEP_BYTES; ++k) {  // 16 k each
                const MatrixDescriptor b = stage.B.at(0, k);
#pragma unroll
                for (int i = 0; i < SUBTILES; ++i) multiply_async<MAJOR_A, MAJOR_B, FACTOR>(sums[i], stage.A.at(first + 64 * i, k), b);
            }
            commit_products();
            wait_products<1>(sums);  // those of the step before are done, and its stage has been read
            if (step > 0) shared->barriers.release(turn.before, grid, lane);
        }
        shared->consumers.pass_turn(warpgroup, lane);
        next_tile();  // while the last products are in flight
        wait_products<0>(sums);
        if (steps > 0) shared->barriers.release(turn.before, grid, lane);
        auto& own_sums = reinterpret_cast<float (&)[SUBTILES][COLS / 2]>(sums);  // of the columns that the block stores
        if constexpr (SPLITS > 1) Totals{shared->sums, static_cast<int>(threadIdx.x)}.add_up(sums[0], own_sums[0]);
        if (!here.exists(sizes)) continue;  // a cluster's last blocks may have nothing of D
        const Result<RESULT> result(output, of_d, here.matrix);
#pragma unroll
        for (int i = 0; i < SUBTILES; ++i) shared->store(result, &D, here.matrix, i, row + 64 * i, col, own_sums[i], biases);
    }
    shared->wait_stored();
}
