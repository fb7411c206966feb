// The copy engine may not see what threads have written to shared memory.

#include "ptx/tensor_map.cuh"

extern "C" __global__ void
    store_without_fence(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
                        int ldc, const __grid_constant__ TensorMap D) {
    __shared__ __align__(128) float tile[8][16];
    const int tiles_n = (N + 15) / 16;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    const int tile_row = blockIdx.x / tiles_n * 16, tile_col = blockIdx.x % tiles_n * 16;
    const int row = tile_row + y, col = tile_col + x;
    float sum = 0;
    for (int k = 0; k < K && row < M && col < N; ++k) sum += A[1LL * row * lda + k] * B[1LL * k * ldb + col];
    for (int half = 0; half < 2; ++half) {
        if (y / 8 == half) {
            tile[y % 8][x] = alpha * sum;  // <- other
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            store_tile_async(&D, tile_col, tile_row + 8 * half, 0, tile);  // <- missing fence
            commit_tiles();
            wait_tiles_read<0>();
        }
        __syncthreads();
    }
}
