// tilewright: grid=rows block=BLOCK BLOCK=64
// tilewright: x=float32[rows,cols] y=out:float32[rows,cols] rows=5 cols=200
// tilewright: reference=references.py:softmax
__global__ void softmax(const float* x, float* y, int rows, int cols) {
    __shared__ float shared[BLOCK];
    const float* row = x + blockIdx.x * cols;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += BLOCK) largest = fmaxf(largest, row[i]);
    shared[threadIdx.x] = largest;
    __syncthreads();
    for (int half = BLOCK / 2; half; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    largest = shared[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK) sum += expf(row[i] - largest);
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = BLOCK / 2; half; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < cols; i += BLOCK) y[blockIdx.x * cols + i] = expf(row[i] - largest) / shared[0];
}
