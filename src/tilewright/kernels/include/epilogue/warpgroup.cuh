// A warpgroup's sums (wgmma.cuh), from registers to memory. A thread stores pairs of neighbours; those of four lanes make a
// run of 16 bytes of 16-bit elements, or of 32 bytes of float32.
#pragma once

#include "epilogue/result.cuh"

// The 64 rows that a warpgroup has sums of, with element (row, col) of the result at their corner.
template <typename T, int COUNT>
__device__ __forceinline__ void store_warpgroup(const Result<T>& result, int row, int col, const float (&sums)[COUNT]) {
    const int thread = threadIdx.x % 128;
    row += thread / 32 * 16 + thread % 32 / 4;
    col += thread % 4 * 2;
    const float of_rows[] = {result.bias.of_row(row), result.bias.of_row(row + 8)};
#pragma unroll
    for (int i = 0; i < COUNT / 4; ++i) {
        const int first = col + 8 * i;
        const float of_columns[] = {result.bias.of_column(first), result.bias.of_column(first + 1)};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            result.store_pair(row + 8 * half, first, &sums[4 * i + 2 * half], of_rows[half], of_columns);
        }
    }
}
