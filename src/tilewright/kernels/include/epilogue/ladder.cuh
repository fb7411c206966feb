// The end of every kernel: C = alpha * A @ B + beta * C, for the sums of A @ B that a thread holds in registers.
#pragma once

#include "tile_io.cuh"

// With beta = 0 the old value is not even read, so that a NaN in it cannot survive.
__device__ __forceinline__ float blend(float alpha, float sum, float beta, const float* old) {
    return beta == 0.0f ? alpha * sum : alpha * sum + beta * *old;
}

// Element (row, col) of the M x N matrix C.
__device__ __forceinline__ void store(float* C, int ldc, int M, int N, int row, int col, float alpha, float sum,
                                      float beta) {
    if (EDGES && (row >= M || col >= N)) return;
    float* c = at(C, ldc, row, col);
    *c = blend(alpha, sum, beta, c);
}

// Elements (row, col) to (row, col + 3); col is a multiple of 4.
__device__ __forceinline__ void store4(float* C, int ldc, int M, int N, int row, int col, float alpha,
                                       const float* sums, float beta) {
    if (EDGES && row >= M) return;
    float* c = at(C, ldc, row, col);
    if (ALIGNED && (!EDGES || col + 4 <= N)) {
        float4 four = make_float4(alpha * sums[0], alpha * sums[1], alpha * sums[2], alpha * sums[3]);
        if (beta != 0.0f) {
            const float4 old = *reinterpret_cast<const float4*>(c);
            four.x += beta * old.x;
            four.y += beta * old.y;
            four.z += beta * old.z;
            four.w += beta * old.w;
        }
        *reinterpret_cast<float4*>(c) = four;
    } else {
        // One check of the row for four elements: with one each, the compiler gathers all old values first, and spills.
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (!EDGES || col + i < N) c[i] = blend(alpha, sums[i], beta, c + i);
        }
    }
}
