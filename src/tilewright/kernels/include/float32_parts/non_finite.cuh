// Infinities and NaN among elements that are split into parts. Parts cannot represent them, and a sum with one is infinite or NaN whatever
// else is added. So who splits a factor puts up to MOST of them on a list, and 0 in their place. When a tile of D has been
// stored, its elements that such a product is part of are stored again: as the sum of these products alone.
//
//     rows of the tile      0   1   2   ...       columns     0   1   2   ...
//     first of the row's    -   7   -             of the column's   -   -   -
//     next                     7 -> 4 -> 9 -> -        elements of A's row 1, at k = list[7].k, list[4].k, list[9].k
//
// With more than MOST, or where beta is not 0 (C may be D, which was stored), all is computed in float32. A square that has such an
// element is split twice: a branch with loops in the loop over squares, even one never taken, made the compiler wait for the next
// square's loads there.
#pragma once

#include "epilogue/result.cuh"
#include "float32_parts/part_range.cuh"

// Of a tile of ROWS x COLS by THREADS threads, of which this is number `thread`.
template <int ROWS, int COLS, int THREADS>
class NonFiniteSums {
    static constexpr int NONE = 0xffff;
    static_assert(NonFinite::MOST <= NONE, "elements have numbers");

  public:
    struct Shared {
        int of_rows[ROWS], of_cols[COLS];                                         // the first of each one's elements
        unsigned short next_of_a[NonFinite::MOST], next_of_b[NonFinite::MOST];  // the next of the same row or column
        int found;                                                               // whether the tile has any
    };

    // Stores the elements of matrix `matrix` of D, from (row, col) on, that one of count_a of A and count_b of B is part of.
    // sync(): syncs all threads, which have been synced since the tile was stored.
    template <typename Operand, typename T, typename Sync>
    static __device__ __forceinline__ void store(const Operand& a, const Operand& b, unsigned count_a, unsigned count_b, int matrix,
                                                 const Result<T>& result, int row, int col, int thread, Shared& shared, const Sync& sync) {
        for (int i = thread; i < ROWS; i += THREADS) shared.of_rows[i] = NONE;
        for (int i = thread; i < COLS; i += THREADS) shared.of_cols[i] = NONE;
        if (thread == 0) shared.found = 0;
        sync();
        link(a, count_a, matrix, row, ROWS, thread, shared.of_rows, shared.next_of_a, shared.found);
        link(b, count_b, matrix, col, COLS, thread, shared.of_cols, shared.next_of_b, shared.found);
        sync();
        for (int i = thread; shared.found && i < ROWS * COLS; i += THREADS) {
            const int r = i / COLS, c = i % COLS;
            if (shared.of_rows[r] == NONE && shared.of_cols[c] == NONE || row + r >= result.m || col + c >= result.n) continue;
            float sum = 0;
            const auto add = [&](const Operand& factor, int first, const unsigned short* next) {
                for (int at = first; at != NONE && sum == sum; at = next[at]) {
                    const int k = factor.non_finite[at].now().k;
                    sum += a.at(matrix, row + r, k) * b.at(matrix, col + c, k);
                }
            };
            add(a, shared.of_rows[r], shared.next_of_a);
            add(b, shared.of_cols[c], shared.next_of_b);
            result.store(row + r, col + c, sum);
        }
        sync();  // all have read what is written anew for the next tile
    }

  private:
    template <typename Operand>
    static __device__ __forceinline__ void link(const Operand& factor, unsigned count, int matrix, int first, int sides, int thread,
                                                int* of_sides, unsigned short* next, int& found) {
        for (unsigned at = thread; at < count; at += THREADS) {
            const NonFinite one = factor.non_finite[at].now();
            const int side = one.side - first;
            if (side < 0 || side >= sides || one.matrix != (factor.matrix_stride != 0 ? matrix : 0)) continue;
            found = 1;
            next[at] = atomicExch(&of_sides[side], static_cast<int>(at));
        }
    }
};
