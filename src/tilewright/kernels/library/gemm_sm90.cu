// gemm_sm90: products of 16-bit factors by Hopper's warpgroups, with operands in either order (sm_90a alone). Or of float32
// factors, each split first into TERMS matrices of 16-bit elements (split_factors.cuh, stage_products.cuh). Or of float32 factors
// that TMA rounds to TF32 as it loads them; these lie along k, and a line of them is 32 k.
//
// One warpgroup loads tiles by TMA, CONSUMERS multiply. A block computes tile after tile, of all matrices of a batch, in the order of
// tile_order.cuh. Its stages go on from one tile to the next, so the next is loaded while one is stored. Every order of A and B
// is read as it lies: tensor map and descriptor say which (swizzled_tile.cuh).
//
//   shared memory of a block:
//     | stage 0: A, B | stage 1: A, B | ... | full[STAGES] | empty[STAGES] | read[CONSUMERS] |
//     A, row-major      BM lines of 64 k                  each line 128 bytes, its pieces exchanged; TERMS times
//        column-major   BM / 64 blocks: 64 k, a line of 64 rows each
//     B, column-major   BN lines of 64 k
//        row-major      BN / 64 blocks, rounded up: 64 k, a line of 64 columns each
//
//   PINGPONG 0: the consumers share a tile, each with an equal part of its rows.
//     producer       | tile 0: load 0 .. 7          | tile 1: load 0 .. 3, wait for empty | load 4 ..   | ...
//     tensor cores       | multiply 0 .. 7              |               | multiply 0 .. 7               | ...
//     consumers          | wait for full, start, arrive at empty ...    | store tile 0    | ...           | ...
//   PINGPONG 1: each of two has tiles of its own, and one stores while the other multiplies.
//     consumer 0         | multiply tile 0      | store tile 0    | multiply tile 2      | store ...
//     consumer 1                                | multiply tile 1      | store tile 1    | multiply tile 3 ...
//
//   CLUSTER, CLUSTER_N: blocks below and beside each other load parts of tiles of B and A for each other (cluster_grid.cuh).
//   SPLITS n: n blocks share the k of one tile, and add up their sums through shared memory (cluster_sums.cuh).
//
//   TERMS above 1: what terms cannot hold, the block computes at the end in float32 (float32_warpgroups.cuh): the producer copies
//   parts of the factors, the consumers multiply them together.
#include <dependent_launch.cuh>
#include <dynamic_shared.cuh>
#include <register_budget.cuh>
#include <thread_index.cuh>

#include "cluster_grid.cuh"
#include "cluster_sums.cuh"
#include "epilogue/warpgroup.cuh"
#include "stage_products.cuh"
#include "stage_turn.cuh"
#include "swizzled_tile.cuh"
#include "terms_of_block.cuh"
#include "tile_order.cuh"

constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int TOGETHER = PINGPONG ? 1 : CONSUMERS;  // consumers of a tile
constexpr int ROWS = BM / TOGETHER;                 // of a consumer
using Grid = ClusterGrid<CLUSTER, CLUSTER_N>;       // of blocks that load for each other
constexpr int BLOCKS = Grid::BLOCKS * SPLITS;       // of a cluster
constexpr int MEETINGS = Grid::BLOCKS > 1 ? 1 : SPLITS > 1 ? 2 : 0;  // of a cluster, after the first one
constexpr bool MOVES_REGISTERS = CONSUMERS > 1;     // else all threads have enough
constexpr int BK = LINE_BYTES / sizeof(FACTOR);
// Where k is 0, nothing says in which order TF32 lies.
constexpr Major MAJOR_A = TRANSPOSED_A && MAY_CROSS_K<FACTOR> ? Major::across_k : Major::along_k;
constexpr Major MAJOR_B = TRANSPOSED_B || !MAY_CROSS_K<FACTOR> ? Major::along_k : Major::across_k;

