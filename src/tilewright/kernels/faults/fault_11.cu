// Fault 11, after page 20: was right with two tiles of one size; with a larger tile of B the kernel never ends.
//
// The copy engine loads a tile of 16 x 32 of A and one of 32 x 64 of B (TMA) for each step, and an mbarrier counts their
// bytes. All threads wait for it and multiply; a thread computes four neighbours of a row of C.
// tilewright: block=(16,16) grid=(ceil(N/64),ceil(M/16)) tile=(16,64,32)
// tilewright: maps=map_a:A(16,32),map_b:B(32,64)
#include <cuda.h>
#include <stdint.h>

__device__ unsigned address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

__device__ void make_barrier(uint64_t* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(barrier)) : "memory");
}

// Announces bytes that copies will write, and arrives.
__device__ void expect(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
}

// Starts a copy of the box whose first element is (row, col) of the matrix.
__device__ void load(void* tile, const CUtensorMap* map, int col, int row, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(address(tile)), "l"((uint64_t)map), "r"(col), "r"(row), "r"(address(barrier)) : "memory");
}

// Waits until the barrier's phase of this parity has ended: 0 for the first, then 1, 0, 1 and so on.
__device__ void wait(uint64_t* barrier, int parity) {
    asm volatile(
        "{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra AGAIN; }"
        ::"r"(address(barrier)), "r"(parity) : "memory");
}

// C = A @ B
__global__ void fault_11(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* C,
                         int M, int N, int K) {
    __shared__ __align__(128) float tile_a[16][32], tile_b[32][64];
    __shared__ uint64_t full;
    const int y = threadIdx.y, x = threadIdx.x, first_row = blockIdx.y * 16, first_col = blockIdx.x * 64;
    const bool asks = x == 0 && y == 0;
    if (asks) {
        make_barrier(&full);
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    float sums[4] = {};
    for (int k = 0, parity = 0; k < K; k += 32, parity ^= 1) {
        if (asks) {
            expect(&full, 2 * sizeof tile_a);
            load(tile_a, &map_a, k, first_row, &full);
            load(tile_b, &map_b, first_col, k, &full);
        }
        wait(&full, parity);
        for (int i = 0; i < 32; ++i)
            for (int c = 0; c < 4; ++c) sums[c] += tile_a[y][i] * tile_b[i][4 * x + c];
        __syncthreads();  // all have read the tiles
    }
    const size_t row = first_row + y, col = first_col + 4 * x;
    for (int c = 0; c < 4 && row < M && col + c < N; ++c) C[row * N + col + c] = sums[c];
}
