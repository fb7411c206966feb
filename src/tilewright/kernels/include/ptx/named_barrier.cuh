// Barriers by number at which some warps of a block sync and the others do not (bar.sync, bar.arrive).
//
// A block has 16, of which __syncthreads uses number 0. One opens when THREADS threads have come to it, in whole warps and by
// either function, and then begins anew. So warps can pass something to others without waiting themselves:
//
//     producer   | write | arrive_named<64>(1) | sync_named<64>(2)     | write ...
//     consumer   | sync_named<64>(1)           | read | arrive_named<64>(2) | sync_named<64>(1) ...
#pragma once

// Waits until THREADS threads have come. What they did before comes before what this thread does now.
template <int THREADS>
__device__ __forceinline__ void sync_named(int barrier) {
    static_assert(THREADS > 0 && THREADS % 32 == 0, "whole warps come to a barrier");
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

// Comes, and goes on.
template <int THREADS>
__device__ __forceinline__ void arrive_named(int barrier) {
    static_assert(THREADS > 0 && THREADS % 32 == 0, "whole warps come to a barrier");
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}
