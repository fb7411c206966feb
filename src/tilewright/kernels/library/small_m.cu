// small_m_bf16x6, small_m_fp16x3: float32 products of few rows by Hopper's warpgroups, as products of parts (sm_90a alone).
//
// Where m is small, B is most of what is read. It is read once, as float32, and split in registers: D^T = B^T A^T, where B^T is
// what wgmma takes from there (column_tile.cuh), and A's rows are the columns of its product (row_tile.cuh).
//
//   shared memory of a block:
//     | B of stage 0 | B of stage 1 | ... | A of stage 0 | A of stage 1 | ... | full[STAGES] | empty[STAGES] | ...
//       float32, BN x BK                    parts, BM x BK
//     in place of the stages, when all have been read: sums, or what multiplies in float32
//
//   copy engine    | B 0 | B 1 | B 2 | ...                          as the first thread of the producers asks
//   producers      | A 0: wait for empty, split, store | A 1 ...    1 warpgroup, or 2; then arrive at full, as the bytes of B do
//   consumers      | wait for full, split B 0 | multiply 0, arrive at empty, split B 1 | ...
//                                                                   a warpgroup for 64 columns (row_products.cuh)
//
//   K_SLICES n: n consumers have the same columns, and each multiplies one step of n.
//   SPLITS n: n blocks of a cluster share the k of a tile (tile_sums.cuh).
//
// What is out of the parts' range (part_range.cuh) the blocks of a tile see while they split, or by its sums. They compute this tile anew
// in float32.
#include "float32_parts/small_m_fallback.cuh"
#include "float32_parts/small_m_stages.cuh"
#include "float32_parts/row_products.cuh"
#include "pipeline/tile_order.cuh"
#include "ptx/cluster.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/register_budget.cuh"

constexpr int SIDE_BY_SIDE = BN / 64, CONSUMERS = SIDE_BY_SIDE * K_SLICES, THREADS = LOADING + 128 * CONSUMERS;
constexpr bool MOVES = PRODUCERS + CONSUMERS > 2;                 // registers, of 512 for a thread of each warpgroup together
constexpr int LOADER_REGISTERS = PRODUCERS == 1 || CONSUMERS == 1 ? 104 : SPLIT_PARTS == 2 ? 72 : 64;  // what one that loads keeps
constexpr int CONSUMER_REGISTERS = (512 - PRODUCERS * LOADER_REGISTERS) / CONSUMERS / 8 * 8;
using Order = ColumnOrder<TRANSPOSED_B>;
using Sums = TileSums<BM, BN, K_SLICES, SPLITS>;

