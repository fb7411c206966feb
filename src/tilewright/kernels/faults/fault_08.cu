// Fault 8, after page 11: right while it has the GPU to itself; next to another kernel a few elements are off.
//
// The kernel multiplies row-major matrices of any size. Tiles of A and B lie in three buffers used in turn: while the block
// multiplies those of one, its threads fill another. One barrier a step is enough.
// tilewright: block=(16,16) grid=(ceil(N/16),ceil(M/16))

#define BUFFERS 3

// C = alpha * A @ B + beta * C
__global__ void fault_08(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float tile_a[BUFFERS][16][16], tile_b[BUFFERS][16][16];
    const int y = threadIdx.y, x = threadIdx.x;
    const size_t row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    const int steps = (K + 15) / 16, ahead = BUFFERS;
    const auto fill = [&](int step) {
        const int k = step * 16, buffer = step % BUFFERS;
        tile_a[buffer][y][x] = row < M && k + x < K ? A[row * K + k + x] : 0.0f;
        tile_b[buffer][y][x] = col < N && k + y < K ? B[(size_t)(k + y) * N + col] : 0.0f;
    };
    for (int step = 0; step < ahead; ++step) fill(step);
    __syncthreads();
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        const int buffer = step % BUFFERS;
        for (int i = 0; i < 16; ++i) sum += tile_a[buffer][y][i] * tile_b[buffer][i][x];
        fill(step + ahead);
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
}
