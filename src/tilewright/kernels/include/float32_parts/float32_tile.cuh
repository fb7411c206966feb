// A tile of a product of float32 factors on CUDA cores, for factors whose parts tensor cores cannot multiply (part_range.cuh), from
// parts of A and of B in shared memory (part_copies.cuh). Sums begin anew every 256 of k, so that errors of long ones stay small.
//
// A thread has runs of rows and of columns, quads where there are as many, and fragments of two k: those of the next are loaded
// while the products of one are added. A warp has 8 threads along a row of D and 4 along a column, neighbours in pairs along a
// column: shared memory serves half a warp at a time where lanes want the same as their neighbour, or as the one after it.
#pragma once

#include "elements.cuh"
#include "epilogue/result.cuh"
#include "float32_parts/part_copies.cuh"
#include "pipeline/products.cuh"

// A tile of ROWS x COLS by THREADS threads, of which this is number `thread`. Parts have DEPTH of k, of which each of SLICES groups
// of threads multiplies its share.
template <int ROWS, int COLS, int THREADS, int DEPTH, int SLICES = 1>
class Float32Tile {
    static constexpr int SLICE_THREADS = THREADS / SLICES, SLICE = DEPTH / SLICES;
    static constexpr int UNROLL = 8;                    // of k
    static constexpr int STEPS_TOGETHER = 256 / DEPTH;  // whose products are added up
    // Threads of a slice along a row of D, and along a column: 8 rows a thread where that leaves whole columns.
    static constexpr int WIDE = ROWS % 8 == 0 ? SLICE_THREADS / (ROWS / 8) : 0;
    static constexpr bool BY_EIGHT = WIDE > 0 && WIDE % 8 == 0 && COLS % WIDE == 0;
    static constexpr int ACROSS = BY_EIGHT ? WIDE : COLS % 16 == 0 ? 16 : 8, DOWN = SLICE_THREADS / ACROSS;
    static constexpr int ROWS_EACH = ROWS / DOWN, COLS_EACH = COLS / ACROSS;
    static constexpr int KEPT = ROWS_EACH / SLICES;  // rows of a thread whose results it stores
    static_assert(ROWS % DOWN == 0 && COLS % ACROSS == 0 && ACROSS % 8 == 0, "a thread has whole rows and columns");
    static_assert(SLICES <= 2 && ROWS_EACH % SLICES == 0, "two slices store half of the rows each");

  public:
    struct Part {
        __align__(16) float A[DEPTH][ROWS + 4];
        __align__(16) float B[DEPTH][COLS + 4];
    };
    // What slices add up for each other.
    using SliceSums = float[SLICES > 1 ? SLICES * KEPT * COLS_EACH : 1][SLICES > 1 ? SLICE_THREADS : 1];

    // Computes the tile at (row, col). begin(): returns the next part, when it has come for this thread; end(): this thread has read
    // it. sync(): syncs all threads.
    template <typename T, typename Begin, typename End, typename Sync>
    static __device__ __forceinline__ void compute(int depth, const Result<T>& result, int row, int col, int thread, SliceSums& shared,
                                                   const Begin& begin, const End& end, const Sync& sync) {
        const int slice = SLICES > 1 ? thread / SLICE_THREADS : 0, warp = thread % SLICE_THREADS / 32, lane = thread % 32;
        const int across = warp % (ACROSS / 8) * 8 + lane / 2 % 8;
        const int down = warp / (ACROSS / 8) * 4 + lane / 16 * 2 + lane % 2;
        float totals[ROWS_EACH][COLS_EACH] = {}, sums[ROWS_EACH][COLS_EACH] = {};  // these of STEPS_TOGETHER steps
        float rows[2][ROWS_EACH] = {}, cols[2][COLS_EACH] = {};                    // fragments of an even k and of an odd one
        const int steps = (depth + DEPTH - 1) / DEPTH;
        for (int step = 0; step < steps; ++step) {
            const Part& part = begin();
#pragma unroll 1
            for (int first = slice * SLICE; first < (slice + 1) * SLICE; first += UNROLL) {
                const auto& of_a = *reinterpret_cast<const float(*)[UNROLL][ROWS + 4]>(part.A[first]);
                const auto& of_b = *reinterpret_cast<const float(*)[UNROLL][COLS + 4]>(part.B[first]);
#pragma unroll
                for (int k = 0; k < UNROLL; ++k) {
                    add_products(sums, rows[(k + 1) % 2], cols[(k + 1) % 2]);  // of the k before
                    load_fragment<DOWN>(rows[k % 2], of_a[k], down);
                    load_fragment<ACROSS>(cols[k % 2], of_b[k], across);
                }
            }
            end();
            if (step % STEPS_TOGETHER == STEPS_TOGETHER - 1) take_over(totals, sums);
        }
        add_products(sums, rows[1], cols[1]);
        take_over(totals, sums);

        float kept[KEPT][COLS_EACH];
        add_slices(kept, totals, slice, thread % SLICE_THREADS, shared, sync);
#pragma unroll
        for (int i = 0; i < KEPT; ++i) {
            const int at_row = row + side<ROWS_EACH, DOWN>(slice * KEPT + i, down);
#pragma unroll
            for (int j = 0; j < COLS_EACH; j += run(j, COLS_EACH)) {
                const int at_col = col + side<COLS_EACH, ACROSS>(j, across);
                if (run(j, COLS_EACH) == 4) {
                    result.store_quad(at_row, at_col, &kept[i][j]);
                } else {
#pragma unroll
                    for (int of = 0; of < run(j, COLS_EACH); ++of) result.store(at_row, at_col + of, kept[i][j + of]);
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

    // Of two slices, each ends up with the totals of KEPT of its rows: the first ones, or the last ones.
    template <typename Sync>
    static __device__ __forceinline__ void add_slices(float (&kept)[KEPT][COLS_EACH], const float (&totals)[ROWS_EACH][COLS_EACH],
                                                      int slice, int thread, SliceSums& shared, const Sync& sync) {
        constexpr int LAST = ROWS_EACH - KEPT;
        if constexpr (SLICES > 1) sync();  // all have read those of the tile before
#pragma unroll
        for (int i = 0; i < KEPT; ++i) {
#pragma unroll
            for (int j = 0; j < COLS_EACH; ++j) {
                kept[i][j] = slice == 0 ? totals[i][j] : totals[LAST + i][j];
                if constexpr (SLICES > 1) {
                    shared[(slice * KEPT + i) * COLS_EACH + j][thread] = slice == 0 ? totals[LAST + i][j] : totals[i][j];
                }
            }
        }
        if constexpr (SLICES > 1) {
            sync();
#pragma unroll
            for (int i = 0; i < KEPT; ++i) {
#pragma unroll
                for (int j = 0; j < COLS_EACH; ++j) kept[i][j] += shared[((1 - slice) * KEPT + i) * COLS_EACH + j][thread];
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
