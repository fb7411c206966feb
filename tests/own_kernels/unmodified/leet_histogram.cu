#include <cuda_runtime.h>
#include <iostream>

__global__ void histogram_kernel(const int* input, int* histogram, int N, int num_bins) {
    extern __shared__ int bins[];
    for (int i = threadIdx.x; i < num_bins; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += stride) atomicAdd(&bins[input[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < num_bins; i += blockDim.x) atomicAdd(&histogram[i], bins[i]);
}

extern "C" void solve(const int* input, int* histogram, int N, int num_bins) {
    cudaMemset(histogram, 0, num_bins * sizeof(int));
    int threads = 256, blocks = (N + threads - 1) / threads;
    histogram_kernel<<<blocks, threads, num_bins * sizeof(int)>>>(input, histogram, N, num_bins);
    if (cudaDeviceSynchronize() != cudaSuccess) std::cerr << "failed\n";
}