struct Tiles {
    SwizzledTile<MAJOR_A, BM> A[TERMS];
    SwizzledTile<MAJOR_B, BN> B[TERMS];
};

using Terms = TermsOfBlock<BM, (TERMS > 1 ? BN / SPLITS : 64), (TERMS > 1 ? CONSUMERS : 2)>;  // of one term, it does nothing

struct Shared {
    union {
        Tiles stages[STAGES];
        float4 sums[SPLITS > 1 ? BM * BN / 4 : 1];  // once all stages have been read
        unsigned char of_terms[TERMS > 1 ? sizeof(Terms::Memory) : 1];  // before stages are loaded, and when all have been read
    };
    Barrier full[STAGES], empty[STAGES];
    Barrier read[CONSUMERS];  // all stages of the consumer's tile
    Terms terms;
};

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(BLOCKS, 1, 1)
    gemm_sm90(Sizes sizes, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, Output<RESULT> output,
              const __grid_constant__ Terms::Operand split_a, const __grid_constant__ Terms::Operand split_b,
              SplitCounters* counters) {
    DYNAMIC_SHARED(Shared, shared);
    Terms::Memory& of_terms = *reinterpret_cast<Terms::Memory*>(shared->of_terms);

    const int depth = depth_of(sizes, output);
    const int all_steps = depth / BK + (depth % BK != 0);
    const int rank = blockIdx.x % SPLITS;  // of those that share a tile's k
    const int first_step = all_steps * rank / SPLITS, steps = all_steps * (rank + 1) / SPLITS - first_step;
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    let_grid_after_start();
    if (threadIdx.x == 0) {
        prefetch_map(&A);
        prefetch_map(&B);
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1);
            barrier_init(&shared->empty[stage], 4 * TOGETHER * Grid::MATES);
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) barrier_init(&shared->read[consumer], 4);
        shared->terms.init();
        fence_barrier_init();
    }
    BLOCKS == 1 ? __syncthreads() : cluster_sync();
    wait_for_grid_before();
    bool terms_hold = true;
    if constexpr (TERMS > 1) {
        terms_hold = shared->terms.split(split_a, split_b, counters, depth, output.beta != 0.0f, of_terms);
        // Before one block of a cluster loads tiles into the other's stages, neither splits any more.
        Grid::BLOCKS == 1 ? __syncthreads() : cluster_sync();
    }

    using Order = TileOrder<BM, BN, BAND, CLUSTER, CLUSTER_N>;
    const auto tiles_from = [](const Sizes& sizes, int number) {  // of this block
        const int every = block_count() / BLOCKS;
        return Order(sizes, block_index() / BLOCKS + number * every, every);
    };
    const Grid grid;
    auto tile = tiles_from(sizes, 0);
    if (!terms_hold) tile.leave_out();
    StageTurn<STAGES> turn;
    if (warpgroup == CONSUMERS) {
        if constexpr (MOVES_REGISTERS) give_registers<40>();
        while (threadIdx.x % 128 == 0 && tile.next()) {
            for (int step = first_step; step < first_step + steps; ++step, turn.next()) {
                Tiles& into = shared->stages[turn.stage];
                Barrier* const full = &shared->full[turn.stage];
                barrier_wait(&shared->empty[turn.stage], turn.parity ^ 1);  // returns at once in the first STAGES steps
                barrier_expect_bytes(full, sizeof(Tiles));
#pragma unroll 1
                for (int term = 0; term < TERMS; ++term) {
                    const int of_a = tile.matrix * sizes.step_a * TERMS + term, of_b = tile.matrix * sizes.step_b * TERMS + term;
                    into.A[term].load_shared(grid.of_row(), &A, tile.row, step * BK, of_a, full);
                    into.B[term].load_shared(grid.of_column(), &B, tile.col, step * BK, of_b, full);
                }
            }
        }
        __syncwarp();
        for (int meeting = 0; meeting < MEETINGS; ++meeting) cluster_sync();
        if constexpr (TERMS > 1) {
            shared->terms.compute_lost<true>(tiles_from, rank * (BN / SPLITS), split_a, split_b, sizes, output, of_terms);
        }
        return;
    }

    if constexpr (MOVES_REGISTERS) take_registers<CONSUMERS == 2 ? 232 : 152>();
    const int lane = threadIdx.x % 32, first = PINGPONG ? 0 : warpgroup * ROWS;  // row of a tile
    const auto release = [&](int stage) {
        Barrier* const empty = &shared->empty[stage];
        if (lane < Grid::MATES) Grid::BLOCKS == 1 ? barrier_arrive(empty) : barrier_arrive_at(empty, grid.mate(lane));
    };
    for (int meeting = Grid::BLOCKS > 1; !terms_hold && meeting < MEETINGS; ++meeting) cluster_sync();
    for (int number = 0; tile.next(); ++number) {
        if (PINGPONG && number % CONSUMERS != warpgroup) {
            turn.skip(steps);
            continue;
        }
        // A phase is known by its parity alone: the tile before has to be read first.
        if (PINGPONG && number > 0) barrier_wait(&shared->read[1 - warpgroup], (number - 1) / CONSUMERS & 1);
        float sums[ROWS / 64][BN / 2] = {};
        int before = 0;  // the stage of the step before
        const long long a_before = tile.matrix * sizes.step_a * all_steps + first_step;  // 64 k that come before
        const long long b_before = tile.matrix * sizes.step_b * all_steps + first_step;
        TermScales of_step = {split_a.scales + a_before * scale_run(sizes.m) + (tile.row + first) / SCALED_SIDES,
                              split_b.scales + b_before * scale_run(sizes.n) + tile.col / SCALED_SIDES};
        for (int step = 0; step < steps; ++step, turn.next()) {
            const Tiles& from = shared->stages[turn.stage];
            barrier_wait(&shared->full[turn.stage], turn.parity);
            multiply_stage<MAJOR_A, MAJOR_B>(from, first, sums, of_step);
            of_step.a += scale_run(sizes.m);
            of_step.b += scale_run(sizes.n);
            if (step >= STEPS_UNDER_WAY) release(STEPS_UNDER_WAY ? before : turn.stage);
            before = turn.stage;
        }
        if (PINGPONG && lane == 0) barrier_arrive(&shared->read[warpgroup]);
        wait_products<0>(sums);
        if (STEPS_UNDER_WAY && steps > 0) release(before);

        if (tile.row >= sizes.m || tile.col >= sizes.n) continue;  // a cluster's last blocks may have nothing of D
        const Result<RESULT> result(output, sizes, tile.matrix);
        const int row = tile.row + first, col = tile.col + rank * (BN / SPLITS);
        if constexpr (SPLITS == 1) {
#pragma unroll
            for (int i = 0; i < ROWS / 64; ++i) {
                shared->terms.look(sums[i], sizes.m - row - 64 * i, sizes.n - col);
                store_warpgroup(result, row + 64 * i, col, sums[i]);
            }
        } else {
            static_assert(SPLITS == 1 || ROWS == 64, "the sums of one instruction are exchanged");
            const ClusterSums<SPLITS, 128 * CONSUMERS, BN / 2> all = {shared->sums, static_cast<int>(threadIdx.x)};
            float totals[BN / 2 / SPLITS];
            cluster_sync();  // all stages have been read
            all.give(sums[0]);
            cluster_sync();
            all.take(totals);
            shared->terms.look(totals, sizes.m - row, sizes.n - col);
            store_warpgroup(result, row, col, totals);
        }
    }
    if (Grid::BLOCKS > 1) cluster_sync();  // the others may still arrive at barriers here
    if constexpr (TERMS > 1) {
        shared->terms.compute_lost<false>(tiles_from, rank * (BN / SPLITS), split_a, split_b, sizes, output, of_terms);
    }
}
