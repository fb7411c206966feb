// Sums that one group of PART threads has and another needs, in memory: the first of every thread, then the second, ...
#pragma once

// Leaves a thread's sums; `place` is its element of the first PART.
template <int PART, int ROWS, int COLS>
__device__ __forceinline__ void leave_sums(const float (&sums)[ROWS][COLS], float* place) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        // One by one: as vectors they would have to lie in neighbouring registers, on the banks that the multiply-adds
        // need for their other factors.
#pragma unroll
        for (int j = 0; j < COLS; ++j) place[(i * COLS + j) * PART] = sums[i][j];
    }
}

// Takes what a thread left for this one's sums.
template <int PART, int ROWS, int COLS>
__device__ __forceinline__ void take_sums(float (&sums)[ROWS][COLS], const float* place) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) sums[i][j] = place[(i * COLS + j) * PART];
    }
}

// Adds what a thread left to this one's sums.
template <int PART, int ROWS, int COLS>
__device__ __forceinline__ void add_sums(float (&sums)[ROWS][COLS], const float* place) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) sums[i][j] += place[(i * COLS + j) * PART];
    }
}
