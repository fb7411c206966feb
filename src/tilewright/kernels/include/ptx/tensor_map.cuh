// Tiles of matrices moved between global and shared memory by the Tensor Memory Accelerator (sm_90 and newer): one thread
// asks, and the copy engine computes the addresses. Of a load, a barrier counts the bytes as they come; for a store, the
// thread that asked waits.
//
// A tensor map, made by the host, describes the matrices of a batch in global memory, each by contiguous rows, the box of
// one that is moved, and how the box lies in shared memory: its rows one after the other, and with a swizzle of 32, 64
// or 128 bytes, which is then the length of a row, their 16-byte pieces exchanged: address bits 4 to 6 (for 64 bytes: 4
// and 5, for 32: 4) are xored with bits 7 to 9 (7 and 8; 7). So pieces of one column of consecutive rows fall on different
// banks.
#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/shared_address.cuh"

// A kernel takes it as `const __grid_constant__ TensorMap`.
struct __align__(64) TensorMap {
    unsigned char opaque[128];
};

// Starts to load the map itself, which the first tile else waits for.
__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Starts to load the box whose first element is (row, col) of a matrix, counted from 0; elements outside the matrix come
// as zeros, and the first may be one. `col` elements are a multiple of 16 bytes: any other column is an illegal
// instruction. The barrier gets the bytes of the whole box. `shared` is a multiple of 128 bytes; with a swizzle, of 8
// times its length, so that the pattern begins with the box.
__device__ __forceinline__ void load_tile(void* shared, const TensorMap* map, int col, int row, int matrix,
                                          Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
        ::"r"(shared_address(shared)), "l"(map), "r"(col), "r"(row), "r"(matrix), "r"(shared_address(barrier)) : "memory");
}

// Orders this thread's own accesses to shared memory, barriers made included, before what the copy engine does there
// later.
__device__ __forceinline__ void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same for global memory too.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Starts to store the box whose first element is (row, col) of a matrix; elements outside the matrix are not written.
// `shared` and `col` are as for load_tile, but a negative row or column is an illegal instruction (found on an H200). What
// threads wrote there needs fence_async_shared of each of them, and then a barrier.
__device__ __forceinline__ void store_tile_async(const TensorMap* map, int col, int row, int matrix, const void* shared) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
                 ::"l"(map), "r"(col), "r"(row), "r"(matrix), "r"(shared_address(shared)) : "memory");
}

// Ends a group: this thread's stores of tiles since the last one.
__device__ __forceinline__ void commit_tiles() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until shared memory has been read by all of this thread's groups but the youngest PENDING, so that it may be
// written again. A thread must have called it with 0 before it returns.
template <int PENDING>
__device__ __forceinline__ void wait_tiles_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Waits until all of this thread's groups but the youngest PENDING are written, so that it may read what they stored.
template <int PENDING>
__device__ __forceinline__ void wait_tiles() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
