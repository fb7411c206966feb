// For tests of the autotuner: a right kernel, and the ways in which one can be bad, by FAULT.

#if FAULT == 1
#error "planted: does not compile"
#endif

extern "C" __global__ void planted(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                                   float beta, float* C, int ldc) {
#if FAULT == 3
    const volatile float* number = A;  // in memory that others could write: no compiler may see through the loop
    while (blockIdx.x == 0 && *number == *number) {  // in one block, which takes one core
    }
#endif
    const int tiles_n = (N + BLOCK - 1) / BLOCK;
    const int row = blockIdx.x / tiles_n * BLOCK + threadIdx.x / BLOCK;
    const int col = blockIdx.x % tiles_n * BLOCK + threadIdx.x % BLOCK;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K - (FAULT == 2); ++k) sum += A[(long long)row * lda + k] * B[(long long)k * ldb + col];
    for (int turn = 1; turn < SLOW; ++turn) {
        const volatile float* again = A + (long long)row * lda;  // in memory that others could write: read every time
        for (int k = 0; k < K; ++k) sum += 0 * again[k];
    }
#if FAULT == 4
    *(volatile float*)(BLOCK - 8) = sum;  // BLOCK is 8: the null address
#endif
    C[(long long)row * ldc + col] = alpha * sum + (beta != 0 ? beta * C[(long long)row * ldc + col] : 0);
}
