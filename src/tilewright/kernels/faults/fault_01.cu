// Fault 1, after page 1: some elements of C are wrong, and others in the next run; on 1024 x 1024 all is right.
//
// The kernel multiplies row-major matrices of any size: a thread computes an element of C. Blocks reach past the last row
// and the last column where M or N is no multiple of 16. On 1000 x 1000, elements of C change from run to run.
// tilewright: block=(16,16) grid=(ceil(N/16),ceil(M/16))

// C = alpha * A @ B + beta * C
__global__ void fault_01(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    const size_t row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row > M || col > N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[(size_t)k * N + col];
    C[row * N + col] = alpha * sum + (beta == 0.0f ? 0.0f : beta * C[row * N + col]);
}
