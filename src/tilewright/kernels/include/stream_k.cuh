// Sharing the tiles of the last wave (stream-K): those left when WAVE tiles at a time are done are laid end to end along
// k and cut into equal ranges of steps, one for each of up to WAVE blocks, the sharers.
//
// The parts of a tile are added as a tree: of up to FAN neighbouring groups of sharers, those done first leave their sums
// in the workspace, and the one done last adds them, in the groups' order, and goes on for all. So no block waits for
// another, many parts are added in few steps, and the sums are the same whoever comes last.
#pragma once

#include <bundle.cuh>

#include "partial_sums.cuh"

// The tiles that blocks share.
struct Shared {
    int first_tile;  // the tiles before have a block each
    int steps;       // along k, of all shared tiles
    int sharers;     // as many as there are blocks for it, but no more than steps

    __device__ __forceinline__ Shared(int tiles, int steps_of_tile)
        : first_tile(WAVE ? tiles / max(WAVE, 1) * WAVE : tiles),
          steps((tiles - first_tile) * steps_of_tile),
          sharers(min(WAVE, steps)) {}

    // The step at which a sharer begins.
    __device__ __forceinline__ int first_step(int sharer) const {
        return static_cast<int>(static_cast<long long>(sharer) * steps / max(sharers, 1));
    }

    // The sharer that does a step.
    __device__ __forceinline__ int sharer_of(int step) const {
        return static_cast<int>((static_cast<long long>(step + 1) * sharers - 1) / steps);
    }
};

// Adds the sums that the first PART threads of a block have of a tile to those of the tile's other sharers. Says whether
// the block now has the whole tile's; if not, it is done with the tile.
//
// PART: all threads where blocks come in bundles, which meet by their number.
// first, last: the tile's first and last step, of the shared ones.
// workspace: for every sharer, two parts of PART x ROWS x COLS sums: one of a tile that another sharer begins, and one
// of the tile that it begins itself. A group leaves its sums in the part of the group's first sharer.
// tickets: one for each sharer, 0 before and after. A tile's sharers beyond the first have theirs to themselves, and it
// serves where the one that it belongs to begins the second of the groups to be added: it counts those that have left
// their sums.
// FAN: a step of the tree takes about 2 us on an H200, and another part to be read a tenth of that and more.
template <int FAN, int PART, int ROWS, int COLS>
__device__ __forceinline__ bool add_parts(float (&sums)[ROWS][COLS], const Shared& shared, int sharer, int first,
                                          int last, float* workspace, unsigned* tickets) {
    SHARED_OF_BLOCK(int, left);
    const int first_sharer = shared.sharer_of(first);
    const int sharers = shared.sharer_of(last) - first_sharer + 1;
    const int place = sharer - first_sharer;
    const auto part = [&](int group) {
        const long long number = 2 * (first_sharer + group) + (group == 0);
        return workspace + number * (PART * ROWS * COLS) + threadIdx.x;
    };
    for (int reach = 1; reach < sharers; reach *= FAN) {
        const int own = place / reach * reach;  // where this group begins, and the first of those to be added:
        const int begin = place / (FAN * reach) * (FAN * reach);
        const int groups = min((sharers - begin + reach - 1) / reach, FAN);
        if (groups == 1) continue;
        unsigned* const ticket = &tickets[first_sharer + begin + reach];
        // Of two it does not matter which is added to which: who finds the other's sums need not leave its own.
        if (threadIdx.x == 0) left = groups == 2 ? atomicAdd(ticket, 0) : 0;
        sync_block<PART>();
        if (left == 0) {
            if (threadIdx.x < PART) store_sums<PART>(sums, part(own));
            __threadfence();
            sync_block<PART>();
            if (threadIdx.x == 0) left = atomicAdd(ticket, 1);
            sync_block<PART>();
            if (left < groups - 1) return false;
        }
        __threadfence();
        if (threadIdx.x < PART) {
            if (groups == 2) {
                add_sums<PART>(sums, part(own == begin ? begin + reach : begin));
            } else {
                load_sums<PART>(sums, part(begin));
                for (int group = 1; group < groups; ++group) add_sums<PART>(sums, part(begin + group * reach));
            }
        }
        sync_block<PART>();  // all have read `left`
        if (threadIdx.x == 0) *ticket = 0;
    }
    return true;
}
