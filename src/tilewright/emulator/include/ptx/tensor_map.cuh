// The Tensor Memory Accelerator on the emulator: a tile comes when a thread waits at its barrier and none can go on. One
// that is stored is read when its thread waits for that, and written when it waits for the whole store, or with the block's
// end.
#pragma once

#include "ptx/mbarrier.cuh"

using simt::TensorMap;

__forceinline__ void prefetch_map(const TensorMap*) {}

__forceinline__ void load_tile(void* shared, const TensorMap* map, int col, int row, int matrix, Barrier* barrier,
                               SIMT_PLACE) {
    const simt::Call call = {simt::Operation::load_tile, file, line};
    simt_load_tile(simt_thread(), call, shared, {map, {col, row, matrix}}, &barrier->state);
}

__forceinline__ void fence_async_shared() { simt_fence_async_shared(simt_thread()); }

__forceinline__ void fence_async() { fence_async_shared(); }

__forceinline__ void store_tile_async(const TensorMap* map, int col, int row, int matrix, const void* shared, SIMT_PLACE) {
    const simt::Call call = {simt::Operation::store_tile_async, file, line};
    simt_store_tile(simt_thread(), call, {map, {col, row, matrix}}, shared);
}

__forceinline__ void commit_tiles() { simt_commit_tiles(simt_thread()); }

template <int PENDING>
__forceinline__ void wait_tiles_read() {
    simt_wait_tiles(simt_thread(), PENDING, false);
}

template <int PENDING>
__forceinline__ void wait_tiles() {
    simt_wait_tiles(simt_thread(), PENDING, true);
}
