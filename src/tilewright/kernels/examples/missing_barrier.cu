// A product of tiles in shared memory, without one of its two barriers: a race for `tilewright check` to find.
//
// Each step of the loop stages a tile of A and a tile of B, and multiplies them. A thread reads elements that other
// threads have staged, so the block must wait twice: until the tiles are there, and until all threads have read them.
// The second __syncthreads() is missing. A fast warp stages its part of the next tiles while a slow one still
// multiplies the last. On a GPU results may be right for years, as long as warps happen to keep step.
//
//     tilewright check missing_barrier         names the race: both threads, both lines, the element
//
// To mend it, copy this file, write __syncthreads(); where the comment is, and check the copy:
//
//     tilewright check my_copy.cu
//
// The next line says how the kernel is launched.
// tilewright: block=(TILE,TILE) grid=(ceil(N/TILE),ceil(M/TILE)) TILE=16:8,16,32

// C = alpha * A @ B + beta * C, row-major. A block computes a tile of C, a thread an element.
__global__ void missing_barrier(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    const size_t row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        const size_t k_of_a = k + threadIdx.x, k_of_b = k + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < M && k_of_a < K ? A[row * K + k_of_a] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = col < N && k_of_b < K ? B[k_of_b * N + col] : 0.0f;
        __syncthreads();  // the tiles are there
        for (int i = 0; i < TILE; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        // missing: __syncthreads();  // all threads have read them
    }
    if (row < M && col < N) C[row * N + col] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
}
