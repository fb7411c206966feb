// What a library kernel is launched with: sizes, factors, the result and memory that blocks share.
//
//   D[i] = activation(alpha * A[i] @ B[i] + beta * C[i] + bias)      A[i] is m x k, B[i] k x n, D[i] m x n;  0 <= i < batch
//
// The engine sets the macros that a problem decides:
//   FACTOR, FACTOR_B, RESULT  element type of A, of B (another of 8 bits, else FACTOR), and of C, D and the bias (elements.cuh)
//   TRANSPOSED_A, _B          0: the matrix is row-major. 1: column-major, so memory holds rows of its transpose
//   EDGES                     1: some tile reaches past a matrix. Accesses are bounds-checked; elements outside count as 0
//   ALIGNED                   1: every row of A, B, C and D in memory starts at a multiple of 16 bytes,
//                             and where the copy engine stores D, its rows end at one
//   BIAS, ACTIVATION          see epilogue/
// Field order and alignment are those of C: the engines write these structs from Python.
#pragma once

#include "elements.cuh"

struct Sizes {
    int m, n, k, batch;
    int whole;           // tiles with a block of their own
    int workers;         // blocks that share the other tiles; 0: none
    int share, longer;   // steps along k of a worker, and how many have one more
    int step_a, step_b;  // 1 where the factor has a matrix for each of the batch, 0 where one serves all
};

// Of the factors of D^T = B^T A^T.
__device__ __forceinline__ Sizes swapped(Sizes sizes) {
    return {sizes.n,       sizes.m,     sizes.k,      sizes.batch,  sizes.whole,
            sizes.workers, sizes.share, sizes.longer, sizes.step_b, sizes.step_a};
}

template <typename T>
struct Factor {
    const T* data;
    long long batch_stride;  // elements from one matrix of the batch to the next
    int ld;                  // elements from one row in memory to the next

    __device__ __forceinline__ const T* matrix(int i) const { return data + i * batch_stride; }
};

// One of two values, which may be of different types.
template <bool FIRST, typename T, typename U>
__device__ __forceinline__ auto either(const T& first, const U& second) {
    if constexpr (FIRST) {
        return first;
    } else {
        return second;
    }
}

// C and D are row-major; C may be D, and is not read where beta = 0. The bias has one value a column or one a row.
template <typename T>
struct Output {
    T* D;
    const T* C;
    const T* bias;
    long long batch_stride_d, batch_stride_c;
    int ldd, ldc;
    float alpha, beta;
};

// Scales of A and B, by which products are multiplied: one for `rows` rows of A, or `cols` columns of B, and each 128 of k. Those of
// all rows, of all columns or of all k are one where the step to the next is 0. Null where there are none.
struct Scales {
    const float *a, *b;
    int step_a, step_k_a, rows;  // from one to the next, in elements
    int step_b, step_k_b, cols;
};

// Of the factors of D^T = B^T A^T.
__device__ __forceinline__ Scales swapped(const Scales& scales) {
    return {scales.b, scales.a, scales.step_b, scales.step_k_b, scales.cols, scales.step_a, scales.step_k_a, scales.rows};
}

struct Workspace {
    float* sums;        // partial sums on their way from one block to another
    unsigned* counters;  // counters; 0 before and after a launch
};

// How far along k products are summed: nowhere where alpha = 0, so that A and B are not read.
template <typename T>
__device__ __forceinline__ int depth_of(const Sizes& sizes, const Output<T>& output) {
    return output.alpha == 0.0f ? 0 : sizes.k;
}
