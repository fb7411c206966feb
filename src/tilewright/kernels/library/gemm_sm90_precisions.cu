// gemm_sm90_precisions: gemm_sm90 (see there) for what is not of 16 bits: float32 matrices that are first split into SPLIT_PARTS parts of
// 16 bits each (split_factors.cuh) or that TMA rounds to TF32 as it loads them, and float8 and int8 matrices with scales (FACTOR_SCALES).
// A_IN_REGISTERS: A lies across k, and threads read it to registers (register_operand.cuh). SWAP_AB: D^T = B^T A^T is computed.
//
//   shared memory: | transposed_tiles.cuh | stage 0: A, B | stage 1: A, B | ... | full[STAGES] | empty[STAGES] | read[CONSUMERS] | parts |
//     A and B: SPLIT_PARTS tiles each. Instead of stages: what splits A and B, before; SPLITS' sums and tiles in float32, after
//
//   SPLIT_PARTS > 1: all     | split A and B, wait for all blocks |                                             | __syncthreads |
//   producer                                                | wait for empty[s], load all parts to s | ... |               | copy float32
//   consumers                                               | wait for full[s], multiply, promote, arrive at empty | ...   | multiply it
//
//   promote (PROMOTE): tensor cores begin anew with each stage, and threads add what they made (stage_products.cuh).
//   copy and multiply float32: only tiles that parts cannot represent (float32_warpgroups.cuh).
#include "epilogue/swap_ab.cuh"
#include "epilogue/transposed_tiles.cuh"
#include "float32_parts/parts_of_block.cuh"
#include "pipeline/cluster_grid.cuh"
#include "pipeline/cluster_sums.cuh"
#include "pipeline/consumers.cuh"
#include "pipeline/register_operand.cuh"
#include "pipeline/stage_barriers.cuh"
#include "pipeline/tile_order.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/register_budget.cuh"

constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int COLS = BN / SPLITS;              // of a tile, that a block stores
using Grid = ClusterGrid<CLUSTER_M, CLUSTER_N, SPLITS>;  // of blocks that load for each other
constexpr int BLOCKS = Grid::BLOCKS * SPLITS;  // of a cluster
using Multiplying = Consumers<CONSUMERS, PINGPONG, BM>;
constexpr int SUBTILES = Multiplying::ROWS / 64;  // rows of a consumer's tile, by 64: what one wgmma multiplies
using Order = TileOrder<BM, BN, GROUP_M, CLUSTER_M, CLUSTER_N>;
using Tiles = StageTiles<BM, BN, SPLIT_PARTS, CLUSTER_M>;
using Totals = ClusterSums<SPLITS, 128 * CONSUMERS, BN / 2, Grid::BLOCKS, Sum>;
using Parts = PartsOfBlock<BM, (SPLIT_PARTS > 1 ? COLS : 64), (SPLIT_PARTS > 1 ? CONSUMERS : 2)>;  // where SPLIT_PARTS is 1, it does nothing

