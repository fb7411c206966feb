// A tile of B in shared memory, as TMA loads it, float32: COLS columns and TILE_K of k. Warpgroups read it as the rows of B^T that
// wgmma multiplies from registers: each has 64 columns, of which a lane reads its elements.
//
//   B row-major       COLS / 32 boxes of 32 lines, each 32 columns at one k
//     column-major    COLS lines, each 32 k of one column
//
// A line is 128 bytes, its 16-byte pieces exchanged (tensor_map.cuh). Which column is which row of wgmma, and which k of 16 comes
// where, is free where both factors and the result agree on it. So that no two lanes that read at the same time do so from one
// bank, lane l has
//
//   B row-major       columns l / 4 * 2 and the next     k as wgmma numbers them: 2 * (l % 4) and the next, and 8 further
//     column-major    columns l / 8 + l / 4 % 2 * 4      k 4 * (l % 4) to the third next, which wgmma has as pairs 8 apart
//                     and 8 further
#pragma once

#include "elements.cuh"
#include "ptx/matrix_descriptor.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

constexpr int TILE_K = 32;  // floats of a line

template <bool ALONG_K>
struct ColumnOrder {
    // Which of 16 columns has the first of a lane's two rows, and how far from it the second is.
    static __device__ __forceinline__ int column(int lane) { return ALONG_K ? lane / 8 + lane / 4 % 2 * 4 : lane / 4 * 2; }
    static constexpr int SECOND = ALONG_K ? 8 : 1;
    // The same of a tile's columns, of which each 128 threads have 64.
    static __device__ __forceinline__ int column_of(int thread) { return thread / 32 * 16 + column(thread % 32); }

    // Which pair of neighbours along k is pair i of piece `half`, 8 of the 16 k of an instruction.
    static constexpr __device__ __forceinline__ int pair(int half, int i) { return ALONG_K ? 2 * i + half : 4 * half + i; }
};

// Where a thread's elements lie in a tile, in bytes: of both halves of 32 k, or where columns are neighbours of the first k and the
// next one. thread: of the block, of which each 128 have 64 columns.
template <bool ALONG_K>
struct ColumnOffsets {
    unsigned at[2];

    __device__ __forceinline__ ColumnOffsets(int thread) {
        const int lane = thread % 32, col = ColumnOrder<ALONG_K>::column_of(thread);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const unsigned in_box = ALONG_K ? swizzled(col, 4 * i + lane % 4)
                                            : swizzled(2 * (lane % 4) + i, col % TILE_K / 4) + col % 4 * sizeof(float);
            at[i] = in_box + (ALONG_K ? 0 : col / TILE_K * TILE_K * LINE_BYTES);
        }
        pin(at);  // so that they are not computed anew for each tile
    }
};

template <bool ALONG_K, int COLS>
struct ColumnTile {
    static constexpr int BOX_COLS = ALONG_K ? COLS : TILE_K;
    static constexpr int BOX_BYTES = (ALONG_K ? COLS : TILE_K) * LINE_BYTES;
    unsigned char lines[COLS * LINE_BYTES];

    // Starts to load columns from `col` on and k from `k` on: sizeof(ColumnTile) bytes.
    __device__ __forceinline__ void load(const TensorMap* map, int col, int k, int matrix, Barrier* full) {
#pragma unroll 1  // the registers of a thread that loads are few
        for (int box = 0; box < COLS / BOX_COLS; ++box) {
            const int at = col + box * BOX_COLS;
            load_tile(lines + box * BOX_BYTES, map, ALONG_K ? k : at, ALONG_K ? at : k, matrix, full);
        }
    }

    // A thread's 8 elements of 16 k from 16 * step on, as wgmma has them in registers: register r is elements 2r and 2r + 1.
    __device__ __forceinline__ void read(float* x, const ColumnOffsets<ALONG_K>& offsets, int step) const {
        if constexpr (ALONG_K) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {  // of the columns
                float quad[4];
                load_run<4>(quad, reinterpret_cast<const float*>(lines + offsets.at[step] + half * 8 * LINE_BYTES));
#pragma unroll
                for (int i = 0; i < 4; ++i) x[i / 2 * 4 + half * 2 + i % 2] = quad[i];
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float pair[2];
                load_run<2>(pair, reinterpret_cast<const float*>(lines + offsets.at[i % 2] + (16 * step + i / 2 * 8) * LINE_BYTES));
#pragma unroll
                for (int half = 0; half < 2; ++half) x[i / 2 * 4 + half * 2 + i % 2] = pair[half];
            }
        }
    }
};
