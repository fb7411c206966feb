// A warpgroup's sums (wgmma.cuh), from registers to memory.
//
// Of 8 columns, the four lanes of a quad have two each. Elements of 16 bits are exchanged between the lanes, so that each
// stores 8 columns of a row at once, and the quad 64 bytes in a row; before, these are 16 bytes, half a sector:
//
//     columns   0-7      8-15     16-23    24-31               0-7      8-15     16-23    24-31
//     lane      0 1 2 3  0 1 2 3  0 1 2 3  0 1 2 3     ->      0 0 0 0  1 1 1 1  2 2 2 2  3 3 3 3
#pragma once

#include "epilogue/result.cuh"

// words[i] of lane j of each quad becomes words[j] of lane i.
__device__ __forceinline__ void transpose_in_quad(unsigned (&words)[4]) {
    const unsigned lane = threadIdx.x % 4;
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) {
        const bool upper = lane & distance;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & distance) continue;
            unsigned &low = words[i], &high = words[i + distance];
            const unsigned got = __shfl_xor_sync(0xffffffff, upper ? low : high, distance);
            (upper ? low : high) = got;
        }
    }
}

// Stores 32 columns of 16-bit elements from `col` on, of rows that start at a multiple of 16 bytes; `sums` are those of this
// thread's first pair, and 4 further on those of the next. of_columns: the bias of its pairs.
template <typename T>
__device__ __forceinline__ void store_32_columns(const Result<T>& result, int row, int col, const float* sums, float of_row,
                                                 const float* of_columns) {
    const int lane = threadIdx.x % 4;
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float pair[] = {sums[4 * i], sums[4 * i + 1]};
        result.finish_pair(pair, row, col + 8 * i + 2 * lane, of_row, &of_columns[2 * i]);
        store_run<2>(reinterpret_cast<T*>(&words[i]), pair);
    }
    transpose_in_quad(words);
    if (EDGES && row >= result.m) return;
    col += 8 * lane;
    T* const d = at(result.D, result.ldd, row, col);
    if (!EDGES || col + 8 <= result.n) {
        *reinterpret_cast<uint4*>(d) = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (col + i < result.n) d[i] = reinterpret_cast<const T*>(words)[i];
        }
    }
}

// Stores 8 * PAIRS columns from `col` on of two rows, `row` and 8 further, of which `sums` has this thread's pairs.
template <int PAIRS, typename T>
__device__ __forceinline__ void store_columns(const Result<T>& result, int row, int col, const float* sums,
                                              const float (&of_rows)[2]) {
    const int lane = threadIdx.x % 4;
    float of_columns[2 * PAIRS];
#pragma unroll
    for (int i = 0; i < 2 * PAIRS; ++i) of_columns[i] = result.bias.of_column(col + i / 2 * 8 + lane * 2 + i % 2);
    if constexpr (PAIRS == 4 && sizeof(T) == 2 && ALIGNED) {
        store_32_columns(result, row, col, sums, of_rows[0], of_columns);
        store_32_columns(result, row + 8, col, sums + 2, of_rows[1], of_columns);
    } else {
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float* const pair = sums + 4 * i + 2 * half;
                result.store_pair(row + 8 * half, col + 8 * i + lane * 2, pair, of_rows[half], &of_columns[2 * i]);
            }
        }
    }
}

// The 64 rows that a warpgroup has sums of, with element (row, col) of the result at their corner.
template <typename T, int COUNT>
__device__ __forceinline__ void store_warpgroup(const Result<T>& result, int row, int col, const float (&sums)[COUNT]) {
    constexpr int PAIRS = COUNT / 4;  // of a row
    row += threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    const float of_rows[] = {result.bias.of_row(row), result.bias.of_row(row + 8)};
#pragma unroll
    for (int i = 0; i < PAIRS / 4; ++i) store_columns<4>(result, row, col + 32 * i, &sums[16 * i], of_rows);
    constexpr int LEFT = PAIRS % 4;
    if constexpr (LEFT > 0) store_columns<LEFT>(result, row, col + 8 * (PAIRS - LEFT), &sums[4 * (PAIRS - LEFT)], of_rows);
}
