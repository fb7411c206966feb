// A tile transposed by the block, from k-contiguous rows as they lie in memory: ldmatrix hands every lane a quad, four
// neighbouring rows of one k.
#pragma once

#include "ptx/bundle.cuh"
#include "ptx/load_matrix.cuh"
#include "tile_io.cuh"

// Of ROWS x DEPTH elements to DEPTH x ROWS, by WARPS warps; DEPTH is a multiple of 8.
//
// Quads of a tile, as a k has them:          rows 0 to 3, 4 to 7, ...: quad q has rows 4q to 4q+3
//                  as they are stored:       k % 4 = 0:  0 1 2 3 4 5 6 7    1:  4 5 6 7 0 1 2 3
//                                            k % 4 = 2:  2 3 0 1 6 7 4 5    3:  6 7 4 5 2 3 0 1
//
// so that the eight lanes that store a quad each at a time store to distinct banks. The eight lanes that name the rows of
// one matrix name RUN rows of the tile, and of each the PIECES pieces of 16 bytes that follow one another. They lie on
// distinct banks if the RUN rows differ modulo RUN: so quad q is stored in the order of its rows `row(q, 0)` to
// `row(q, 3)`, which for RUN = 2 is 0 1 2 3, or 1 0 3 2 where q is odd.
template <int ROWS, int DEPTH, int WARPS>
struct Transposition {
    static constexpr int PIECES = DEPTH % 32 == 0 ? 8 : DEPTH % 16 == 0 ? 4 : 2;
    static constexpr int RUN = 8 / PIECES;
    static constexpr int UNIT_ROWS = 4 * RUN;      // that a warp transposes at a time, ...
    static constexpr int UNIT_DEPTH = 4 * PIECES;  // ... and k of each
    static constexpr int ROUND = WARPS * UNIT_ROWS;
    static constexpr int TIMES = ROWS / ROUND * (DEPTH / UNIT_DEPTH);
    static constexpr int BATCH = TIMES % 4 == 0 ? 4 : TIMES % 3 == 0 ? 3 : TIMES;  // loads before the stores that wait

    int source, target;  // where this thread loads and stores

    __device__ __forceinline__ Transposition() {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const int named = lane % 8, given = lane / 4;
        // Where RUN is 1, odd pieces are of the neighbouring warp's rows: else eight lanes would store to one quad's banks.
        const auto unit = [&](int row) { return RUN == 1 ? warp ^ row % 2 : warp; };
        const int k = given / RUN * 4 + lane % 4;
        source = row(unit(named) * RUN + named % RUN, lane / 8) * DEPTH + named / RUN * 4;
        target = k * ROWS + (unit(given) * RUN + given % RUN ^ flip(k)) * 4;
    }

    // What quads' positions are xored with at a k.
    __device__ __forceinline__ static constexpr int flip(int k) { return k % 2 * 4 ^ k / 2 % 2 * 2; }

    // The row that a stored quad has at `place`, 0 to 3.
    __device__ __forceinline__ static int row(int quad, int place) { return quad * 4 + (place ^ quad % RUN); }

    // From `tile` to `to`. With SYNCS the block syncs before anything is stored.
    template <bool SYNCS>
    __device__ __forceinline__ void run(const float* tile, float* to) const {
#pragma unroll
        for (int first = 0; first < TIMES; first += BATCH) {
            float quads[BATCH][4];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                load_matrices(quads[i], tile + source + row_of(first + i) * DEPTH + k_of(first + i));
            }
            if (SYNCS && first == 0) sync_block<32 * WARPS>();
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                // Rows 16 and more apart are quads 4 apart, which `flip` exchanges at an odd k.
                const int low = row_of(first + i) % 32;
                store_float4(to + (target ^ low) + k_of(first + i) * ROWS + row_of(first + i) - low, quads[i]);
            }
        }
    }

  private:
    // The first row and k of a warp's unit, but for the warp's own rows.
    __device__ __forceinline__ static int row_of(int time) { return time % (ROWS / ROUND) * ROUND; }
    __device__ __forceinline__ static int k_of(int time) { return time / (ROWS / ROUND) * UNIT_DEPTH; }
};
