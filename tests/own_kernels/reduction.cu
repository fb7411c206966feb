// tilewright: grid=ceil(n/(2*THREADS)) block=THREADS THREADS=64 reference=references.py:reduction
// tilewright: values=float32[n] sums=out:float32[ceil(n/(2*THREADS))] n=1000

// The sum of each 2 * THREADS elements.
template <int THREADS>
__global__ void reduction(const float* __restrict__ values, float* __restrict__ sums, unsigned n) {
    extern __shared__ float partial[];
    const unsigned first = blockIdx.x * THREADS * 2 + threadIdx.x;
    float sum = first < n ? values[first] : 0.0f;
    if (first + THREADS < n) sum += values[first + THREADS];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        sum = partial[threadIdx.x];
        for (int lanes = 16; lanes; lanes /= 2) sum += __shfl_down_sync(0xffffffff, sum, lanes);
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}
// tilewright: shared=4*THREADS
