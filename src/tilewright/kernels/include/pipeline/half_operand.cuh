// Tiles of 16-bit operands in shared memory, in the order in which the operand lies in global memory, and what a thread moves
// of them.
#pragma once

#include "operands.cuh"
#include "pipeline/half_tile_io.cuh"
#include "ptx/wmma.cuh"

// A block's tile of an operand: EXTENT along m or n, DEPTH along k. ALONG_K: neighbours in memory are neighbours along k, as in
// a row-major A and a column-major B.
template <bool ALONG_K_, int EXTENT, int DEPTH_>
struct HalfTile {
    static constexpr bool ALONG_K = ALONG_K_;
    static constexpr int DEPTH = DEPTH_;
    static constexpr int LINES = ALONG_K ? EXTENT : DEPTH;
    static constexpr int LENGTH = ALONG_K ? DEPTH : EXTENT;
    static constexpr int LD = LENGTH + 8;  // an odd number of 16-byte pieces: those of 8 lines are in different banks
    FACTOR lines[LINES][LD];

    // The 16 x 16 elements that begin at `offset` along m or n, and at k.
    template <typename Fragment>
    __device__ __forceinline__ void load(Fragment& fragment, int offset, int k) const {
        wmma::load_matrix_sync(fragment, ALONG_K ? &lines[offset][k] : &lines[k][offset], LD);
    }
};

// What one of THREADS threads moves of an operand: 16-byte pieces of the next tile along k, from global memory to registers,
// and from there to shared memory.
template <typename Tile, int THREADS>
struct HalfStream {
    static constexpr int IN_LINE = Tile::LENGTH / 8;
    static constexpr int PIECES = Tile::LINES * IN_LINE / THREADS;

    const FACTOR* next;  // where the next tile begins
    int ld;
    int inside;  // rows of A, or columns of B, from there to the matrix's end
    uint4 pieces[PIECES];

    // Of a matrix of the batch, the tiles from `offset` along m or n, of which the matrix has `size`.
    __device__ __forceinline__ HalfStream(const Factor<FACTOR>& operand, int matrix, int offset, int size)
        : next(operand.data + matrix * operand.batch_stride), ld(operand.ld), inside(size - offset) {
        next = Tile::ALONG_K ? at(next, ld, offset, 0) : next + offset;
    }

    // Loads the next tile's pieces; the matrix ends `depth` elements along k from where the tile begins.
    __device__ __forceinline__ void load(int depth) {
        const int lines = Tile::ALONG_K ? inside : depth;
        const int length = Tile::ALONG_K ? depth : inside;
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            pieces[i] = load8(next, ld, lines, length, piece / IN_LINE, piece % IN_LINE * 8);
        }
        next = Tile::ALONG_K ? next + Tile::DEPTH : at(next, ld, Tile::DEPTH, 0);
    }

    __device__ __forceinline__ void store(Tile& tile) const {
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const int piece = i * THREADS + threadIdx.x;
            *reinterpret_cast<uint4*>(&tile.lines[piece / IN_LINE][piece % IN_LINE * 8]) = pieces[i];
        }
    }
};
