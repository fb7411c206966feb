// A tile of a product of float32 factors on CUDA cores, for factors whose terms tensor cores cannot multiply (term_range.cuh). A
// and B are read in place, whichever their order and alignment:
//
//   copies        | 0 | 1 |   2   |   3   |   4   | ...     each a part of A and of B
//   multiply          |   |   0   |   1   |   2   | ...     every thread: quads of rows, and as many columns together as divide
//
// In shared memory a factor's elements at one k are neighbours. Memory has neighbours along k or across it: the first go there as 8
// of k by 4 sides by a warp, which the odd number of quads in a line puts on distinct banks.
#pragma once

#include <async_copy.cuh>

#include "epilogue/result.cuh"
#include "products.cuh"
#include "relayout_square.cuh"

// A factor in memory from the tile's first row (or column) on, as is a copy's origin.
struct InPlace {
    const float* data;
    long long side, k;  // elements from one row of A (column of B) to the next, and from one k to the next
    int sides;          // rows (or columns)

    template <typename Term>
    __device__ __forceinline__ InPlace(const Copy<float, Term>& copy, int matrix, int first) {
        const bool lines_along_k = copy.along_k != copy.across;
        side = lines_along_k ? copy.ld_from : 1;
        k = lines_along_k ? 1 : copy.ld_from;
        data = copy.from + matrix * copy.matrix_stride + first * side;
        sides = (copy.along_k ? copy.lines : copy.length) - first;
    }
};

// A tile of ROWS x COLS by THREADS threads, of which this is number `thread`.
template <int ROWS, int COLS, int THREADS>
class Float32Tile {
    static constexpr int DEPTH = 16, PARTS = 3;  // of k; in shared memory or on their way
    static constexpr int ACROSS = COLS % 16 == 0 ? 16 : 8, DOWN = THREADS / ACROSS;  // threads along a row of D, and a column
    static constexpr int ROWS_EACH = ROWS / DOWN, COLS_EACH = COLS / ACROSS;
    static constexpr int TOGETHER = COLS_EACH % 4 == 0 ? 4 : COLS_EACH % 2 == 0 ? 2 : 1;
    static_assert(ROWS_EACH % 4 == 0 && COLS % ACROSS == 0, "a thread has whole quads of rows, and whole columns");

    template <int SIDES>
    using Part = float[DEPTH][SIDES + 4];

  public:
    struct Shared {
        __align__(16) Part<ROWS> A[PARTS];
        __align__(16) Part<COLS> B[PARTS];
    };

    // Computes the tile at (row, col). sync(): lets the threads meet; they have met before.
    template <typename T, typename Sync>
    static __device__ __forceinline__ void compute(const InPlace& a, const InPlace& b, int depth, const Result<T>& result, int row,
                                                int col, int thread, Shared& shared, Sync& sync) {
        const int steps = (depth + DEPTH - 1) / DEPTH;
        const auto load = [&](int step) {
            if (step < steps) {
                start<ROWS>(a, step * DEPTH, depth, thread, shared.A[step % PARTS]);
                start<COLS>(b, step * DEPTH, depth, thread, shared.B[step % PARTS]);
            }
            commit_copies();
        };
        for (int step = 0; step < PARTS - 1; ++step) load(step);
        const int down = thread / ACROSS * 4, across = thread % ACROSS * TOGETHER;
        float sums[ROWS_EACH][COLS_EACH] = {};
        for (int step = 0; step < steps; ++step) {
            wait_copies<PARTS - 2>();
            sync();  // this step's parts have come for all, and all have read those of the step before
            load(step + PARTS - 1);
            const Part<ROWS>& of_a = shared.A[step % PARTS];
            const Part<COLS>& of_b = shared.B[step % PARTS];
#pragma unroll 4
            for (int k = 0; k < DEPTH; ++k) {
                float rows[ROWS_EACH], cols[COLS_EACH];
#pragma unroll
                for (int i = 0; i < ROWS_EACH; i += 4) load_four(&rows[i], &of_a[k][i * DOWN + down]);
#pragma unroll
                for (int j = 0; j < COLS_EACH; j += TOGETHER) load_run<TOGETHER>(&cols[j], &of_b[k][j * ACROSS + across]);
                if constexpr (TOGETHER == 4) {
                    add_products(sums, rows, cols);
                } else {
#pragma unroll
                    for (int i = 0; i < ROWS_EACH; ++i) {
#pragma unroll
                        for (int j = 0; j < COLS_EACH; ++j) sums[i][j] += rows[i] * cols[j];
                    }
                }
            }
        }
        sync();  // all have read the last parts
#pragma unroll
        for (int i = 0; i < ROWS_EACH; ++i) {
            const int at_row = row + i / 4 * 4 * DOWN + down + i % 4;
#pragma unroll
            for (int j = 0; j < COLS_EACH; j += TOGETHER) {
                const int at_col = col + j * ACROSS + across;
                if constexpr (TOGETHER == 4) {
                    result.store_quad(at_row, at_col, &sums[i][j]);
                } else {
#pragma unroll
                    for (int of = 0; of < TOGETHER; ++of) result.store(at_row, at_col + of, sums[i][j + of]);
                }
            }
        }
    }

  private:
    // Starts to copy SIDES rows (or columns) of a factor, DEPTH of k from `k` on, those of `depth`.
    template <int SIDES>
    static __device__ __forceinline__ void start(const InPlace& from, int k, int depth, int thread, Part<SIDES>& to) {
        constexpr int TIMES = SIDES * DEPTH / THREADS;
        const auto copy = [&](int side, int at) {
            copy_async<4>(&to[at][side], from.data + side * from.side + (k + at) * from.k,
                          side < from.sides && k + at < depth);
        };
        if (from.k == 1) {
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
                const int warp = (i * THREADS + thread) / 32, lane = thread % 32;
                copy(warp % (SIDES / 4) * 4 + lane / 8, warp / (SIDES / 4) * 8 + lane % 8);
            }
        } else {
#pragma unroll
            for (int i = 0; i < TIMES; ++i) copy((i * THREADS + thread) % SIDES, (i * THREADS + thread) / SIDES);
        }
    }
};
