// A tile of a product of float32 factors on CUDA cores, for factors whose terms tensor cores cannot multiply (term_range.cuh). A
// and B are read in place, whichever their order and alignment:
//
//   copies        | 0 | 1 |   2   |   3   |   4   | ...     each a part of A and of B
//   multiply          |   |   0   |   1   |   2   | ...     every thread: runs of up to 4 rows, and of columns
//
// In shared memory a factor's elements at one k are neighbours. Memory has neighbours along k or across it: the first go there as 8
// of k by 4 sides by a warp, which the odd number of quads in a line puts on distinct banks; the second by quads, where they are
// aligned.
#pragma once

#include <async_copy.cuh>

#include "elements.cuh"
#include "epilogue/result.cuh"
#include "products.cuh"
#include "relayout_square.cuh"

// A factor in memory from the tile's first row (or column) on, as is a copy's origin.
struct InPlace {
    const float* data;
    long long ld;  // elements from one line to the next
    int sides;     // rows (or columns)
    bool along_k;  // whether lines run along k
    bool aligned;  // whether lines start at multiples of 16 bytes

    template <typename Term>
    __device__ __forceinline__ InPlace(const Copy<float, Term>& copy, int matrix, int first) {
        along_k = copy.along_k != copy.across;
        ld = copy.ld_from;
        data = copy.from + matrix * copy.matrix_stride + first * (along_k ? ld : 1);
        sides = (copy.along_k ? copy.lines : copy.length) - first;
        aligned = (reinterpret_cast<unsigned long long>(data) / sizeof(float) | ld) % 4 == 0;
    }

    // sides: of the whole factor.
    __device__ __forceinline__ InPlace(const Factor<float>& factor, int matrix, int first, int sides, bool along_k)
        : data(factor.matrix(matrix) + first * (along_k ? static_cast<long long>(factor.ld) : 1)),
          ld(factor.ld),
          sides(sides - first),
          along_k(along_k),
          aligned((reinterpret_cast<unsigned long long>(data) / sizeof(float) | ld) % 4 == 0) {}
};

// What one of THREADS threads, number `thread`, copies of a factor: parts of SIDES rows (or columns) and DEPTH of k.
template <int SIDES, int DEPTH, int THREADS>
class PartCopies {
  public:
    using Part = float[DEPTH][SIDES + 4];

    __device__ __forceinline__ PartCopies(const InPlace& from, int thread) : from(from), thread(thread), next(from.data) {
        if (from.along_k) {
            next += Way<true, 1>::line(thread) * from.ld + Way<true, 1>::element(thread);
        } else if (from.aligned) {
            next += Way<false, 4>::line(thread) * from.ld + Way<false, 4>::element(thread);
        } else {
            next += Way<false, 1>::line(thread) * from.ld + Way<false, 1>::element(thread);
        }
    }

    // Starts to copy the next part, of which the factor has `depth` of k or more.
    __device__ __forceinline__ void start(Part& to, int depth) {
        if (from.along_k) {
            copy<true, 1>(to, depth);
        } else if (from.aligned) {
            copy<false, 4>(to, depth);
        } else {
            copy<false, 1>(to, depth);
        }
        next += from.along_k ? DEPTH : DEPTH * from.ld;
    }

  private:
    // Memory's lines, by pieces of WIDTH elements: LANES threads copy a line's neighbours.
    template <bool ALONG_K, int WIDTH>
    struct Way {
        static constexpr int LENGTH = ALONG_K ? DEPTH : SIDES, COUNT = ALONG_K ? SIDES : DEPTH;
        static constexpr int PIECES = LENGTH / WIDTH;
        static constexpr int LANES = ALONG_K || PIECES <= 8 ? 8 : PIECES <= 16 ? 16 : 32;
        static constexpr int TOGETHER = THREADS / LANES;  // lines

        static __device__ __forceinline__ int line(int thread) { return thread / LANES; }
        static __device__ __forceinline__ int element(int thread) { return thread % LANES * WIDTH; }
    };

    template <bool ALONG_K, int WIDTH>
    __device__ __forceinline__ void copy(Part& to, int depth) {
        using By = Way<ALONG_K, WIDTH>;
        const int first_line = By::line(thread), first = By::element(thread);
        const int lines = ALONG_K ? from.sides : depth, length = ALONG_K ? depth : from.sides;
        const float* at = next;
#pragma unroll
        for (int i = 0; i < By::COUNT; i += By::TOGETHER) {
            const int line = first_line + i;
#pragma unroll
            for (int j = 0; j < By::LENGTH; j += By::LANES * WIDTH) {
                const int element = first + j;
                const bool in_part = (By::COUNT % By::TOGETHER == 0 || line < By::COUNT) &&
                                     (By::PIECES % By::LANES == 0 || element < By::LENGTH);
                if (!in_part) continue;
                float* const into = ALONG_K ? &to[element][line] : &to[line][element];
                const int inside = !EDGES ? WIDTH : line < lines ? min(length - element, WIDTH) : 0;
                if constexpr (WIDTH == 4) {
                    copy_async_first(into, at + j, max(inside, 0) * static_cast<int>(sizeof(float)));
                } else {
                    copy_async<4>(into, at + j, inside > 0);
                }
            }
            at += By::TOGETHER * from.ld;
        }
    }

    const InPlace from;
    const int thread;
    const float* next;  // the thread's first element of the next part
};

