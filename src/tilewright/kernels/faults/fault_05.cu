// Fault 5, after page 4: a debug build is right, an optimised one is not, and NaN comes and goes.
//
// The kernel multiplies row-major matrices of any size. A block computes 32 x 32 elements of C, a thread four of them, whose
// sums stay in registers. What is wrong depends on the compiler, on its options and on which kernel ran before.
// tilewright: block=(32,8) grid=(ceil(N/32),ceil(M/32)) tile=(32,32,32)

// C = alpha * A @ B + beta * C
__global__ void fault_05(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float tile_a[32][32], tile_b[32][32];
    const int y = threadIdx.y, x = threadIdx.x;
    const size_t first_row = blockIdx.y * 32, col = blockIdx.x * 32 + x;
    float sums[4];
    for (int k = 0; k < K; k += 32) {
        for (int i = y; i < 32; i += 8) {
            tile_a[i][x] = first_row + i < M && k + x < K ? A[(first_row + i) * K + k + x] : 0.0f;
            tile_b[i][x] = col < N && k + i < K ? B[(size_t)(k + i) * N + col] : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < 32; ++i)
            for (int r = 0; r < 4; ++r) sums[r] += tile_a[y + 8 * r][i] * tile_b[i][x];
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r) {
        const size_t row = first_row + y + 8 * r;
        if (row < M && col < N) C[row * N + col] = alpha * sums[r] + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
    }
}
