// What compiled kernels and the runtime know of one another.
#pragma once

#include <cstdint>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

namespace simt {

constexpr unsigned WARP_SIZE = 32;

struct Block {
    uint3 index;
    dim3 threads;
    dim3 grid;
    void* dynamic_shared;
};

struct Thread {
    uint3 index;
    unsigned lane;
    const Block* block;
};

// Operations at which threads wait for one another. The runtime has their names for its messages.
enum class Operation : int {
    syncthreads,
    syncthreads_count,
    syncthreads_and,
    syncthreads_or,
    syncwarp,
    shuffle,
    shuffle_up,
    shuffle_down,
    shuffle_xor,
    vote_all,
    vote_any,
    ballot,
    activemask,
};

// A call in the kernel's source.
struct Call {
    Operation operation;
    const char* file;
    int line;
};

}  // namespace simt

#define SIMT_EXPORT extern "C" __attribute__((visibility("default")))

// The thread that calls. It is the same in all of a kernel's invocation, across barriers too, hence `const`.
SIMT_EXPORT __attribute__((const)) const simt::Thread* simt_thread();

// Waits for all threads of the block; returns how many of them passed a predicate other than 0.
SIMT_EXPORT int simt_block_barrier(const simt::Thread* self, simt::Call call, int predicate);

// Waits for the lanes of `mask` and exchanges values among them. A shuffle returns the value of lane `source`, a vote its
// outcome over the lanes' values, __activemask the lanes that have come together.
SIMT_EXPORT std::uint64_t simt_warp_exchange(const simt::Thread* self, simt::Call call, unsigned mask,
                                             std::uint64_t value, unsigned source);