// A tile of ROWS x COLS by THREADS threads, of which this is number `thread`.
template <int ROWS, int COLS, int THREADS>
class Float32Tile {
    static constexpr int DEPTH = 16, PARTS = 3;    // of k; in shared memory or on their way
    static constexpr int STEPS_TOGETHER = 16;  // sums begin anew after these, so that errors of long ones stay small
    // Threads along a row of D, and along a column; those of a warp are 8 and 4.
    static constexpr int ACROSS = COLS % 16 == 0 ? 16 : 8, DOWN = THREADS / ACROSS;
    static constexpr int ROWS_EACH = ROWS / DOWN, COLS_EACH = COLS / ACROSS;
    static_assert(ROWS % DOWN == 0 && COLS % ACROSS == 0, "a thread has whole rows and columns");

    using CopiesOfA = PartCopies<ROWS, DEPTH, THREADS>;
    using CopiesOfB = PartCopies<COLS, DEPTH, THREADS>;

  public:
    struct Shared {
        __align__(16) typename CopiesOfA::Part A[PARTS];
        __align__(16) typename CopiesOfB::Part B[PARTS];
    };

    // Computes the tile at (row, col). sync(): lets the threads meet; they have met before.
    template <typename T, typename Sync>
    static __device__ __forceinline__ void compute(const InPlace& a, const InPlace& b, int depth, const Result<T>& result, int row,
                                                   int col, int thread, Shared& shared, Sync& sync) {
        CopiesOfA of_a(a, thread);
        CopiesOfB of_b(b, thread);
        const int steps = (depth + DEPTH - 1) / DEPTH;
        const auto load = [&](int step) {
            if (step < steps) {
                of_a.start(shared.A[step % PARTS], depth - step * DEPTH);
                of_b.start(shared.B[step % PARTS], depth - step * DEPTH);
            }
            commit_copies();
        };
        for (int step = 0; step < PARTS - 1; ++step) load(step);
        const int lane = thread % 32, warp = thread / 32;
        const int across = warp % (ACROSS / 8) * 8 + lane % 8, down = warp / (ACROSS / 8) * 4 + lane / 8;
        float totals[ROWS_EACH][COLS_EACH] = {}, sums[ROWS_EACH][COLS_EACH] = {};  // these of STEPS_TOGETHER steps
        float rows[2][ROWS_EACH] = {}, cols[2][COLS_EACH] = {};  // fragments of an even k and of an odd one
        for (int step = 0; step < steps; ++step) {
            wait_copies<PARTS - 2>();
            sync();  // this step's parts have come for all, and all have read those of the step before
            load(step + PARTS - 1);
            const auto& part_of_a = shared.A[step % PARTS];
            const auto& part_of_b = shared.B[step % PARTS];
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) {
                add_products(sums, rows[(k + 1) % 2], cols[(k + 1) % 2]);  // of the k before
                load_fragment<DOWN>(rows[k % 2], part_of_a[k], down);
                load_fragment<ACROSS>(cols[k % 2], part_of_b[k], across);
            }
            if (step % STEPS_TOGETHER == STEPS_TOGETHER - 1) take_over(totals, sums);
        }
        add_products(sums, rows[1], cols[1]);
        take_over(totals, sums);
        sync();  // all have read the last parts
#pragma unroll
        for (int i = 0; i < ROWS_EACH; ++i) {
            const int at_row = row + side<ROWS_EACH, DOWN>(i, down);
#pragma unroll
            for (int j = 0; j < COLS_EACH; j += run(j, COLS_EACH)) {
                const int at_col = col + side<COLS_EACH, ACROSS>(j, across);
                if (run(j, COLS_EACH) == 4) {
                    result.store_quad(at_row, at_col, &totals[i][j]);
                } else {
#pragma unroll
                    for (int of = 0; of < run(j, COLS_EACH); ++of) result.store(at_row, at_col + of, totals[i][j + of]);
                }
            }
        }
    }

  private:
    // Adds sums to totals, and begins them anew.
    static __device__ __forceinline__ void take_over(float (&totals)[ROWS_EACH][COLS_EACH], float (&sums)[ROWS_EACH][COLS_EACH]) {
#pragma unroll
        for (int i = 0; i < ROWS_EACH; ++i) {
#pragma unroll
            for (int j = 0; j < COLS_EACH; ++j) {
                totals[i][j] += sums[i][j];
                sums[i][j] = 0.0f;
            }
        }
    }

    // How many neighbours a thread's side i is the first of, if it has `count` sides: quads, then a pair, then one.
    static constexpr __device__ __forceinline__ int run(int i, int count) { return count - i >= 4 ? 4 : count - i >= 2 ? 2 : 1; }

    // Where the side i of a thread is, number `thread` of ALONG, if each has COUNT.
    template <int COUNT, int ALONG>
    static __device__ __forceinline__ int side(int i, int thread) {
        const int first = i - i % 4, in_run = (i - first) % run(first, COUNT);
        return (i - in_run) * ALONG + thread * run(i - in_run, COUNT) + in_run;
    }

    template <int ALONG, int COUNT, int LINE>
    static __device__ __forceinline__ void load_fragment(float (&to)[COUNT], const float (&from)[LINE], int thread) {
#pragma unroll
        for (int i = 0; i < COUNT; i += run(i, COUNT)) {
            const float* const at = &from[side<COUNT, ALONG>(i, thread)];
            if (run(i, COUNT) == 4) {
                load_run<4>(&to[i], at);
            } else if (run(i, COUNT) == 2) {
                load_run<2>(&to[i], at);
            } else {
                to[i] = *at;
            }
        }
    }
};
