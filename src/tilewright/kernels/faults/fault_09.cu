// Fault 9, after page 12: for some K the last products are missing now and then.
//
// The kernel multiplies row-major matrices of any size. Threads ask for asynchronous copies of tiles (cp.async), two steps
// ahead, and wait for the oldest group before a step. Where a matrix ends, zeros are copied. Errors come and go, and
// where they come it is the last step along k that is wrong.
// tilewright: block=(16,16) grid=(ceil(N/16),ceil(M/16))

#define STAGES 3

__device__ void copy(float* shared, const float* global, bool inside) {
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    const int bytes = inside ? 4 : 0;  // of the four, the others are zeros
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
}

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all of this thread's groups but the youngest one.
__device__ void wait_for_all_but_one() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// C = alpha * A @ B + beta * C
__global__ void fault_09(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float tile_a[STAGES][16][16], tile_b[STAGES][16][16];
    const int y = threadIdx.y, x = threadIdx.x;
    const size_t row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    const int steps = (K + 15) / 16;
    const auto load = [&](int step) {
        const int k = step * 16, stage = step % STAGES;
        const bool in_a = row < M && k + x < K, in_b = col < N && k + y < K;
        copy(&tile_a[stage][y][x], in_a ? A + row * K + k + x : A, in_a);
        copy(&tile_b[stage][y][x], in_b ? B + (size_t)(k + y) * N + col : B, in_b);
    };
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps) load(step);
        commit();
    }
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        wait_for_all_but_one();
        __syncthreads();  // the tiles of this step are there, and all have read those of the last
        if (step + STAGES - 1 < steps) {
            load(step + STAGES - 1);
            commit();
        }
        for (int i = 0; i < 16; ++i) sum += tile_a[step % STAGES][y][i] * tile_b[step % STAGES][i][x];
    }
    if (row < M && col < N) C[row * N + col] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
}
