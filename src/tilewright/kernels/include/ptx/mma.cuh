// Products of matrices by a warp, whose lanes hold factors and sums together (mma.sync; sm_80 and newer).
//
// A fragment of A has 16 rows, one of B 8 columns, and both 32 bytes of k: 16 elements of __half or __nv_bfloat16; 8 floats, of
// which the tensor cores look at TF32's bits alone, the first 19; or 32 elements of 8 bits, each factor of one of the two floating-point
// types (sm_89 and newer), or of the two of integers. Their product has 16 x 8 sums: floats, of integers ints. A lane has words of elements that are neighbours along k. Of
// lane l are
//
//     a[i]      row  l / 4 + i % 2 * 8       bytes along k  l % 4 * 4 + i / 2 * 16, and the next three
//     b[i]      column  l / 4                bytes along k  l % 4 * 4 + i * 16, and the next three
//     sums[i]   row  l / 4 + i / 2 * 8       column  l % 4 * 2 + i % 2
#pragma once

#include "ptx/factor_names.cuh"
#include "ptx/float8.cuh"
#include "ptx/half.cuh"

// sums += A * B, for ROWS fragments of A, one below the other, and COLS of B side by side. sums[r][4 * c + i] is sums[i] of
// fragments r and c. T, U: element types of A and of B. All lanes call it together.
template <typename T, typename U = T, int ROWS, int COLS, int COUNT>
__device__ __forceinline__ void multiply_fragments(float (&sums)[ROWS][COUNT], const unsigned (&a)[ROWS][4],
                                                   const unsigned (&b)[COLS][2]) {
    static_assert(COUNT == 4 * COLS, "a lane has four sums of a product");
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
            float* const sum = &sums[r][4 * c];
            asm("mma.sync.aligned.m16n8k%14.row.col.f32.%15.%16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                : "r"(a[r][0]), "r"(a[r][1]), "r"(a[r][2]), "r"(a[r][3]), "r"(b[c][0]), "r"(b[c][1]), "f"(sum[0]), "f"(sum[1]),
                  "f"(sum[2]), "f"(sum[3]),  // sums that are 0 take no registers so
                  "C"(FactorNames<T>::K), "C"(FactorNames<T>::TYPE), "C"(FactorNames<U>::TYPE));
        }
    }
}

// The same of integers.
template <typename T, typename U = T, int ROWS, int COLS, int COUNT>
__device__ __forceinline__ void multiply_fragments(int (&sums)[ROWS][COUNT], const unsigned (&a)[ROWS][4],
                                                   const unsigned (&b)[COLS][2]) {
    static_assert(COUNT == 4 * COLS, "a lane has four sums of a product");
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
            int* const sum = &sums[r][4 * c];
            asm("mma.sync.aligned.m16n8k32.row.col.s32.%14.%15.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                : "=r"(sum[0]), "=r"(sum[1]), "=r"(sum[2]), "=r"(sum[3])
                : "r"(a[r][0]), "r"(a[r][1]), "r"(a[r][2]), "r"(a[r][3]), "r"(b[c][0]), "r"(b[c][1]), "r"(sum[0]), "r"(sum[1]),
                  "r"(sum[2]), "r"(sum[3]), "C"(FactorNames<T>::TYPE), "C"(FactorNames<U>::TYPE));
        }
    }
}

// The bits of a float, of which those of TF32 are rounded to nearest, and of two that are equally near away from zero.
__device__ __forceinline__ unsigned round_to_tf32(unsigned bits) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "r"(bits));
    return rounded;
}
