// Fault 12, after page 26: now and then a few elements of C have values of another tile.
//
// Threads multiply, and write 16 x 16 results to shared memory; the copy engine stores them as one box (TMA), and leaves out
// what lies outside of C. A block computes two such tiles, one below the other, by way of the same shared memory.
// tilewright: block=(16,16) grid=(ceil(N/16),ceil(M/32)) tile=(32,16,16)
// tilewright: maps=map_c:C(16,16)
#include <cuda.h>
#include <stdint.h>

__device__ unsigned address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

// Starts a store of the box whose first element is (row, col) of the matrix, as a group of its own.
__device__ void store(const CUtensorMap* map, int col, int row, const void* tile) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"((uint64_t)map), "r"(col), "r"(row), "r"(address(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until the stores of this thread have read shared memory.
__device__ void wait_until_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// Shows what this thread has written to shared memory to the copy engine.
__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// C = A @ B
__global__ void fault_12(const float* A, const float* B, const __grid_constant__ CUtensorMap map_c, int M, int N, int K) {
    __shared__ __align__(128) float tile[16][16];
    const int y = threadIdx.y, x = threadIdx.x, first_col = blockIdx.x * 16;
    for (int half = 0; half < 2; ++half) {
        const int first_row = blockIdx.y * 32 + half * 16;
        const size_t row = first_row + y, col = first_col + x;
        float sum = 0.0f;
        for (int k = 0; k < K && row < M && col < N; ++k) sum += A[row * K + k] * B[(size_t)k * N + col];
        tile[y][x] = sum;
        __syncthreads();
        if (x == 0 && y == 0) {
            fence();
            if (first_row < M) store(&map_c, first_col, first_row, tile);
            wait_until_read();
        }
        __syncthreads();
    }
}
