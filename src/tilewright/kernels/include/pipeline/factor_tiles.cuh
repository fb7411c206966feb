// A factor's tiles in shared memory: from the copy engine, transposed where need be, to the fragments of threads.
//
// ROWS of m or n by DEPTH of k. Fragments are read from a tile whose rows are contiguous, DEPTH x ROWS:
//
//     memory contiguous along m or n:   | stage 0         | stage 1         |                  loaded in turn
//     memory contiguous along k:        | raw             | BUFFERS tiles, each transposed     raw alone is loaded
//                                       | ROWS x DEPTH    | DEPTH x ROWS    | ...
#pragma once

#include "pipeline/transposition.cuh"
#include "ptx/keep.cuh"
#include "ptx/tensor_map.cuh"

// ALONG_K: memory is contiguous along k. LANES: of a warp's lanes, those that lie along ROWS, 4 or 8.
template <bool ALONG_K, int ROWS, int DEPTH, int WARPS, int BUFFERS, int LANES>
struct FactorTiles {
    using Transposer = Transposition<ROWS, DEPTH, WARPS>;
    static constexpr int TILE = ROWS * DEPTH;
    static constexpr int POINTERS = ALONG_K ? LANES / 2 : 1;  // that a thread reads quads through, see `fragment`

    float* memory;
    int begin;  // of this thread's fragments in a tile: its first quad, at its slice's first k
    Transposer transposer;

    __device__ __forceinline__ FactorTiles(float* memory, int begin) : memory(memory), begin(begin) {}

    // Starts to load the tile at (row, k) of a matrix: to `raw`, or to the stage that is not in use.
    __device__ __forceinline__ void load(const TensorMap* map, int row, int k, int matrix, int stage, Barrier* barrier) {
        if (ALONG_K) {
            load_tile(memory, map, k, row, matrix, barrier);
        } else {
            load_tile(memory + (stage ^ 1) * TILE, map, row, k, matrix, barrier);
        }
    }

    // Transposes what was loaded to the buffer of a stage. With SYNCS the block syncs before anything is stored.
    template <bool SYNCS>
    __device__ __forceinline__ void transpose(int stage) {
        if constexpr (ALONG_K) transposer.template run<SYNCS>(memory, tile(stage));
    }

    // The tile that a stage reads.
    __device__ __forceinline__ float* tile(int stage) const {
        if (!ALONG_K) return memory + stage * TILE;
        return memory + TILE + (BUFFERS > 1 ? stage * TILE : 0);
    }

    // Where this thread reads in the tile of a stage: quads of its lane, and of those that `flip` puts in their place.
    __device__ __forceinline__ void point(const float* (&at)[POINTERS], int stage) const {
        if constexpr (POINTERS > 2 && BUFFERS > 1) {
            // The same in fewer instructions: a tile's floats are a multiple of 32. Not so for two pointers, where NVRTC 13.0
            // then chooses registers with more bank conflicts in the loop.
            const int first = stage * TILE + begin;
#pragma unroll
            for (int i = 0; i < POINTERS; ++i) at[i] = memory + TILE + (first ^ i * 8);
        } else {
#pragma unroll
            for (int i = 0; i < POINTERS; ++i) at[i] = tile(stage) + (begin ^ i * 8);
        }
    }

    // Reads a thread's quads of k, which is known when compiled. They are LANES apart; what exchanges quads 4 apart
    // exchanges a thread's own where LANES is 4, else the lanes'.
    template <int COUNT>
    __device__ __forceinline__ static void fragment(float (&quads)[COUNT], const float* const (&at)[POINTERS], int k) {
        const int flip = ALONG_K ? Transposer::flip(k) : 0;
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            load_float4(&quads[i], at[flip % LANES / 2] + k * ROWS + (i ^ flip / LANES * 4) * LANES);
        }
    }

    // The row that a thread's quad holds at `place`.
    __device__ __forceinline__ static int row(int quad, int place) {
        return ALONG_K ? Transposer::row(quad, place) : quad * 4 + place;
    }

    // Sorts the columns of sums by what `row` says of all quads of one thread, of which `quad` is any.
    template <int SUM_ROWS, int SUM_COLS>
    __device__ __forceinline__ static void sort(float (&sums)[SUM_ROWS][SUM_COLS], int quad) {
        if constexpr (ALONG_K && Transposer::RUN > 1) exchange<1>(sums, quad);
        if constexpr (ALONG_K && Transposer::RUN > 2) exchange<2>(sums, quad);
    }

    __device__ __forceinline__ void keep_in_registers() {
        if (ALONG_K) {
            keep(transposer.source);
            keep(transposer.target);
        }
        keep(begin);
    }

  private:
    // Exchanges columns j and j + BIT where the quad's number has that bit.
    template <int BIT, int SUM_ROWS, int SUM_COLS>
    __device__ __forceinline__ static void exchange(float (&sums)[SUM_ROWS][SUM_COLS], int quad) {
#pragma unroll
        for (int i = 0; i < SUM_ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < SUM_COLS; ++j) {
                if (j & BIT) continue;
                const float first = sums[i][j], second = sums[i][j + BIT];
                sums[i][j] = quad & BIT ? second : first;
                sums[i][j + BIT] = quad & BIT ? first : second;
            }
        }
    }
};
