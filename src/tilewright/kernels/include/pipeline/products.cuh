// The products of two fragments, added to a thread's sums, in an order that the register file can feed.
//
// By quads, in serpentine: consecutive FFMAs share a factor, which the operand cache holds, so that two registers are left
// to read, and the compiler finds them on different banks.
#pragma once

// FLOATS is ROWS; or twice as many, of complex elements: then a row of sums, a and b are (re, im) pairs, and what is added to
// a pair is ar (br, bi) + ai (-bi, br), with other signs where a factor is conjugated: an FFMA negates a factor at no cost.
template <bool CONJUGATED_A = false, bool CONJUGATED_B = false, int ROWS, int COLS, int FLOATS>
__device__ __forceinline__ void add_products(float (&sums)[ROWS][COLS], const float (&a)[FLOATS], const float (&b)[COLS]) {
    if constexpr (FLOATS == ROWS) {
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
    } else {
        static_assert(FLOATS == 2 * ROWS, "a has an element for each row");
        float re[ROWS], im[ROWS], with_re[COLS], with_im[COLS];
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            re[i] = a[2 * i];
            im[i] = a[2 * i + 1];
        }
#pragma unroll
        for (int j = 0; j < COLS; j += 2) {
            with_re[j] = b[j];
            with_re[j + 1] = CONJUGATED_B ? -b[j + 1] : b[j + 1];
            with_im[j] = CONJUGATED_A == CONJUGATED_B ? -b[j + 1] : b[j + 1];
            with_im[j + 1] = CONJUGATED_A ? -b[j] : b[j];
        }
        add_products(sums, re, with_re);
        add_products(sums, im, with_im);
    }
}
