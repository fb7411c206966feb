// Clusters: blocks that run at the same time on neighbouring multiprocessors and reach into each other's shared memory
// (sm_90 and newer). A kernel with __cluster_dims__(COUNT) has them: COUNT blocks in a row of the grid, ranks 0 to COUNT - 1.
//
// All blocks of a cluster lay their shared memory out alike, so a pointer says where something lies in each of them.
#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/shared_address.cuh"
#include "ptx/tensor_map.cuh"

// This block's rank in its cluster.
__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Where a variable in shared memory lies in the block of this rank: an address to load from and to store to.
template <typename T>
__device__ __forceinline__ T* in_block(T* shared, int rank) {
    T* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return there;
}

// Waits for all threads of all blocks of the cluster; what they wrote to shared memory before is seen afterwards. A block
// that others still reach into must not end: it waits for them, here or at barriers of its own.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Waits for them, and says of what they wrote only that barriers were made (`fence_barrier_init`): so nobody waits until the whole
// GPU sees all that he stored, which takes 0.6 us.
__device__ __forceinline__ void cluster_sync_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Arrives at the current phase of a barrier of the block of this rank.
__device__ __forceinline__ void barrier_arrive_at(Barrier* barrier, int rank) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}"
        ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}

// As load_tile, into all blocks of the cluster whose bit is set in `blocks`: at the same place in each, and each one's
// barrier gets the bytes.
__device__ __forceinline__ void load_tile_to(unsigned short blocks, void* shared, const TensorMap* map, int col, int row,
                                             int matrix, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3, %4}], [%5], %6;"
        ::"r"(shared_address(shared)), "l"(map), "r"(col), "r"(row), "r"(matrix), "r"(shared_address(barrier)), "h"(blocks)
        : "memory");
}
