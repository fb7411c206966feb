// Clusters on the emulator: their blocks run together, each with shared memory of its own, in which what one block has lies
// where another has the same.
#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/tensor_map.cuh"

__forceinline__ int cluster_rank() { return simt_thread()->block->rank; }

template <typename T>
__forceinline__ T* in_block(T* shared, int rank, SIMT_PLACE) {
    return static_cast<T*>(simt_in_block(simt_thread(), {simt::Operation::in_block, file, line}, shared, rank));
}

__forceinline__ void cluster_sync(SIMT_PLACE) {
    simt_cluster_sync(simt_thread(), {simt::Operation::cluster_sync, file, line});
}

// Here it says of what was written as much as cluster_sync.
__forceinline__ void cluster_meet(SIMT_PLACE) { cluster_sync(file, line); }

__forceinline__ void barrier_arrive_at(Barrier* barrier, int rank, SIMT_PLACE) {
    simt_barrier_arrive_at(simt_thread(), {simt::Operation::barrier_arrive_at, file, line}, &barrier->state, rank);
}

__forceinline__ void load_tile_to(unsigned short blocks, void* shared, const TensorMap* map, int col, int row, int matrix,
                                  Barrier* barrier, SIMT_PLACE) {
    const simt::Call call = {simt::Operation::load_tile_to, file, line};
    simt_load_tile_to(simt_thread(), call, blocks, shared, {map, {col, row, matrix}}, &barrier->state);
}
