// Asynchronous copies from global to shared memory (cp.async; sm_80 and newer): a thread starts copies, commits them as
// a group, and waits for its groups later. Its data are there once it has waited; the other threads' once those have
// waited too and all have synced at a barrier.
#pragma once

#include "ptx/shared_address.cuh"

// Copies BYTES (4, 8 or 16) bytes, both addresses being multiples of that; outside, zeros are written and nothing is
// read. 16 bytes go past the L1 cache (.cg), which would not see them again; fewer can only go through it (.ca).
template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool inside) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
    const int read = inside ? BYTES : 0;
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     ::"r"(shared_address(shared)), "l"(global), "r"(read) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     ::"r"(shared_address(shared)), "l"(global), "n"(BYTES), "r"(read) : "memory");
    }
}

// Copies the first `bytes` of BYTES (4 or 16), both addresses being multiples of that; the rest are written as zeros.
template <int BYTES = 16>
__device__ __forceinline__ void copy_async_first(void* shared, const void* global, int bytes) {
    static_assert(BYTES == 4 || BYTES == 16, "words, or pieces of 16 bytes");
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     ::"r"(shared_address(shared)), "l"(global), "r"(bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                     ::"r"(shared_address(shared)), "l"(global), "r"(bytes) : "memory");
    }
}

// Ends a group: what this thread has started since the last one. It may be empty.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's groups, the youngest, are still on their way.
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
