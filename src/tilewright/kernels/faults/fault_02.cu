// Fault 2, after page 2: right on every shape, and much slower than another kernel with the same instructions.
//
// The kernel multiplies row-major matrices of any size: a thread computes an element of C. The result is right. The
// profiler says that a load of B takes a sector of 32 bytes for each lane, and a store of C too.
// `tilewright explain` counts them.
// tilewright: block=(32,8) grid=(ceil(N/32),ceil(M/32)) tile=(32,32,32)

// C = alpha * A @ B + beta * C. A block computes 32 x 32 elements of C, a thread four of them.
__global__ void fault_02(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    for (int i = 0; i < 4; ++i) {
        const size_t row = blockIdx.y * 32 + threadIdx.x;
        const size_t col = blockIdx.x * 32 + threadIdx.y + 8 * i;
        if (row >= M || col >= N) continue;
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[(size_t)k * N + col];
        C[row * N + col] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
    }
}
