#include <assert.h>
#include <stdio.h>
#include <cuda_runtime.h>
#include <cuda_profiler_api.h>
#include <helper_cuda.h>
#include <helper_functions.h>

/** C = A * B, tile by tile. wA is A's width, wB is B's. Sizes are multiples of BLOCK_SIZE. */
template <int BLOCK_SIZE>
__global__ void matrixMul(float* C, float* A, float* B, int wA, int wB) {
    int bx = blockIdx.x, by = blockIdx.y;
    int tx = threadIdx.x, ty = threadIdx.y;
    int aFirst = wA * BLOCK_SIZE * by, aLast = aFirst + wA - 1;
    float sum = 0;

    for (int a = aFirst, b = BLOCK_SIZE * bx; a <= aLast; a += BLOCK_SIZE, b += BLOCK_SIZE * wB) {
        __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
        As[ty][tx] = A[a + wA * ty + tx];
        Bs[ty][tx] = B[b + wB * ty + tx];
        __syncthreads();  // the tiles are loaded
#pragma unroll
        for (int k = 0; k < BLOCK_SIZE; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[wB * BLOCK_SIZE * by + BLOCK_SIZE * bx + wB * ty + tx] = sum;
}

void ConstantInit(float* data, int size, float val) {
    for (int i = 0; i < size; ++i) data[i] = val;
}

int MatrixMultiply(int argc, char** argv, int block_size, const dim3& dimsA, const dim3& dimsB) {
    float *h_A, *d_A = nullptr, *d_B = nullptr, *d_C = nullptr;
    checkCudaErrors(cudaMallocHost(&h_A, dimsA.x * dimsA.y * sizeof(float)));
    ConstantInit(h_A, dimsA.x * dimsA.y, 1.0f);
    cudaStream_t stream;
    checkCudaErrors(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    dim3 threads(block_size, block_size);
    dim3 grid(dimsB.x / threads.x, dimsA.y / threads.y);
    if (block_size == 16) {
        matrixMul<16><<<grid, threads, 0, stream>>>(d_C, d_A, d_B, dimsA.x, dimsB.x);
    } else {
        matrixMul<32><<<grid, threads, 0, stream>>>(d_C, d_A, d_B, dimsA.x, dimsB.x);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char** argv) {
    printf("[Matrix Multiply Using CUDA] - Starting...\n");
    if (checkCmdLineFlag(argc, (const char**)argv, "help")) { exit(EXIT_SUCCESS); }
    exit(MatrixMultiply(argc, argv, 32, dim3(320, 320, 1), dim3(640, 320, 1)));
}
