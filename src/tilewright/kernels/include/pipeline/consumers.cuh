// The warpgroups of a block that multiply: which of the block's tiles are whose, and when each may begin with one.
//
// All share every tile, each with an equal part of its rows. Or two ALTERNATE: each has all rows of every second tile, and
// stores one while the other multiplies.
//
//     consumer 0    | multiply tile 0 | store tile 0    | multiply tile 2 | ...
//     consumer 1                      | multiply tile 1 | store tile 1    | multiply tile 3 | ...
//                                     pass_turn         pass_turn
#pragma once

#include "ptx/mbarrier.cuh"

template <int WARPGROUPS, bool ALTERNATE, int TILE_ROWS>
struct Consumers {
    static_assert(!ALTERNATE || WARPGROUPS == 2, "each waits for the other");
    static constexpr int COUNT = WARPGROUPS;
    static constexpr int TOGETHER = ALTERNATE ? 1 : WARPGROUPS;  // of a tile
    static constexpr int ROWS = TILE_ROWS / TOGETHER;            // of a tile, that one multiplies

    Barrier read[COUNT];  // all stages of the consumer's tile

    // By one thread, before the block syncs.
    __device__ __forceinline__ void init() {
        for (int consumer = 0; consumer < COUNT; ++consumer) barrier_init(&read[consumer], 4);
    }

    // Whether the block's tile of this number is for this consumer.
    static __device__ __forceinline__ bool own(int number, int consumer) { return !ALTERNATE || number % COUNT == consumer; }

    // The row of a tile from which on a consumer multiplies.
    static __device__ __forceinline__ int first_row(int consumer) { return ALTERNATE ? 0 : consumer * ROWS; }

    // Waits until the tile before has been read: a stage's phase is known by its parity alone.
    __device__ __forceinline__ void wait_turn(int number, int consumer) {
        if (ALTERNATE && number > 0) barrier_wait(&read[1 - consumer], (number - 1) / COUNT & 1);
    }

    // By a warp that has waited for all stages of its tile, of which this is a lane.
    __device__ __forceinline__ void pass_turn(int consumer, int lane) {
        if (ALTERNATE && lane == 0) barrier_arrive(&read[consumer]);
    }
};
