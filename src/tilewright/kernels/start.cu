// tilewright: block=(TILE,TILE) grid=(ceil(N/TILE),ceil(M/TILE)) TILE=16:8,16,32
//
// The line above says how this kernel is launched, and what else TILE may be. Its parameters say by their names what they are.
//
//     tilewright check start.cu      races, accesses out of bounds, wrong results
//     tilewright explain start.cu    what it asks of a GPU
//     tilewright bench start.cu      its speed, on a GPU
//     tilewright tune start.cu       the best TILE there

// C = alpha * A @ B + beta * C, row-major. A block computes a tile of C, and stages tiles of A and B in shared memory.
__global__ void start(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    const size_t row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        const size_t k_of_a = k + threadIdx.x, k_of_b = k + threadIdx.y;  // size_t: row * K may pass 2^31
        tile_a[threadIdx.y][threadIdx.x] = row < M && k_of_a < K ? A[row * K + k_of_a] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = col < N && k_of_b < K ? B[k_of_b * N + col] : 0.0f;
        __syncthreads();  // the tiles are there
        for (int i = 0; i < TILE; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();  // all have read them
    }
    if (row < M && col < N) C[row * N + col] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
}
