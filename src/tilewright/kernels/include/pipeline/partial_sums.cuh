// Partial sums that THREADS threads hand over through memory: the first sum of every thread, then the second, ...
#pragma once

// Stores a thread's sums; `to` is the thread's element of the first THREADS.
template <int THREADS, int ROWS, int COLS>
__device__ __forceinline__ void store_sums(const float (&sums)[ROWS][COLS], float* to) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        // One by one: a float4 needs neighbouring registers, on the banks that the multiply-adds need for other factors.
#pragma unroll
        for (int j = 0; j < COLS; ++j) to[(i * COLS + j) * THREADS] = sums[i][j];
    }
}

// Loads what a thread stored in place of this thread's sums.
template <int THREADS, int ROWS, int COLS>
__device__ __forceinline__ void load_sums(float (&sums)[ROWS][COLS], const float* from) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) sums[i][j] = from[(i * COLS + j) * THREADS];
    }
}

// Adds what a thread stored to this thread's sums.
template <int THREADS, int ROWS, int COLS>
__device__ __forceinline__ void add_sums(float (&sums)[ROWS][COLS], const float* from) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) sums[i][j] += from[(i * COLS + j) * THREADS];
    }
}
