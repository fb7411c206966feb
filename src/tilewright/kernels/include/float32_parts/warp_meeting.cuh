// Where some warps of a block meet, and the others do not: a barrier in shared memory at which each arrives once.
#pragma once

#include "ptx/mbarrier.cuh"

// Called by as many warps as the barrier counts; meeting: how often they have met there before. What a warp did before is there
// for those that it has met.
__device__ __forceinline__ void meet_warps(Barrier* barrier, unsigned meeting) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
    barrier_wait(barrier, meeting & 1);
}
