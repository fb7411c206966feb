// Scales of factors of 8 bits (Scales). FACTOR_SCALES says where they are multiplied by:
//   0  there are none
//   1  sums, at the end: scales are those of rows and columns; of sums of integers as floats, unless results are int32
//   2  what tensor cores made of 128 k, as threads add that to their sums: scales are of blocks (BlockScales)
//
// Scales of rows and columns are multiplied by at the end, before alpha; one scale of a matrix is a vector whose step is 0, so
// no variant is compiled for it. Scales of blocks are multiplied by with the promotion: BN divides 128, and a thread loads two
// scales of A and one of B for 64 rows and a step, a step ahead. Scales are arrays on the device, so nothing waits for their
// values; with alpha = 0 they are not read. Results of float8_e4m3fn are rounded to nearest; larger than 448, infinity too,
// becomes 448, and NaN stays.
//
// Where registers hold two steps' sums and the total (`PARTIAL_BUFFERS`), tensor cores need not wait for a promotion: tiles of 64 rows a
// warpgroup and at most 128 columns. ptxas lets products of one set run while threads read the other only if no value of the
// two is moved, so each has a name of its own over two steps of a loop. The bits are the same.
//
// Tables of float8 are of an H100; elsewhere the cost model counts float8 as 16 bits at twice the rate. One row or a few go to
// skinny_fp8, skinny's source: threads convert two elements by an instruction and add up in float32, and scales are last.
#pragma once

#include "operands.cuh"

using Begun = Number<FACTOR>;                                             // sums of products that begin anew
using Sum = decltype(either<FACTOR_SCALES == 2>(float(), Begun()));  // of products; of blocks of integers, of scaled sums

constexpr int BLOCK_SIDES = 128;  // columns of B in a block

// What row (or column) `side` of `sides` is multiplied by.
__device__ __forceinline__ float scale_of(const float* scales, int step, int side, int sides) {
    return scales == nullptr || (EDGES && side >= sides) ? 1.0f : scales[side * step];
}

// Of the HIGH rows whose sums a warpgroup (64) or a warp (16) has, the first that this thread has sums of.
template <int HIGH>
__device__ __forceinline__ int own_row() {
    return threadIdx.x % (2 * HIGH) / 32 * 16 + threadIdx.x % 32 / 4;
}

// A sum of products, of element (row, col), times the scales of its row and column.
__device__ __forceinline__ float scaled(const Scales& scales, const Sizes& sizes, int row, int col, float sum) {
    return sum * scale_of(scales.a, scales.step_a, row, sizes.m) * scale_of(scales.b, scales.step_b, col, sizes.n);
}

// Scales of a warpgroup's sums (wgmma.cuh) of PARTS times 64 rows and COLS columns, or of a warp's (mma.cuh) of PARTS times
// HIGH = 16 rows. A thread has two rows of each part, STRIDE. They are loaded long before they are used, but not where sums take the
// registers.
//
// The lanes of a warp have the scales of 32 columns, one each, and get those of their sums' columns from each other: so a thread
// holds few of them, and all are loaded at once.
template <int PARTS, int COLS, int HIGH = 64, int STRIDE = 8, bool EXIST = FACTOR_SCALES == 1 && !IS_INTEGER<RESULT>,
          bool IN_REGISTERS = PARTS * COLS / 2 <= 128>
struct SumScales {
    // Of sums of an m x n result, the thread's first in row `row`, the part's in column `col`. multiplied: whether anything has been;
    // else scales are 1.
    __device__ __forceinline__ SumScales(const Scales& scales, int m, int n, int row, int col, bool multiplied) {
        const float *const a = multiplied ? scales.a : nullptr, *const b = multiplied ? scales.b : nullptr;
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < RUNS; ++i) {
            const bool exists = 32 * i + lane < COLS;  // of the last run, there may be a part
            of_columns[i] = exists ? scale_of(b, scales.step_b, col + 32 * i + lane, n) : 1.0f;
        }
#pragma unroll
        for (int i = 0; i < 2 * PARTS; ++i) of_rows[i] = scale_of(a, scales.step_a, row + i / 2 * HIGH + i % 2 * STRIDE, m);
    }

    // Scales the sums of a part. All lanes of a warp call it.
    __device__ __forceinline__ void scale(int part, float (&sums)[COLS / 2]) const {
#pragma unroll
        for (int i = 0; i < COLS / 4; ++i) {
            const float of_column = __shfl_sync(0xffffffff, of_columns[i / 8], i / 2 % 4 * 8 + threadIdx.x % 4 * 2 + i % 2);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                sums[i / 2 * 4 + i % 2 + 2 * j] *= of_rows[2 * part + j];
                sums[i / 2 * 4 + i % 2 + 2 * j] *= of_column;
            }
        }
    }

  private:
    static constexpr int RUNS = (COLS + 31) / 32;
    float of_rows[2 * PARTS], of_columns[RUNS];
};
template <int PARTS, int COLS, int HIGH, int STRIDE>
struct SumScales<PARTS, COLS, HIGH, STRIDE, true, false> {
    const Scales& scales;
    const int m, n, row, col;
    const bool multiplied;

