// The barriers of a pipeline's stages in shared memory: one warp of a block has a stage filled, and others read it.
//
//     loads     | wait for empty, announce bytes, load |                                       | wait for empty ...
//     `full`                                     bytes come
//     reads                                            | wait for full, read, arrive at empty |
//
// In a cluster whose blocks load for each other, a stage is filled by all of a row and of a column (cluster_grid.cuh), and so they
// all wait until those who read it have arrived at `empty` of each of them.
#pragma once

#include "pipeline/cluster_grid.cuh"
#include "pipeline/stage_turn.cuh"
#include "ptx/elect.cuh"
#include "ptx/mbarrier.cuh"

// COUNT: of stages. WARPS: of a block, that read a stage.
template <int COUNT, int WARPS, typename Grid>
struct StageBarriers {
    Barrier full[COUNT], empty[COUNT];

    // By one thread, before the block or cluster syncs.
    __device__ __forceinline__ void init() {
        for (int stage = 0; stage < COUNT; ++stage) {
            barrier_init(&full[stage], 1);
            barrier_init(&empty[stage], WARPS * Grid::MATES);
        }
    }

    // By the warp that loads: waits until a stage may be filled, and has one thread announce its bytes and call load(full), where
    // `full` is what counts them.
    template <typename Load>
    __device__ __forceinline__ void fill(const StageTurn<COUNT>& turn, unsigned bytes, const Load& load) {
        barrier_wait(&empty[turn.stage], turn.parity ^ 1);  // returns at once in the first COUNT steps
        if (!elect_one()) return;
        barrier_expect_bytes(&full[turn.stage], bytes);
        load(&full[turn.stage]);
    }

    // By the warp that loads, when it has filled all: waits until all has been read. No block loads into this one any more then, and
    // none arrives at its barriers: it may end.
    __device__ __forceinline__ void wait_read(StageTurn<COUNT> turn) {
        for (int stage = 0; stage < COUNT; ++stage, turn.next()) barrier_wait(&empty[turn.stage], turn.parity ^ 1);
    }

    // By those that read: waits until a stage is filled.
    __device__ __forceinline__ void wait_full(const StageTurn<COUNT>& turn) { barrier_wait(&full[turn.stage], turn.parity); }

    // By a warp, of which this is a lane: it has read a stage.
    __device__ __forceinline__ void release(int stage, const Grid& grid, int lane) {
        if (lane < Grid::MATES) {
            if constexpr (Grid::BLOCKS == 1) {
                barrier_arrive(&empty[stage]);
            } else {
                barrier_arrive_at(&empty[stage], grid.mate(lane));
            }
        }
    }
};
