// tilewright: grid=4 block=64 reference=references.py:histogram
// tilewright: values=uint8[n]:0..15 counts=zeros:uint32[16] n=2000

__global__ void histogram(const unsigned char* values, unsigned* counts, size_t n) {
    __shared__ unsigned own[16];
    if (threadIdx.x < 16) own[threadIdx.x] = 0;
    __syncthreads();
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[values[i]], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}
