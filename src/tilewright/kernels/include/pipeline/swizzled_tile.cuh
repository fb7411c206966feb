// A tile of a factor in shared memory, as TMA loads it and wgmma reads it: SIDE rows of A or columns of B, and a line of k, which
// is 64 of 16-bit elements, 32 of TF32 and 128 of float8.
//
//   Along k: SIDE lines of 128 bytes, each a line of k of one row (or column).
//   Across k: blocks of a line for each k, each 128 bytes of rows (or columns) at this k; or 64 bytes where that divides SIDE and
//   128 does not: tiles then begin within lines of the L2 cache. Where neither does, the last block is loaded whole and read in
//   part. wgmma reads those of 16 bits, threads the others (register_operand.cuh).
#pragma once

#include "pipeline/cluster_grid.cuh"
#include "ptx/matrix_descriptor.cuh"
#include "ptx/tensor_map.cuh"

// ELEMENTS: of a line.
template <Major, int SIDE, int ELEMENTS>
struct SwizzledTile;

template <int SIDE, int ELEMENTS>
struct SwizzledTile<Major::along_k, SIDE, ELEMENTS> {
    static_assert(SIDE % 8 == 0 && SIDE <= 256, "the pattern repeats after eight lines, and a box has at most 256");
    unsigned char lines[SIDE * LINE_BYTES];

    // Bytes that `load_shared` loads of a matrix of this many rows (or columns). Where they are fewer than SIDE and one block loads
    // the tile, a box has no more lines than that, in eights. The others hold what was there before, NaN for example.
    template <int COUNT>
    static __device__ __forceinline__ unsigned bytes(Sharers<COUNT>, int sides) {
        return LINE_BYTES * (COUNT == 1 ? (min(sides, SIDE) + 7) / 8 * 8 : SIDE);
    }

    // Starts to load rows (or columns) from `side` on and a line of k from `k` on.
    __device__ __forceinline__ void load(const TensorMap* map, int side, int k, int matrix, Barrier* full) {
        load_tile(lines, map, k, side, matrix, full);
    }

    // The same for COUNT blocks of a cluster, each of which calls this and loads its part of the tile. None has nothing to load:
    // else it could not hold back those that it shares tiles with, and they would count its steps wrongly.
    template <int COUNT>
    __device__ __forceinline__ void load_shared(Sharers<COUNT> by, const TensorMap* map, int side, int k, int matrix,
                                                Barrier* full) {
        static_assert(SIDE % (8 * COUNT) == 0, "the pattern repeats after eight lines");
        if constexpr (COUNT == 1) {
            load(map, side, k, matrix, full);
        } else {
            const int first = by.part * (SIDE / COUNT);
            load_tile_to(by.blocks, lines + first * LINE_BYTES, map, k, side + first, matrix, full);
        }
    }

    // What a product reads from row (or column) `side` of the tile on, a multiple of 64, in this step along k.
    __device__ __forceinline__ MatrixDescriptor at(int side, int step) const {
        return matrix_descriptor(lines) + (side * LINE_BYTES + step * STEP_BYTES);
    }
};

template <int SIDE, int ELEMENTS>
struct SwizzledTile<Major::across_k, SIDE, ELEMENTS> {
    static constexpr int WIDTH = SIDE % ELEMENTS == ELEMENTS / 2 ? ELEMENTS / 2 : ELEMENTS;  // of a block
    static constexpr int BLOCKS = (SIDE + WIDTH - 1) / WIDTH;
    static constexpr int OWN_BYTES = LINE_BYTES / ELEMENTS * WIDTH;  // of a line
    static constexpr int BLOCK_BYTES = ELEMENTS * OWN_BYTES;
    unsigned char lines[BLOCKS * BLOCK_BYTES];

    template <int COUNT>
    static __device__ __forceinline__ unsigned bytes(Sharers<COUNT>, int) {
        return BLOCKS * BLOCK_BYTES;
    }
    __device__ __forceinline__ void load(const TensorMap* map, int side, int k, int matrix, Barrier* full) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            load_tile(lines + block * BLOCK_BYTES, map, side + block * WIDTH, k, matrix, full);
        }
    }
    template <int COUNT>
    __device__ __forceinline__ void load_shared(Sharers<COUNT> by, const TensorMap* map, int side, int k, int matrix,
                                                Barrier* full) {
        if constexpr (COUNT == 1) {
            load(map, side, k, matrix, full);
        } else {
            const int first = by.part * (ELEMENTS / COUNT);  // along k: every block has a part of every tile
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                unsigned char* const into = lines + block * BLOCK_BYTES + first * OWN_BYTES;
                load_tile_to(by.blocks, into, map, side + block * WIDTH, k + first, matrix, full);
            }
        }
    }
    __device__ __forceinline__ MatrixDescriptor at(int side, int step) const {
        static_assert(ELEMENTS == LINE, "wgmma takes elements of 16 bits alone across k");
        return matrix_descriptor<OWN_BYTES>(lines, BLOCK_BYTES) + (side / WIDTH * BLOCK_BYTES + step * 16 * OWN_BYTES);
    }
};
