// No fault: sums of A's rows. Four warps load tiles, four others read them; they pass them to and fro by named barriers. Tests
// plant faults in it.

#include "ptx/named_barrier.cuh"

extern "C" __global__ void
    right_named(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
                int ldc) {
    constexpr int FULL = 1, EMPTY = 2;
    __shared__ float As[16][32];
    const int tiles_n = (N + 15) / 16, thread = threadIdx.x % 128;
    const int tile_row = blockIdx.x / tiles_n * 16;
    if (threadIdx.x < 128) {
        for (int k0 = 0; k0 < K; k0 += 32) {
            if (k0 > 0) sync_named<256>(EMPTY);
            for (int i = thread; i < 16 * 32; i += 128) {
                const int row = tile_row + i / 32, k = k0 + i % 32;
                As[i / 32][i % 32] = row < M && k < K ? A[1LL * row * lda + k] : 0.0f;
            }
            arrive_named<256>(FULL);
        }
    } else {
        float sums[2] = {};
        for (int k0 = 0; k0 < K; k0 += 32) {
            sync_named<256>(FULL);
            for (int i = 0; i < 2; ++i) {
                for (int k = 0; k < 32; ++k) sums[i] += As[thread / 16 + 8 * i][k];
            }
            if (k0 + 32 < K) arrive_named<256>(EMPTY);
        }
        for (int i = 0; i < 2; ++i) {
            const int row = tile_row + thread / 16 + 8 * i, col = blockIdx.x % tiles_n * 16 + thread % 16;
            if (row < M && col < N) C[1LL * row * ldc + col] = alpha * sums[i];
        }
    }
}
