// The end of a tile whose k the parts of a block's threads, its slices, have divided among them.
#pragma once

#include <bundle.cuh>

#include "parts.cuh"

// Adds up the sums of COUNT slices of PART threads. Of what a thread of every slice has sums for, the one of the first
// gets the first ROWS rows, and so on: so all of them store results.
//
// `shared` has room for the sums of all threads; the block meets before they go there. A thread's own do too: if they
// stayed, the compiler would choose the registers of all for this, and not for the multiply-adds.
template <int COUNT, int PART, int ROWS, int COLS>
__device__ __forceinline__ void add_slices(float (&mine)[ROWS][COLS], const float (&sums)[COUNT * ROWS][COLS],
                                           float* shared) {
    if constexpr (COUNT == 1) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < COLS; ++j) mine[i][j] = sums[i][j];
        }
    } else {
        constexpr int SHARE = PART * ROWS * COLS;
        const int slice = threadIdx.x / PART;
        float* const place = shared + threadIdx.x % PART;
        sync_block<COUNT * PART>();
        leave_sums<PART>(sums, place + slice * COUNT * SHARE);
        sync_block<COUNT * PART>();
        take_sums<PART>(mine, place + slice * SHARE);
#pragma unroll
        for (int other = 1; other < COUNT; ++other) add_sums<PART>(mine, place + (other * COUNT + slice) * SHARE);
    }
}
