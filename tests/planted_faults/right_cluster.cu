// No fault: sums of A's rows, whose tiles two blocks of a cluster load in turns, each for both; then they exchange the sums.
// Tests plant faults in it.

#include "ptx/cluster.cuh"
#include "ptx/dynamic_shared.cuh"

struct Shared {
    float As[16][32];
    Barrier full, empty;
    float given[256];
};

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    right_cluster(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A,
                  const __grid_constant__ TensorMap B, float beta, float* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);
    const int y = threadIdx.x / 16, x = threadIdx.x % 16, rank = cluster_rank();
    const int tiles_n = (N + 15) / 16;
    const int tile_row = blockIdx.x / tiles_n * 16;  // of both blocks: tiles_n is even
    const int row = tile_row + y, col = blockIdx.x % tiles_n * 16 + x;
    if (threadIdx.x == 0) {
        barrier_init(&shared->full, 1);
        barrier_init(&shared->empty, 2 * 8);
        fence_barrier_init();
    }
    cluster_sync();
    float sum = 0;
    for (int step = 0; step * 32 < K; ++step) {
        if (threadIdx.x == 0) {
            if (step > 0) barrier_wait(&shared->empty, (step - 1) % 2);
            barrier_expect_bytes(&shared->full, sizeof shared->As);
            if (step % 2 == rank) load_tile_to(3, shared->As, &A, step * 32, tile_row, 0, &shared->full);
        }
        barrier_wait(&shared->full, step % 2);
        for (int k = 0; k < 32; ++k) sum += shared->As[y][k];
        __syncwarp();
        if (threadIdx.x % 32 < 2) barrier_arrive_at(&shared->empty, threadIdx.x % 32);
    }
    *in_block(&shared->given[threadIdx.x], 1 - rank) = sum;  // the two have the same
    cluster_sync();
    sum = shared->given[threadIdx.x];
    if (row < M && col < N) C[1LL * row * ldc + col] = alpha * sum;
    cluster_sync();
}
