// Barriers in shared memory that also count the bytes of asynchronous copies (mbarrier; sm_90 and newer).
//
// A barrier goes through phases. One ends when as many threads have arrived as `barrier_init` said and all bytes that
// were announced have come; the next begins at once, with all counts anew. Its parity tells a phase from its
// neighbours: 0 for the first, then 1, 0, 1 and so on.
#pragma once

#include "ptx/shared_address.cuh"

struct Barrier {
    unsigned long long state;
};

// Makes a barrier whose phases take `count` arrivals. One thread does it; the block syncs before another uses the
// barrier.
__device__ __forceinline__ void barrier_init(Barrier* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

// Shows the barriers that this thread has made to the copy engine too, which else may not see them yet.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives at the current phase.
__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Announces bytes that copies will write within the current phase, and arrives at it.
__device__ __forceinline__ void barrier_expect_bytes(Barrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Waits until the phase of this parity has ended: returns at once where the current phase has the other parity.
__device__ __forceinline__ void barrier_wait(Barrier* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@!ended bra again;\n"
        "}"
        ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
