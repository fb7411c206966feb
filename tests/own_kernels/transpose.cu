// tilewright: block=(TILE,8) TILE=32 reference=references.py:transpose
// tilewright: a=float32[rows,cols] b=out:float32[cols,rows] rows=70 cols=45
// tilewright: grid=(ceil(cols/TILE),ceil(rows/TILE))

__global__ void naive(const float* a, float* b, int rows, int cols) {
    const int col = blockIdx.x * TILE + threadIdx.x;
    for (int row = blockIdx.y * TILE + threadIdx.y; row < min(rows, (int(blockIdx.y) + 1) * TILE); row += 8)
        if (col < cols) b[col * rows + row] = a[row * cols + col];
}

template <int PAD>
__device__ void through_shared(const float* a, float* b, int rows, int cols) {
    __shared__ float tile[TILE][TILE + PAD];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    for (int y = threadIdx.y; y < TILE; y += 8)
        if (row + y < rows && col + threadIdx.x < cols) tile[y][threadIdx.x] = a[(row + y) * cols + col + threadIdx.x];
    __syncthreads();
    for (int y = threadIdx.y; y < TILE; y += 8)
        if (col + y < cols && row + threadIdx.x < rows) b[(col + y) * rows + row + threadIdx.x] = tile[threadIdx.x][y];
}

__global__ void tiled(const float* a, float* b, int rows, int cols) { through_shared<0>(a, b, rows, cols); }
__global__ void padded(const float* a, float* b, int rows, int cols) { through_shared<1>(a, b, rows, cols); }
