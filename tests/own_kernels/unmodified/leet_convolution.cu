#include <cuda_runtime.h>

#define BLOCK 128
#define MAX_KERNEL 64

__constant__ int unused[1];

__global__ void convolution_1d_kernel(const float* input, const float* kernel, float* output, int input_size, int kernel_size) {
    __shared__ float window[BLOCK + MAX_KERNEL];
    const int first = blockIdx.x * BLOCK, results = input_size - kernel_size + 1;
    for (int i = threadIdx.x; i < BLOCK + kernel_size - 1; i += BLOCK) window[i] = first + i < input_size ? input[first + i] : 0.0f;
    __syncthreads();
    if (first + threadIdx.x >= results) return;
    float sum = 0.0f;
    for (int j = 0; j < kernel_size; j++) sum += window[threadIdx.x + j] * kernel[j];
    output[first + threadIdx.x] = sum;
}

extern "C" void solve(const float* input, const float* kernel, float* output, int input_size, int kernel_size) {
    int output_size = input_size - kernel_size + 1;
    int blocksPerGrid = (output_size + BLOCK - 1) / BLOCK;
    convolution_1d_kernel<<<blocksPerGrid, BLOCK>>>(input, kernel, output, input_size, kernel_size);
    cudaDeviceSynchronize();
}
