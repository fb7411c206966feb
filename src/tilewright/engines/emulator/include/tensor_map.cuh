// The Tensor Memory Accelerator on the emulator: a tile comes when a thread waits at its barrier and none can go on.
#pragma once

#include "mbarrier.cuh"

using simt::TensorMap;

__forceinline__ void prefetch_map(const TensorMap*) {}

__forceinline__ void load_tile(void* shared, const TensorMap* map, int col, int row, int matrix, Barrier* barrier,
                               SIMT_PLACE) {
    const simt::Call call = {simt::Operation::load_tile, file, line};
    simt_load_tile(simt_thread(), call, shared, map, col, row, matrix, &barrier->state);
}

__forceinline__ void fence_async_shared() { simt_fence_async_shared(simt_thread()); }
