// Each thread waits for its own copies, and reads those of others.

#include "ptx/async_copy.cuh"

#include "epilogue/ladder.cuh"

extern "C" __global__ void
    wait_without_barrier(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                         float beta, float* C, int ldc) {
    __shared__ float As[2][16][16];
    const int tiles_n = (N + 15) / 16;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    const int row = blockIdx.x / tiles_n * 16 + y, col = blockIdx.x % tiles_n * 16 + x;
    const auto load_tiles = [&](int k0, int stage) {
        const bool inside = row < M && k0 + x < K;
        copy_async<4>(&As[stage][y][x], A + 1LL * row * lda + k0 + x, inside);  // <- other
        commit_copies();
    };
    float sum = 0;
    load_tiles(0, 0);
    for (int k0 = 0; k0 < K; k0 += 16) {
        const int stage = k0 / 16 % 2;
        load_tiles(k0 + 16, 1 - stage);
        wait_copies<1>();
        for (int k = 0; k < 16; ++k) {
            const float b = k0 + k < K && col < N ? B[1LL * (k0 + k) * ldb + col] : 0;
            sum += As[stage][y][k] * b;  // <- race
        }
        __syncthreads();
    }
    if (row < M && col < N) C[1LL * row * ldc + col] = blend(alpha, sum, beta, C + 1LL * row * ldc + col);
}
