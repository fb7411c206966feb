// grouped_sm90: products of the rows of each group with a matrix of the group's own, by Hopper's warpgroups (sm_90a alone):
//
//   D[begin of g to end of g] = A[begin of g to end of g] @ B[g]      where the groups end is read from the GPU's memory
//
// It is gemm_sm90 with another order of tiles (grouped_order.cuh): a warp loads tiles by TMA, two warpgroups multiply, and a
// block computes tile after tile while its stages go on. A tile that reaches past the end of its group loads rows of the next
// group, multiplies them with the wrong B, and does not store them. So groups need no alignment, and no size is known to the
// host: the grid has one block a multiprocessor, whatever the sizes.
//
//   shared memory of a block:
//     | stage 0: A, B | stage 1: A, B | ... | full[STAGES] | empty[STAGES] | read[CONSUMERS] |
//
//   producer       | find the next tile by the groups' ends, wait for empty[s], load its steps ... | next tile ...
//   consumers      | find the same tile | wait for full[s], multiply, arrive at empty[s - 1] ... | store rows of this group | next ...
//     whose rows are all the next group's    | wait for full[s], arrive at empty[s] ...          |
//     PINGPONG: wait for read[other] before a tile, arrive at read[own] behind its last step
//
// PINGPONG, CLUSTER_M and CLUSTER_N are those of gemm_sm90, and so are sums of float8, which begin anew with every step, and their
// scales, of which each matrix of B has its own. Rows that belong to no group are not stored.
#include "epilogue/warpgroup.cuh"
#include "pipeline/cluster_grid.cuh"
#include "pipeline/consumers.cuh"
#include "pipeline/factor_scales.cuh"
#include "pipeline/grouped_order.cuh"
#include "pipeline/stage_barriers.cuh"
#include "pipeline/stage_products.cuh"
#include "pipeline/stage_tiles.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/register_budget.cuh"

constexpr int THREADS = 128 * (1 + CONSUMERS);
using Grid = ClusterGrid<CLUSTER_M, CLUSTER_N>;  // of blocks that load for each other
constexpr int BLOCKS = Grid::BLOCKS;
using Multiplying = Consumers<CONSUMERS, PINGPONG, BM>;
constexpr int PARTS = Multiplying::ROWS / 64;  // of a consumer's rows
using Order = GroupedOrder<BM, BN, GROUP_M, CLUSTER_M, CLUSTER_N>;
using Tiles = StageTiles<BM, BN, SPLIT_PARTS, CLUSTER_M>;

struct Shared {
    Tiles stages[STAGES];
    StageBarriers<STAGES, 4 * Multiplying::TOGETHER, Grid> barriers;
    Multiplying consumers;
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(BLOCKS, 1, 1)
    grouped_sm90(Sizes sizes, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, Output<RESULT> output,
                 Scales scales_of_factors, const int* offsets) {
    DYNAMIC_SHARED(Shared, shared);
    const int steps = sizes.k / Tiles::DEPTH + (sizes.k % Tiles::DEPTH != 0);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), warpgroup = warp / 4;  // the compiler sees: one for a warp

    grid_dependency_launch();
    if (threadIdx.x == 0) {
        prefetch_map(&A);
        prefetch_map(&B);
        shared->barriers.init();
        shared->consumers.init();
        fence_barrier_init();
    }
    BLOCKS == 1 ? __syncthreads() : cluster_sync_relaxed();
    grid_dependency_wait();

    const Grid grid;
    Order tile(sizes, offsets, BLOCKS);
    StageTurn<STAGES> turn;
    if (warpgroup == CONSUMERS) {
        const unsigned bytes = Tiles::bytes(grid, sizes.m, sizes.n);
        setmaxnreg_dec<40>();
        while (warp % 4 == 0 && tile.next()) {
            for (int step = 0; step < steps; ++step, turn.next()) {
                shared->barriers.fill(turn, bytes, [&](Barrier* full) {
                    shared->stages[turn.stage].load(grid, &A, &B, tile.row, tile.col, step * Tiles::DEPTH, 0,
                                                    tile.group * sizes.step_b, full);
                });
            }
        }
        if (BLOCKS > 1 && warp % 4 == 0) shared->barriers.wait_read(turn);
        return;
    }

    setmaxnreg_inc<232>();
    const int lane = threadIdx.x % 32, first = Multiplying::first_row(warpgroup);  // row of a tile
    for (int number = 0; tile.next(); ++number) {
        if (!Multiplying::own(number, warpgroup)) {
            turn.skip(steps);
            continue;
        }
        shared->consumers.wait_turn(number, warpgroup);
        if (tile.row + first >= tile.end) {  // all rows are the next group's: the tensor cores are left to the others
            for (int step = 0; step < steps; ++step, turn.next()) {
                shared->barriers.wait_full(turn);
                shared->barriers.release(turn.stage, grid, lane);
            }
            shared->consumers.pass_turn(warpgroup, lane);
            continue;
        }
        Sum sums[PARTS][BN / 2] = {};
        for (int step = 0; step < steps; ++step, turn.next()) {
            shared->barriers.wait_full(turn);
            multiply_stage(shared->stages[turn.stage], first, sums, PartScales{});
            if (step >= STEPS_IN_FLIGHT) shared->barriers.release(STEPS_IN_FLIGHT ? turn.before : turn.stage, grid, lane);
        }
        shared->consumers.pass_turn(warpgroup, lane);
        wait_products<0>(sums);
        if (STEPS_IN_FLIGHT && steps > 0) shared->barriers.release(turn.before, grid, lane);

        if (tile.col >= sizes.n) continue;  // a cluster's last blocks may have no columns of D
        Result<RESULT> result(output, sizes, 0);
        result.m = tile.end;
        const WarpBiases<RESULT, BN> biases(result.bias, tile.col);  // there are none
        Scales scales = scales_of_factors;
        scales.b += static_cast<long long>(tile.group) * scales.step_k_b;  // from matrix to matrix
        const SumScales<PARTS, BN> sum_scales{scales, tile.end, sizes.n, tile.row + first + own_row<64>(), tile.col, true};
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            SumsFor<RESULT, Sum, BN / 2> totals(sums[i]);
            sum_scales.scale(i, totals.numbers);
            store_warpgroup(result, tile.row + first + 64 * i, tile.col, totals.numbers, biases);
        }
    }
}
