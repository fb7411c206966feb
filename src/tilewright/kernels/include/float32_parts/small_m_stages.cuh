// The stages of small_m, filled by one warpgroup or two: the first thread has the copy engine load tiles of B as float32, and all
// load A, split it, and store its parts. A stage is full when both have arrived.
//
//     first thread   | wait for empty, announce bytes, load B | ...
//     all            |                                        | store parts of A, loaded before; load what comes next | ...
#pragma once

#include "float32_parts/row_tile.cuh"
#include "float32_parts/column_tile.cuh"
#include "pipeline/stage_turn.cuh"

constexpr int TILES = BK / TILE_K;  // of a step
constexpr int LOADING = 128 * PRODUCERS;  // threads

// Order: the ColumnOrder of B. steps: from first_step on. thread: of LOADING.
template <typename Order, typename Shared, typename Tile>
__device__ __forceinline__ void fill_stages(Shared& shared, const Factor<float>& A, const TensorMap& B_map, const Sizes& sizes,
                                            const Tile& tile, int first_step, int steps, int thread) {
    const auto load = [&](int step, int stage) {
        if (thread != 0 || step >= steps) return;
        barrier_expect_bytes(&shared.full[stage], sizeof(shared.columns_of_b[0]));
#pragma unroll 1
        for (int i = 0; i < TILES; ++i) {
            const int k = (first_step + step) * BK + i * TILE_K;
            shared.columns_of_b[stage][i].load(&B_map, tile.col, k, tile.matrix * sizes.step_b, &shared.full[stage]);
        }
    };
    for (int step = 0; step < STAGES; ++step) load(step, step);
    RowSplitter<Order, BM, TILES, LOADING> rows_of_a(A, sizes, tile.matrix, tile.row, first_step * BK, thread);
    StageTurn<STAGES> turn;
    for (int step = 0; step < steps; ++step, turn.next()) {
        if (step >= STAGES) {
            barrier_wait(&shared.empty[turn.stage], turn.parity ^ 1);
            load(step, turn.stage);
        }
        rows_of_a.store(shared.rows_of_a[turn.stage], shared.row_scales[turn.stage], step);
        fence_async_shared();
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(&shared.full[turn.stage]);
    }
    rows_of_a.watch.add_to(shared.of_a);
}