    __device__ __forceinline__ void scale(int part, float (&sums)[COLS / 2]) const {
        if (multiplied) SumScales<1, COLS, HIGH, STRIDE, true, true>(scales, m, n, row + HIGH * part, col, true).scale(0, sums);
    }
};
template <int PARTS, int COLS, int HIGH, int STRIDE, bool IN_REGISTERS>
struct SumScales<PARTS, COLS, HIGH, STRIDE, false, IN_REGISTERS> {
    __device__ __forceinline__ SumScales(const Scales&, int, int, int, int, bool) {}
    template <typename Sums>
    __device__ __forceinline__ void scale(int, Sums&) const {}
};

// Scales of blocks: of a thread's rows, two in each of PARTS times 64 of a warpgroup, or HIGH = 16 of a warp, and of its tile's
// columns, which are all of one block.
//
// They are loaded a step before they are needed, so no thread waits for memory between products:
//
//     products     | step 0            | step 1            | step 2
//     of_part                      of step 0           of step 1           of step 2
//     next: loads                     of step 2           of step 3
template <int PARTS, int HIGH = 64>
struct BlockScales {
    struct Values {
        float of_rows[2 * PARTS], of_columns;
    };

    const float *a, *b;  // of the step that is loaded next
    int step_a, step_b;
    int left;             // steps that have not been loaded
    int rows[2 * PARTS];  // where those of the rows are
    Values now, ahead;

    // Of a tile at (row, col) of an m x n result, from step `step` of `steps` on. Rows past the last one get its scale.
    // Where it is BEHIND, the first call of `next` goes on to the first step, and scales are 1 before.
    template <bool BEHIND>
    static __device__ __forceinline__ BlockScales begin(const Scales& scales, int m, int n, int row, int col, int step, int steps) {
        BlockScales of_tile;
        of_tile.a = scales.a + static_cast<long long>(step) * scales.step_k_a;
        of_tile.b = scales.b + static_cast<long long>(step) * scales.step_k_b + min(col, n - 1) / BLOCK_SIDES * scales.step_b;
        of_tile.step_a = scales.step_k_a;
        of_tile.step_b = scales.step_k_b;
        of_tile.left = steps - step;
        const int own = row + own_row<HIGH>();
#pragma unroll
        for (int i = 0; i < 2 * PARTS; ++i) {
            of_tile.rows[i] = min(own + i / 2 * HIGH + i % 2 * 8, m - 1) / scales.rows * scales.step_a;
            of_tile.now.of_rows[i] = of_tile.ahead.of_rows[i] = 1;
        }
        of_tile.now.of_columns = of_tile.ahead.of_columns = 1;
        of_tile.load();
        if (!BEHIND) of_tile.next(m, n);
        return of_tile;
    }

    __device__ __forceinline__ void next(int, int) {
        now = ahead;
        load();
    }

    // What a thread's sums of a part are multiplied by.
    struct Part {
        float of_rows[2];
        __device__ __forceinline__ float of(int sum) const { return of_rows[sum / 2 % 2]; }
    };
    template <int COUNT>
    __device__ __forceinline__ Part of_part(int part) const {
        return {{now.of_rows[2 * part] * now.of_columns, now.of_rows[2 * part + 1] * now.of_columns}};
    }

  private:
    __device__ __forceinline__ void load() {
        if (left-- <= 0) return;
#pragma unroll
        for (int i = 0; i < 2 * PARTS; ++i) ahead.of_rows[i] = a[rows[i]];
        ahead.of_columns = *b;
        a += step_a;
        b += step_b;
    }
};
