// The products of two fragments, added to a thread's sums, in an order that the register file can feed.
//
// By quads, in serpentine: consecutive FFMAs share a factor, which the operand cache holds, so that two registers are left
// to read, and the compiler finds them on different banks.
#pragma once

template <int ROWS, int COLS>
__device__ __forceinline__ void add_products(float (&sums)[ROWS][COLS], const float (&a)[ROWS], const float (&b)[COLS]) {
#pragma unroll
    for (int j = 0; j < COLS; j += 4) {
#pragma unroll
        for (int turn = 0; turn < ROWS; ++turn) {
            const int i = j / 4 % 2 ? ROWS - 1 - turn : turn;
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int col = j + (turn % 2 ? 3 - q : q);
                if (col < COLS) sums[i][col] += a[i] * b[col];
            }
        }
    }
}
