// The sums of one tile in shared memory, of PARTS groups of a block's threads and of the BLOCKS of a cluster, each over its part of
// the k. They are added where they are stored from: each block adds and stores a part of the tile, and loads what the others have.
#pragma once

#include <cluster.cuh>  // in brackets: the emulator has one of its own

#include "epilogue/result.cuh"

template <int ROWS, int COLS, int PARTS, int BLOCKS>
struct TileSums {
    static constexpr int QUADS = ROWS * COLS / 4 / BLOCKS;  // that a block stores
    static_assert(COLS % 4 == 0 && ROWS * COLS / 4 % BLOCKS == 0, "the blocks of a cluster store equal parts, by quads");

    // The padding puts what a warp stores of a warpgroup's transposed sums on distinct banks.
    __align__(16) float parts[PARTS][ROWS][COLS + 4];

    // Lets the threads of the cluster meet.
    static __device__ __forceinline__ void meet() {
        if (BLOCKS > 1) cluster_meet();
    }

    // Stores this block's part of the tile that begins at (row, col), by threads counted from 0, of which there are `threads`. All
    // of the cluster have met since the sums were stored, and meet before a block ends.
    template <typename T>
    __device__ __forceinline__ void store(const Result<T>& result, int row, int col, int rank, int thread, int threads) {
        for (int i = rank * QUADS + thread; i < (rank + 1) * QUADS; i += threads) {
            const int in_row = i / (COLS / 4), in_col = i % (COLS / 4) * 4;
            float total[4] = {};
#pragma unroll
            for (int part = 0; part < BLOCKS * PARTS; ++part) {
                float* const own = &parts[part % PARTS][in_row][in_col];
                float quad[4];
                load_four(quad, BLOCKS > 1 ? in_block(own, part / PARTS) : own);
#pragma unroll
                for (int j = 0; j < 4; ++j) total[j] += quad[j];
            }
            result.store_quad(row + in_row, col + in_col, total);
        }
    }
};
