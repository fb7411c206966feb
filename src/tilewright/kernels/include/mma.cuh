// Products of matrices by a warp, whose lanes hold factors and sums together (mma.sync; sm_80 and newer).
//
// A fragment of A is 16 x 16, one of B 16 x 8, of __half or __nv_bfloat16; their product has 16 x 8 sums, which are floats. A
// lane has words of two elements that are neighbours along k. Of lane l are
//
//     a[i]      row  l / 4 + i % 2 * 8       k       l % 4 * 2 + i / 2 * 8, and the next
//     b[i]      column  l / 4                k       l % 4 * 2 + i * 8, and the next
//     sums[i]   row  l / 4 + i / 2 * 8       column  l % 4 * 2 + i % 2
#pragma once

#include <half.cuh>  // in brackets: the emulator has one of its own

// sums += A * B, for ROWS fragments of A, one below the other, and COLS of B side by side. sums[r][4 * c + i] is sums[i] of
// fragments r and c. All lanes call it together.
template <typename T, int ROWS, int COLS, int COUNT>
__device__ __forceinline__ void multiply_fragments(float (&sums)[ROWS][COUNT], const unsigned (&a)[ROWS][4],
                                                   const unsigned (&b)[COLS][2]) {
    static_assert(COUNT == 4 * COLS, "a lane has four sums of a product");
#define MMA(TYPE)                                                                                                        \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "                                                   \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                                            \
        : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])                                                         \
        : "r"(a[r][0]), "r"(a[r][1]), "r"(a[r][2]), "r"(a[r][3]), "r"(b[c][0]), "r"(b[c][1]), "f"(sum[0]), "f"(sum[1]),  \
          "f"(sum[2]), "f"(sum[3]))  /* sums that are 0 take no registers so */
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
            float* const sum = &sums[r][4 * c];
            if constexpr (IS_BFLOAT16<T>) {
                MMA("bf16");
            } else {
                MMA("f16");
            }
        }
    }
#undef MMA
}
