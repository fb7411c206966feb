// A barrier in shared memory for some warps of a block: each arrives once and waits for the others.
#pragma once

#include "ptx/mbarrier.cuh"

// Called by as many warps as the barrier counts; meeting: how often they have met there before. What a warp did before is there
// for those that it has met.
__device__ __forceinline__ void sync_warps(Barrier* barrier, unsigned phase) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
    barrier_wait(barrier, phase & 1);
}
