// The end of a tile whose k the slices of a block, groups of its threads, have divided among them.
#pragma once

#include "pipeline/partial_sums.cuh"
#include "ptx/bundle.cuh"

// Reduces over SLICES slices of THREADS threads each: slice s ends up with the totals of rows s*ROWS to s*ROWS+ROWS-1 of
// every thread's sums, so all threads store.
//
// `shared` has room for the sums of all threads; the block syncs before they are stored. A thread's own pass through it
// too: if they stayed in registers, the compiler would choose the registers of all for this, not for the multiply-adds.
template <int SLICES, int THREADS, int ROWS, int COLS>
__device__ __forceinline__ void add_slices(float (&totals)[ROWS][COLS], const float (&sums)[SLICES * ROWS][COLS],
                                           float* shared) {
    if constexpr (SLICES == 1) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < COLS; ++j) totals[i][j] = sums[i][j];
        }
    } else {
        constexpr int ROWS_OF_SLICE = THREADS * ROWS * COLS;
        const int slice = threadIdx.x / THREADS;
        float* const own = shared + threadIdx.x % THREADS;
        sync_block<SLICES * THREADS>();
        store_sums<THREADS>(sums, own + slice * SLICES * ROWS_OF_SLICE);
        sync_block<SLICES * THREADS>();
        load_sums<THREADS>(totals, own + slice * ROWS_OF_SLICE);
#pragma unroll
        for (int other = 1; other < SLICES; ++other) {
            add_sums<THREADS>(totals, own + (other * SLICES + slice) * ROWS_OF_SLICE);
        }
    }
}
