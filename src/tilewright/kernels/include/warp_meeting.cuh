// Where some warps of a block meet, and the others do not: a barrier in shared memory at which each arrives once.
#pragma once

#include <mbarrier.cuh>

class WarpMeeting {
  public:
    // At a barrier that counts as many arrivals as there are warps.
    __device__ __forceinline__ explicit WarpMeeting(Barrier* barrier) : barrier(barrier), parity(0) {}

    // What a warp did before is there for those that it has met.
    __device__ __forceinline__ void operator()() {
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
        barrier_wait(barrier, parity);
        parity ^= 1;
    }

  private:
    Barrier* barrier;
    unsigned parity;
};
