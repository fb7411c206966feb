// Fault 7, after page 7: right on every shape, and shared memory is busy all the time.
//
// The kernel multiplies A by a transposed B, whose columns lie one after the other in memory (layout=NT). All loads and
// stores of global memory are coalesced. The profiler says that a load of shared memory takes up to 32 wavefronts.
// `tilewright explain` counts them.
// tilewright: block=(32,8) grid=(ceil(N/32),ceil(M/32)) tile=(32,32,32) layout=NT

// C = alpha * A @ B + beta * C. A block computes 32 x 32 elements of C, a thread four of one column.
__global__ void fault_07(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float tile_a[32][32];  // rows of A
    __shared__ float tile_b[32][32];  // columns of B
    const int y = threadIdx.y, x = threadIdx.x;
    const size_t first_row = blockIdx.y * 32, first_col = blockIdx.x * 32, col = first_col + x;
    float sums[4] = {};
    for (int k = 0; k < K; k += 32) {
        for (int i = y; i < 32; i += 8) {
            tile_a[i][x] = first_row + i < M && k + x < K ? A[(first_row + i) * K + k + x] : 0.0f;
            tile_b[i][x] = first_col + i < N && k + x < K ? B[(first_col + i) * K + k + x] : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < 32; ++i)
            for (int r = 0; r < 4; ++r) sums[r] += tile_a[y + 8 * r][i] * tile_b[x][i];
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r) {
        const size_t row = first_row + y + 8 * r;
        if (row < M && col < N) C[row * N + col] = alpha * sums[r] + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
    }
}
