// Fault 6, after page 6: N = 1000 is right; N = 1001 ends with "misaligned address".
//
// The kernel multiplies row-major matrices of any size. A thread computes four neighbours of a row of C, and loads four
// elements of B at once where four are there.
// tilewright: block=(8,32) grid=(ceil(N/32),ceil(M/32)) tile=(32,32,32)

// C = alpha * A @ B + beta * C
__global__ void fault_06(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    const size_t row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + 4 * threadIdx.x;
    if (row >= M || col >= N) return;
    const bool four = col + 4 <= N;
    float sums[4] = {};
    for (int k = 0; k < K; ++k) {
        const float a = A[row * K + k];
        const float* b = B + (size_t)k * N + col;
        if (four) {
            const float4 loaded = *reinterpret_cast<const float4*>(b);
            sums[0] += a * loaded.x, sums[1] += a * loaded.y, sums[2] += a * loaded.z, sums[3] += a * loaded.w;
        } else {
            for (int i = 0; i < 4 && col + i < N; ++i) sums[i] += a * b[i];
        }
    }
    for (int i = 0; i < 4 && col + i < N; ++i) {
        float* c = C + row * N + col + i;
        *c = alpha * sums[i] + (beta == 0.0f ? 0.0f : beta * *c);
    }
}
