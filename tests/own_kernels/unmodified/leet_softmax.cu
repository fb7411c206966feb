#include <cuda_runtime.h>
#include <float.h>
#include <vector>

constexpr int THREADS = 128;

__device__ float warp_max(float v) {
    for (int offset = 16; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, offset));
    return v;
}
__device__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffff, v, offset);
    return v;
}

__global__ void softmax_kernel(const float* input, float* output, int N) {
    __shared__ float parts[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float largest = -FLT_MAX, sum = 0.0f;
    for (int i = threadIdx.x; i < N; i += THREADS) largest = fmaxf(largest, input[i]);
    largest = warp_max(largest);
    if (lane == 0) parts[warp] = largest;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++) largest = fmaxf(largest, parts[i]);
    __syncthreads();  // before they are written again
    for (int i = threadIdx.x; i < N; i += THREADS) sum += expf(input[i] - largest);
    sum = warp_sum(sum);
    if (lane == 0) parts[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int i = 0; i < THREADS / 32; i++) sum += parts[i];
    for (int i = threadIdx.x; i < N; i += THREADS) output[i] = expf(input[i] - largest) / sum;
}

std::vector<float> on_host(const float* device, int N) {
    std::vector<float> copied(N);
    cudaMemcpy(copied.data(), device, N * sizeof(float), cudaMemcpyDeviceToHost);
    return copied;
}

extern "C" void solve(const float* input, float* output, int N) {
    softmax_kernel<<<1, THREADS>>>(input, output, N);
    cudaDeviceSynchronize();
}
