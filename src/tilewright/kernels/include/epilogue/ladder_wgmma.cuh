// The end of the kernels whose sums a warpgroup holds in registers (wgmma.cuh): C = alpha * A @ B + beta * C, straight from
// there. A thread stores pairs of neighbours; four lanes, 16 bytes of 16-bit elements, make a run in memory.
#pragma once

#include "elements.cuh"
#include "tile_io.cuh"

// Elements (row, col) and (row, col + 1) at c; col is even. Of the row `left` elements are left, from the first of the two.
template <typename T>
__device__ __forceinline__ void store_pair(T* c, int left, float alpha, const float* sums, float beta) {
    float pair[] = {alpha * sums[0], alpha * sums[1]};
    if (ALIGNED && (!EDGES || left >= 2)) {
        if (beta != 0.0f) {
            float old[2];
            load_run<2>(old, c);
            pair[0] += beta * old[0];
            pair[1] += beta * old[1];
        }
        store_run<2>(c, pair);
    } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (EDGES && i >= left) continue;
            c[i] = from_float<T>(beta == 0.0f ? pair[i] : pair[i] + beta * to_float(c[i]));
        }
    }
}

// The 64 rows that a warpgroup has sums of, with element (row, col) of the M x N matrix C at their corner.
template <typename T, int COUNT>
__device__ __forceinline__ void store_sums(T* C, int ldc, int M, int N, int row, int col, float alpha,
                                           const float (&sums)[COUNT], float beta) {
    const int thread = threadIdx.x % 128;
    row += thread / 32 * 16 + thread % 32 / 4;
    col += thread % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (EDGES && row + 8 * half >= M) continue;
        T* const c = at(C, ldc, row + 8 * half, col);
#pragma unroll
        for (int i = 0; i < COUNT / 4; ++i) store_pair(c + 8 * i, N - col - 8 * i, alpha, &sums[4 * i + 2 * half], beta);
    }
}
