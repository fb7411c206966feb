// Products of elements of two factors that a thread holds, loaded straight to its registers (direct_load.cuh).
#pragma once

#include "elements.cuh"

// Of integers, given as bytes: words of four along k. Where these are neighbours in memory, the compiler finds that they are words
// already.
template <typename T, typename U, int FEW, int WIDE, int FEWER, int COUNT_K>
__device__ __forceinline__ void add_held_products(int (&sums)[FEW][WIDE], int first, const int (&few)[FEWER][COUNT_K],
                                                  const int (&wide)[WIDE][COUNT_K]) {
#pragma unroll
    for (int d = 0; d < COUNT_K; d += 4) {
        int of_wide[WIDE];
#pragma unroll
        for (int j = 0; j < WIDE; ++j) of_wide[j] = word_of(&wide[j][d]);
#pragma unroll
        for (int i = 0; i < FEWER; ++i) {
            const int of_few = word_of(&few[i][d]);
#pragma unroll
            for (int j = 0; j < WIDE; ++j) sums[first + i][j] = add_byte_products<T, U>(of_few, of_wide[j], sums[first + i][j]);
        }
    }
}

// Adds the products of COUNT_K of k, of type T of FEWER of the few from `first` on, and of type U of all of the wide.
template <typename T, typename U, int FEW, int WIDE, int FEWER, int COUNT_K>
__device__ __forceinline__ void add_held_products(float (&sums)[FEW][WIDE], int first, const float (&few)[FEWER][COUNT_K],
                                                  const float (&wide)[WIDE][COUNT_K]) {
#pragma unroll
    for (int d = 0; d < COUNT_K; ++d) {
#pragma unroll
        for (int i = 0; i < FEWER; ++i) {
#pragma unroll
            for (int j = 0; j < WIDE; ++j) sums[first + i][j] += few[i][d] * wide[j][d];
        }
    }
}
