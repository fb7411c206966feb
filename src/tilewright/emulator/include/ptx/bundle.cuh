// Bundles: on the emulator, whose blocks share nothing wherever they run, every block is launched by itself.
#pragma once

#include "ptx/dynamic_shared.cuh"

__forceinline__ int position_in_bundle() { return 0; }

__forceinline__ unsigned block_number() { return blockIdx.x; }

template <int THREADS>
__forceinline__ void sync_block(SIMT_LOCATION) { __syncthreads(file, line); }

#define SHARED_OF_BLOCK(type, name) __shared__ type name

#define DYNAMIC_SHARED_OF_BLOCK(type, name, size) DYNAMIC_SHARED(type, name)
