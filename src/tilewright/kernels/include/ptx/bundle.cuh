// Bundles: BUNDLE blocks that the hardware launches as one, so that they run on the same multiprocessor.
//
// They are arranged along y of what the hardware takes for a block, and share nothing else: each has a number of its own,
// meets its own threads only, and has its own part of shared memory. The first blocks of all bundles have the first numbers,
// then come the second ones; the last of these may be more than there is work for.
//
// Where blocks differ, it matters which of them run on one multiprocessor, and the hardware promises nothing about that. Bundles pay
// where tiles are few. The emulator launches each block by itself; counts, occupancy and cost are per block.
#pragma once

#include "ptx/dynamic_shared.cuh"
#include "ptx/named_barrier.cuh"

#ifndef BUNDLE
#define BUNDLE 1  // in kernels that have no such parameter
#endif

// Which block of its bundle this is. The shuffle tells the compiler that it is one number for a warp: else it loops over the
// addresses that a warp's threads may have for the copy engine.
__device__ __forceinline__ int position_in_bundle() { return BUNDLE > 1 ? __shfl_sync(0xffffffff, threadIdx.y, 0) : 0; }

// What blockIdx.x is without bundles.
__device__ __forceinline__ unsigned block_number() { return position_in_bundle() * gridDim.x + blockIdx.x; }

// __syncthreads for the threads of this block, which are THREADS.
template <int THREADS>
__device__ __forceinline__ void sync_block() {
    if (BUNDLE > 1) {
        sync_named<THREADS>(position_in_bundle() + 1);
    } else {
        __syncthreads();
    }
}

// SHARED_OF_BLOCK(type, name): a variable in shared memory, of this block.
#define SHARED_OF_BLOCK(type, name)           \
    __shared__ type name##_of_bundle[BUNDLE]; \
    type& name = name##_of_bundle[position_in_bundle()]

// DYNAMIC_SHARED_OF_BLOCK(type, name, size): what of the shared memory whose size the launch decides is this block's, `size`
// elements.
#define DYNAMIC_SHARED_OF_BLOCK(type, name, size) \
    DYNAMIC_SHARED(type, name##_of_bundle);       \
    type* const name = BUNDLE > 1 ? name##_of_bundle + position_in_bundle() * size : name##_of_bundle
