// Fault 10, after page 20: the first tiles are right, and later ones are multiplied before they are there.
//
// The copy engine loads tiles of A and B (TMA) into two stages used in turn. An mbarrier of each stage counts their bytes; all
// threads wait for it, multiply, and one thread then asks for the tiles two steps ahead.
// tilewright: block=(16,16) grid=(ceil(N/16),ceil(M/16)) tile=(16,16,16)
// tilewright: maps=map_a:A(16,16),map_b:B(16,16)
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
__global__ void fault_10(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* C,
                         int M, int N, int K) {
    __shared__ __align__(128) float tile_a[2][16][16], tile_b[2][16][16];
    __shared__ uint64_t full[2];
    const int y = threadIdx.y, x = threadIdx.x, first_row = blockIdx.y * 16, first_col = blockIdx.x * 16;
    const int steps = (K + 15) / 16;
    const bool asks = x == 0 && y == 0;
    const auto start = [&](int step) {
        uint64_t* barrier = &full[step % 2];
        expect(barrier, sizeof tile_a[0] + sizeof tile_b[0]);
        load(tile_a[step % 2], &map_a, step * 16, first_row, barrier);
        load(tile_b[step % 2], &map_b, first_col, step * 16, barrier);
    };
    if (asks) {
        make_barrier(&full[0]), make_barrier(&full[1]);
        asm volatile("fence.mbarrier_init.release.cluster;");
        for (int step = 0; step < min(steps, 2); ++step) start(step);
    }
    __syncthreads();
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        wait(&full[step % 2], step % 2);
        for (int i = 0; i < 16; ++i) sum += tile_a[step % 2][y][i] * tile_b[step % 2][i][x];
        __syncthreads();  // all have read the stage
        if (asks && step + 2 < steps) start(step + 2);
    }
    const size_t row = first_row + y, col = first_col + x;
    if (row < M && col < N) C[row * N + col] = sum;
}
