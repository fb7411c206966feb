// Sharing the tiles of the last wave (stream-K): those left when WAVE tiles at a time are done are laid end to end along
// k and cut into equal ranges of steps, one for each of up to WAVE blocks, the sharers.
//
// The parts of a tile are added as a tree: of two neighbouring groups of sharers, the one done first leaves its sums in
// the workspace, and the other adds them to its own and goes on for both. So no block waits for another, many parts are
// added in few steps, and the sums are the same whoever comes first.
#pragma once

#include "parts.cuh"

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
// first, last: the tile's first and last step, of the shared ones.
// second: whether this is the second tile that the block works on. There are two at most of which others do the rest.
// workspace: for every sharer, two parts of PART x ROWS x COLS sums.
// tickets: one for each sharer, 0 before and after. A tile's sharers beyond the first have theirs to themselves, and it
// serves where the one that it belongs to begins the right one of two groups. It names the part that was left, plus 1.
template <int PART, int ROWS, int COLS>
__device__ __forceinline__ bool add_parts(float (&sums)[ROWS][COLS], const Shared& shared, int sharer, int first,
                                          int last, bool second, float* workspace, unsigned* tickets) {
    __shared__ unsigned left;
    const int first_sharer = shared.sharer_of(first);
    const int sharers = shared.sharer_of(last) - first_sharer + 1;
    const unsigned mine = 2 * sharer + second;
    for (int reach = 1; reach < sharers; reach *= 2) {
        const int right = ((sharer - first_sharer) / reach | 1) * reach;
        if (right >= sharers) continue;  // no group there
        unsigned* const ticket = &tickets[first_sharer + right];
        if (threadIdx.x == 0) left = atomicAdd(ticket, 0);
        __syncthreads();
        if (left == 0) {
            if (threadIdx.x < PART) {
                leave_sums<PART>(sums, workspace + static_cast<long long>(mine) * (PART * ROWS * COLS) + threadIdx.x);
            }
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) left = atomicCAS(ticket, 0u, mine + 1);
            __syncthreads();
            if (left == 0) return false;
        }
        __threadfence();
        if (threadIdx.x < PART) {
            add_sums<PART>(sums, workspace + (left - 1LL) * (PART * ROWS * COLS) + threadIdx.x);
        }
        __syncthreads();  // all have read `left`
        if (threadIdx.x == 0) *ticket = 0;
    }
    return true;
}
