// Sums of A's rows: a tile is waited for by the parity of the phase before, which has ended long since.

#include "ptx/mbarrier.cuh"
#include "ptx/tensor_map.cuh"

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    wrong_phase(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A,
                const __grid_constant__ TensorMap B, float beta, float* C, int ldc) {
    __shared__ __align__(128) float As[16][32];
    __shared__ Barrier full;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    const int tiles_n = (N + 15) / 16;
    const int tile_row = blockIdx.x / tiles_n * 16;
    const int row = tile_row + y, col = blockIdx.x % tiles_n * 16 + x;
    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        fence_barrier_init();
    }
    __syncthreads();
    float sum = 0;
    int parity = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        if (threadIdx.x == 0) {
            barrier_expect_bytes(&full, sizeof As);
            load_tile(As, &A, k0, tile_row, 0, &full);  // <- other
        }
        __syncthreads();
        barrier_wait(&full, parity ^ 1);
        for (int k = 0; k < 32; ++k) sum += As[y][k];  // <- unfinished copy
        __syncthreads();
        parity ^= 1;
    }
    if (row < M && col < N) C[1LL * row * ldc + col] = alpha * sum;
}
