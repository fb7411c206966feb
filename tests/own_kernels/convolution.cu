// tilewright: block=THREADS grid=ceil(n/THREADS) THREADS=64 RADIUS=3 reference=references.py:convolution
// tilewright: signal=float32[n] weights=float32[2*RADIUS+1] result=inout:float32[n] n=500 scale=0.5

// result += scale * (signal convolved with weights); outside of the signal there are zeros.
__global__ void convolution(const float* signal, const float* weights, float* result, long long n, float scale) {
    __shared__ float window[THREADS + 2 * RADIUS];
    const long long first = (long long)blockIdx.x * THREADS - RADIUS;
    for (int i = threadIdx.x; i < THREADS + 2 * RADIUS; i += THREADS) {
        const long long at = first + i;
        window[i] = at >= 0 && at < n ? signal[at] : 0.0f;
    }
    __syncthreads();
    const long long at = first + RADIUS + threadIdx.x;
    if (at >= n) return;
    float sum = 0.0f;
    for (int i = 0; i <= 2 * RADIUS; ++i) sum += weights[2 * RADIUS - i] * window[threadIdx.x + i];
    result[at] += scale * sum;
}
