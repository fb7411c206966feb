// Fault 4, after page 3: right on multiples of 16; on other sizes the last rows and columns are wrong.
//
// The kernel multiplies row-major matrices of any size, by tiles in shared memory. It never reads or writes outside of a
// matrix. On 1000 x 1000 the last 8 rows and columns of C are wrong.
// tilewright: block=(TILE,TILE) grid=(ceil(N/TILE),ceil(M/TILE)) TILE=16

// C = alpha * A @ B + beta * C
__global__ void fault_04(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    const int y = threadIdx.y, x = threadIdx.x;
    const size_t row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        tile_a[y][x] = row < M && k + x < K ? A[row * K + k + x] : 0.0f;
        tile_b[y][x] = col < N && k + y < K ? B[(size_t)(k + y) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();
    }
    C[row * N + col] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
}
