// A tile of A transposed by the block, from k-contiguous rows as they lie in memory: loads of matrices hand every lane four
// rows of one k.
#pragma once

#include <bundle.cuh>
#include <load_matrix.cuh>

#include "tile_io.cuh"

// Of ROWS x DEPTH elements, by WARPS warps; DEPTH is a multiple of 8.
//
// The eight lanes that name the rows of a matrix name RUN rows of the tile, and of each the PIECES pieces of 16 bytes that
// follow one another: they lie on distinct banks, however far apart rows are. The four rows that a thread gets, a four, are
// RUN apart. Fours stand in another order at each of four k, so that eight lanes write to distinct banks too.
template <int ROWS, int DEPTH, int WARPS>
struct Transposition {
    static constexpr int PIECES = DEPTH % 32 == 0 ? 8 : DEPTH % 16 == 0 ? 4 : 2;
    static constexpr int RUN = 8 / PIECES;
    static constexpr int UNIT_ROWS = 4 * RUN;  // that a warp transposes at a time, ...
    static constexpr int UNIT_DEPTH = 4 * PIECES;  // ... and k of each
    static constexpr int ROUND = WARPS * UNIT_ROWS;
    static constexpr int TIMES = ROWS / ROUND * (DEPTH / UNIT_DEPTH);
    static constexpr int BATCH = TIMES % 4 == 0 ? 4 : TIMES % 3 == 0 ? 3 : TIMES;  // loads before the stores that wait

    int taken, put;  // where this thread reads and writes

    __device__ __forceinline__ Transposition() {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const int named = lane % 8, given = lane / 4;
        // Where RUN is 1, odd pieces are of the neighbouring warp's rows: else eight lanes would write to one four's banks.
        const auto unit = [&](int row) { return RUN == 1 ? warp ^ row % 2 : warp; };
        const int k = given / RUN * 4 + lane % 4;
        taken = (unit(named) * UNIT_ROWS + lane / 8 * RUN + named % RUN) * DEPTH + named / RUN * 4;
        put = k * ROWS + place(unit(given) * RUN + given % RUN, k) * 4;
    }

    // The first row and k of a warp's unit.
    __device__ __forceinline__ static int row_of(int time) { return time % (ROWS / ROUND) * ROUND; }
    __device__ __forceinline__ static int k_of(int time) { return time / (ROWS / ROUND) * UNIT_DEPTH; }

    // Where a four of some k stands among the transposed tile's.
    __device__ __forceinline__ static int place(int four, int k) { return four ^ k % 2 * 4 ^ k / 2 % 2 * 2; }

    // The row of a tile's four, its first, second, third or fourth.
    __device__ __forceinline__ static int row(int four, int which) {
        return four / RUN * UNIT_ROWS + four % RUN + which * RUN;
    }

    // From `tile` to `to`, where the rows of one k stand together. With MEETS the block meets before anything is written.
    template <bool MEETS>
    __device__ __forceinline__ void run(const float* tile, float* to) const {
#pragma unroll
        for (int first = 0; first < TIMES; first += BATCH) {
            float four[BATCH][4];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                load_matrices(four[i], tile + taken + row_of(first + i) * DEPTH + k_of(first + i));
            }
            if (MEETS && first == 0) sync_block<32 * WARPS>();
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                // Four fours on, of four warps' next rows, is what `place` exchanges at an odd k: it must be exchanged back.
                const int low = row_of(first + i) % 32;
                store_four(to + (put ^ low) + k_of(first + i) * ROWS + row_of(first + i) - low, four[i]);
            }
        }
    }
};
