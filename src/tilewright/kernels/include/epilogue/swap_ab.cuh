// A warpgroup's sums, from registers to memory, where A_IN_REGISTERS: a thread's two rows are neighbours (register_operand.cuh), of D, or
// where SWAP_AB of D^T. Then they are columns of D, and a warp stores 32 bytes in a row twice, of each of 4 rows of D, of 32-bit
// elements.
#pragma once

#include "epilogue/warpgroup.cuh"
#include "ptx/keep.cuh"

// 64 rows of the sums, with element (row, col) of the product at their corner. own: this thread's first row.
// biases: of the columns of D (warp_biases.cuh).
template <typename T, int COUNT, typename Biases>
__device__ __forceinline__ void store_product(const Result<T>& result, int row, int col, int own, const Number<T> (&sums)[COUNT],
                                              const Biases& biases) {
    if constexpr (!SWAP_AB) {
        row += own;
        const Number<T> of_rows[] = {result.bias.of_row(row), result.bias.of_row(row + 1)};
        store_pairs<1>(result, row, col, sums, of_rows, biases);
    } else {
        const int of_d = row + own;  // column
        const Number<T> of_columns[] = {result.bias.of_column(of_d), result.bias.of_column(of_d + 1)};
#pragma unroll
        for (int i = 0; i < COUNT / 2; ++i) {
            keep(col);
            const int at = i / 2 * 4 + i % 2, at_row = col + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
            const Number<T> pair[] = {sums[at], sums[at + 2]};
            result.store_pair(at_row, of_d, pair, result.bias.of_row(at_row), of_columns);
        }
    }
}
