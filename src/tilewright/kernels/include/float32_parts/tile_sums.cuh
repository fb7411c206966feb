// The sums of one tile in shared memory, of PARTS groups of a block's threads and of the BLOCKS of a cluster, each over its part of
// the k. They are added where they are stored from: each block adds and stores a part of the tile, and loads what the others have.
#pragma once

#include "epilogue/result.cuh"
#include "ptx/cluster.cuh"

template <int ROWS, int COLS, int PARTS, int BLOCKS>
struct TileSums {
    static constexpr int QUADS = ROWS * COLS / 4 / BLOCKS;  // that a block stores
    static_assert(COLS % 4 == 0 && ROWS * COLS / 4 % BLOCKS == 0, "the blocks of a cluster store equal parts, by quads");

    // The padding puts what a warp stores of a warpgroup's transposed sums on distinct banks.
    __align__(16) float parts[PARTS][ROWS][COLS + 4];

    // Lets the threads of the cluster meet.
    static __device__ __forceinline__ void sync() {
        if (BLOCKS > 1) cluster_sync_relaxed();
    }

    // Stores this block's part of the tile that begins at (row, col), by threads counted from 0, of which there are `threads`. All
    // of the cluster have met since the sums were stored, and meet before a block ends.
    template <typename T>
    __device__ __forceinline__ void store(const Result<T>& result, int row, int col, int rank, int thread, int threads) {
        for (int i = rank * QUADS + thread; i < (rank + 1) * QUADS; i += threads) {
            float total[4];
            add_quad(total, i);
            result.store_quad(row + row_of(i), col + col_of(i), total);
        }
    }

    // Whether one of those sums of the whole tile that this thread looks at is smaller than `least`: of its first rows and columns,
    // which the result has.
    __device__ __forceinline__ bool any_below(float least, int rows, int cols, int thread, int threads) {
        bool smaller = false;
        for (int i = thread; i < BLOCKS * QUADS; i += threads) {
            float total[4];
            add_quad(total, i);
#pragma unroll
            for (int j = 0; j < 4; ++j) smaller |= row_of(i) < rows && col_of(i) + j < cols && !(fabsf(total[j]) >= least);
        }
        return smaller;
    }

  private:
    static __device__ __forceinline__ int row_of(int quad) { return quad / (COLS / 4); }
    static __device__ __forceinline__ int col_of(int quad) { return quad % (COLS / 4) * 4; }

    __device__ __forceinline__ void add_quad(float (&total)[4], int number) {
#pragma unroll
        for (int j = 0; j < 4; ++j) total[j] = 0;
#pragma unroll
        for (int part = 0; part < BLOCKS * PARTS; ++part) {
            float* const own = &parts[part % PARTS][row_of(number)][col_of(number)];
            float quad[4];
            load_float4(quad, BLOCKS > 1 ? in_block(own, part / PARTS) : own);
#pragma unroll
            for (int j = 0; j < 4; ++j) total[j] += quad[j];
        }
    }
};