struct Shared : ResultTiles<SWAP_AB && !A_IN_REGISTERS, 4 * CONSUMERS, TMA_STORE_STAGES> {
    union {
        Tiles stages[STAGES];
        Totals::Four sums[SPLITS > 1 ? BM * BN / 4 : 1];  // once all stages have been read
        unsigned char of_parts[SPLIT_PARTS > 1 ? sizeof(Parts::Memory) : 1];  // before stages are loaded, and when all have been read
    };
    StageBarriers<STAGES, 4 * Multiplying::TOGETHER, Grid> barriers;
    Multiplying consumers;
    Parts parts;
};

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(BLOCKS, 1, 1)
    gemm_sm90_precisions(Sizes of_d, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, Output<RESULT> output,
                         const __grid_constant__ Parts::Operand split_a, const __grid_constant__ Parts::Operand split_b,
                         Scales scales_of_d, SplitCounters* counters, const __grid_constant__ TensorMap D) {
    DYNAMIC_SHARED(Shared, shared);
    Parts::Memory& of_parts = *reinterpret_cast<Parts::Memory*>(shared->of_parts);
    const Sizes sizes = either<SWAP_AB>(swapped(of_d), of_d);
    const Scales scales_of_factors = either<SWAP_AB>(swapped(scales_of_d), scales_of_d);
    const int depth = depth_of(sizes, output);
    const int all_steps = depth / Tiles::DEPTH + (depth % Tiles::DEPTH != 0);
    const int rank = blockIdx.x / Grid::BLOCKS % SPLITS;  // of those that share a tile's k
    const int first_step = all_steps * rank / SPLITS, steps = all_steps * (rank + 1) / SPLITS - first_step;
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), warpgroup = warp / 4;  // the compiler sees: one for a warp
    grid_dependency_launch();
    const auto tiles_from = [](const Sizes& sizes, int number) { return Order::of_block(sizes, BLOCKS, number); };
    Order tile = tiles_from(sizes, 0);
    bool more = warp != THREADS / 32 - 1 && tile.next();
    if (warp == THREADS / 32 - 1 && elect_one()) {  // of a warp that does nothing else
        prefetch_map(&A);
        prefetch_map(&B);
        shared->barriers.init();
        shared->consumers.init();
        shared->parts.init();
        fence_barrier_init();
    }
    BLOCKS == 1 ? __syncthreads() : cluster_sync_relaxed();
    grid_dependency_wait();
    const bool parts_in_range = shared->parts.split(split_a, split_b, counters, depth, output.beta != 0.0f, of_parts);
    // Before one block of a cluster loads tiles into the other's stages, neither splits any more.
    if constexpr (SPLIT_PARTS > 1) Grid::BLOCKS == 1 ? __syncthreads() : cluster_sync_relaxed();

    const Grid grid;
    StageTurn<STAGES> turn;
    if (warpgroup == CONSUMERS) {
        const unsigned bytes = Tiles::bytes(grid, sizes.m, sizes.n);
        if constexpr (CONSUMERS > 1) setmaxnreg_dec<40>();  // else all threads have enough
        for (; warp % 4 == 0 && parts_in_range && more; more = tile.next()) {
            const int of_a = tile.matrix * sizes.step_a * SPLIT_PARTS, of_b = tile.matrix * sizes.step_b * SPLIT_PARTS;
            for (int step = first_step; step < first_step + steps; ++step, turn.next()) {
                shared->barriers.fill(turn, bytes, [&](Barrier* full) {
                    shared->stages[turn.stage].load(grid, &A, &B, tile.row, tile.col, step * Tiles::DEPTH, of_a, of_b, full);
                });
            }
        }
        if (SPLITS > 1 && parts_in_range) Totals::attend();
        if (Grid::BLOCKS > 1 && warp % 4 == 0) shared->barriers.wait_read(turn);
        shared->parts.compute_fallback<true>(tiles_from, rank * COLS, split_a, split_b, sizes, output, of_parts);
        return;
    }
    if constexpr (CONSUMERS > 1) setmaxnreg_inc<CONSUMERS == 2 ? 232 : 152>();
    const int lane = threadIdx.x % 32, first = Multiplying::first_row(warpgroup);  // row of a tile
    RegisterOperand<SUBTILES> a_registers{sizes.batch};
    for (int number = 0; parts_in_range && more; ++number) {
        const Order here = tile;
        const auto go_on = [&] { more = (tile = tiles_from(sizes, number + 1)).next(); };
        if (!Multiplying::own(number, warpgroup)) {
            go_on();
            turn.skip(steps);
            continue;
        }
        const int row = here.row + first, col = here.col + rank * COLS;
        const Shared::Biases<RESULT, SUBTILES, COLS> biases(Bias<RESULT>(output, of_d), SWAP_AB && !A_IN_REGISTERS ? row : col);
        const SumScales<SUBTILES, COLS, 64, a_registers.STRIDE> sum_scales{
            scales_of_factors, sizes.m, sizes.n, row + a_registers.row(), col, depth > 0 && here.exists(sizes)};
        shared->consumers.wait_turn(number, warpgroup);
        Sum sums[SUBTILES][BN / 2] = {};
        auto scales = step_scales<SUBTILES>(split_a, split_b, scales_of_factors, sizes, here.matrix, all_steps, first_step, row, here.col);
        const auto multiply = [&](int step, Partial<BN / 2>& partial, Partial<BN / 2>& partial_before) {
            shared->barriers.wait_full(turn);
            multiply_stage(shared->stages[turn.stage], first, sums, partial, partial_before, scales, a_registers);
            scales.next(sizes.m, sizes.n);
            if (step >= STEPS_IN_FLIGHT) shared->barriers.release(STEPS_IN_FLIGHT ? turn.before : turn.stage, grid, lane);
            turn.next();
        };
        const auto finish = [&](Partial<BN / 2>& partial) {
            shared->consumers.pass_turn(warpgroup, lane);
            go_on();  // while the last products are in flight
            finish_products(sums, partial, scales);
        };
        multiply_steps<BN / 2>(steps, multiply, finish);
        if (STEPS_IN_FLIGHT && steps > 0) shared->barriers.release(turn.before, grid, lane);
        auto& own_sums = reinterpret_cast<Sum (&)[SUBTILES][COLS / 2]>(sums);  // 64 rows each
        if constexpr (SPLITS > 1) Totals{shared->sums, static_cast<int>(threadIdx.x)}.add_up(sums[0], own_sums[0]);
        if (!here.exists(sizes)) continue;  // a cluster's last blocks may have nothing of D
        const Result<RESULT> result(output, of_d, here.matrix);
#pragma unroll
        for (int i = 0; i < SUBTILES; ++i) {
            shared->parts.look(own_sums[i], sizes.m - row - 64 * i, sizes.n - col);
            SumsFor<RESULT, Sum, COLS / 2> totals(own_sums[i]);
            sum_scales.scale(i, totals.numbers);
            if constexpr (A_IN_REGISTERS) {
                store_product(result, row + 64 * i, col, a_registers.row(), totals.numbers, biases);
            } else {
                shared->store(result, &D, here.matrix, i, row + 64 * i, col, totals.numbers, biases);
            }
        }
    }
    shared->wait_stored();
    shared->parts.compute_fallback<false>(tiles_from, rank * COLS, split_a, split_b, sizes, output, of_parts);
}