struct Shared {
    union {
        struct {
            ColumnTile<TRANSPOSED_B, BN> columns_of_b[STAGES][TILES];
            RowTile<BM> rows_of_a[STAGES][TILES];
        };
        Sums sums;
        typename FallbackTile::Shared fallback[SIDE_BY_SIDE];
    };
    Range of_a, of_b;  // set at once, 16 bytes at a multiple of 16
    Barrier full[STAGES], empty[STAGES];
    Barrier all_synced, consumers_synced, synced[SIDE_BY_SIDE];
    RangeCheck check;  // of what this block has split; copied at once, 8 bytes at a multiple of 8
    RowScales<BM> row_scales[STAGES][TILES];
    unsigned smaller;  // whether a sum is smaller than one may be
};

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) __cluster_dims__(SPLITS, 1, 1)
    small_m(Sizes sizes, Factor<float> A, const __grid_constant__ TensorMap B_map, Factor<float> B, Output<RESULT> output) {
    DYNAMIC_SHARED(Shared, shared);
    const int depth = depth_of(sizes, output);
    const int all_steps = depth / BK + (depth % BK != 0);
    const int rank = blockIdx.x % SPLITS;  // of those that share a tile's k
    const int first_step = all_steps * rank / SPLITS, steps = all_steps * (rank + 1) / SPLITS - first_step;
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    if (MIN_BLOCKS == 1) grid_dependency_launch();
    if (threadIdx.x == 0) {
        prefetch_map(&B_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1 + 4 * PRODUCERS);
            barrier_init(&shared->empty[stage], 4 * SIDE_BY_SIDE);
        }
        barrier_init(&shared->all_synced, 4 * (PRODUCERS + CONSUMERS));
        barrier_init(&shared->consumers_synced, 4 * CONSUMERS);
        for (int consumer = 0; consumer < SIDE_BY_SIDE; ++consumer) barrier_init(&shared->synced[consumer], 4);
        shared->of_a = shared->of_b = {};
        shared->smaller = 0;
        fence_barrier_init();
    }
    __syncthreads();
    grid_dependency_wait();

    TileOrder<BM, BN, GROUP_M> tile(sizes, blockIdx.x / SPLITS, gridDim.x / SPLITS);
    tile.next();
    const int lane = threadIdx.x % 32;
    if (warpgroup >= CONSUMERS) {
        if constexpr (MOVES) setmaxnreg_dec<LOADER_REGISTERS>();
        if (steps > 0) fill_stages<Order>(*shared, A, B_map, sizes, tile, first_step, steps, threadIdx.x - 128 * CONSUMERS);
        __syncwarp();
        if (lane == 0) barrier_arrive(&shared->all_synced);
        Sums::sync();  // to be sure, as the next: a cluster's barrier does not wait for threads that have returned
        Sums::sync();  // to be sure
        return;
    }

    if constexpr (MOVES) setmaxnreg_inc<(CONSUMER_REGISTERS < 200 ? CONSUMER_REGISTERS : 200)>();
    const int slice = warpgroup / SIDE_BY_SIDE, thread = threadIdx.x % (128 * SIDE_BY_SIDE);
    RowProducts<TRANSPOSED_B, BN, BM> products(thread, sizes.batch);
    StageTurn<STAGES> turn;
    if (slice < steps) {
        // Goes past other slices' steps. A phase is known by its parity alone: where slices share stages, all are waited for.
        const auto arrive = [&](int past) -> const auto& {
            for (; past > 0; --past, turn.next()) {
                if (STAGES % K_SLICES != 0) barrier_wait(&shared->full[turn.stage], turn.parity);
            }
            barrier_wait(&shared->full[turn.stage], turn.parity);
            return shared->columns_of_b[turn.stage][0];
        };
        products.begin(arrive(slice));
        for (int step = slice; step < steps; step += K_SLICES) {
            const int stage = turn.stage;
            const auto& scales = shared->row_scales[stage];
            turn.next();
#pragma unroll
            for (int i = 0; i < TILES - 1; ++i) {
                products.multiply<true>(shared->rows_of_a[stage][i], scales[i], i == 0, false, shared->columns_of_b[stage][i + 1]);
            }
            const auto& last = shared->rows_of_a[stage][TILES - 1];
            if (step + K_SLICES < steps) {
                products.multiply<true>(last, scales[TILES - 1], TILES == 1, true, arrive(K_SLICES - 1));
            } else {
                products.multiply<false>(last, scales[TILES - 1], TILES == 1, true, shared->columns_of_b[stage][0]);
            }
            __syncwarp();
            if (lane == 0) barrier_arrive(&shared->empty[stage]);
        }
        products.watch.add_to(shared->of_b);
    }
    sync_warps(&shared->all_synced, 0);  // all stages have been read, and split
    const RangeCheck found(shared->of_a, shared->of_b, depth, false);
    products.store(shared->sums.parts[slice]);
    const bool in_range = parts_in_range<CONSUMERS>(*shared, found, sizes.m - tile.row, sizes.n - tile.col);
    const Result<RESULT> result(output, sizes, tile.matrix);
    if (in_range) {
        shared->sums.store(result, tile.row, tile.col, rank, threadIdx.x, 128 * CONSUMERS);
    } else if (slice == 0) {
        compute_fallback(*shared, A, B, sizes, depth, result, tile, rank, warpgroup);
    }
    Sums::sync();  // to be sure: others may still read the sums, but their readers are waited for by the threads that load
}
