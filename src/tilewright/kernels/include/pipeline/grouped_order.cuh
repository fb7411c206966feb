// Which tiles a persistent block computes of a grouped product, in which order: of all tiles, counted through, one in `every`.
//
// Rows of D belong to groups, one behind the other, and offsets in the GPU's memory have the row where each group ends. Tiles are
// counted group by group, in a group as tile_order.cuh does, so that tiles of one group, which load the same B, are computed at
// the same time. The first tile of a group begins with its first row; the last one may reach into the next group, and of its
// rows those before `end` are the group's.
//
//     offsets 5, 5, 12; tiles of 4 rows and one column of tiles
//     row      0 1 2 3   4 | 5 6 7 8   9 10 11
//     group    0             2                        (group 1 is empty)
//     tile     0         1   2         3
//
// A warp looks at 32 groups at a time, one a lane: a sum over the lanes gives each group the number of its first tile, and a
// vote finds the group that a tile is of.
#pragma once

#include "pipeline/tile_order.cuh"

// ROWS, COLS, HIGH, DOWN, ACROSS: as in tile_order.cuh. All of it is called by whole warps.
template <int ROWS, int COLS, int HIGH, int DOWN = 1, int ACROSS = 1>
class GroupedOrder {
  public:
    int group;
    int row, col;  // the tile's first element
    int end;       // the row where its group ends

    // The tiles of this block, where `cluster` blocks are counted as one. Offsets that lie outside of the rows count as their ends.
    __device__ __forceinline__ GroupedOrder(const Sizes& sizes, const int* offsets, int cluster)
        : offsets(offsets),
          rows(sizes.m),
          groups(sizes.batch),
          tiles_n((sizes.n - 1) / (COLS * ACROSS) + 1),
          tile(block_index() / cluster),
          every(block_count() / cluster) {}

    // Goes on to the block's next tile; false where there is none.
    __device__ __forceinline__ bool next() {
        unsigned later = 0;  // the lanes whose groups end behind the tile
        while (!(later = __ballot_sync(0xffffffff, tile < own_tiles_end))) {
            if (first + 32 >= groups) return false;
            look_at_groups(first + 32);
        }
        const int lane = __ffs(later) - 1;
        const int begin = __shfl_sync(0xffffffff, own_begin, lane);
        end = __shfl_sync(0xffffffff, own_end, lane);
        group = first + lane;
        const int tiles_m = tiles_of(end - begin);
        const int in_group = tile - (__shfl_sync(0xffffffff, own_tiles_end, lane) - tiles_m * tiles_n);
        const TilePosition at = position_in_groups<HIGH>(in_group, tiles_m, tiles_n);
        row = begin + (at.row * DOWN + blockIdx.x % DOWN) * ROWS;
        col = (at.col * ACROSS + blockIdx.x / DOWN % ACROSS) * COLS;
        tile += every;
        return true;
    }

  private:
    const int* offsets;
    int rows, groups;   // of D
    int tiles_n;        // of a row of tiles
    int tile, every;    // the tile that comes next
    int first = -32;    // the group of lane 0
    int own_begin = 0, own_end = 0;  // rows of this lane's group
    int own_tiles_end = 0;           // the number behind its last tile

    static __device__ __forceinline__ int tiles_of(int count) {
        return count / (ROWS * DOWN) + (count % (ROWS * DOWN) != 0);
    }

    // Where a group ends; 0 for that before the first one.
    __device__ __forceinline__ int end_of(int number) const {
        return number < 0 ? 0 : min(max(offsets[min(number, groups - 1)], 0), rows);
    }

    // Goes on to 32 further groups, of which those behind the last one are empty.
    __device__ __forceinline__ void look_at_groups(int from) {
        const int lane = threadIdx.x % 32, tiles_before = __shfl_sync(0xffffffff, own_tiles_end, 31);
        first = from;
        own_begin = end_of(first + lane - 1);
        own_end = max(end_of(first + lane), own_begin);
        own_tiles_end = tiles_of(own_end - own_begin) * tiles_n;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int before = __shfl_up_sync(0xffffffff, own_tiles_end, distance);
            if (lane >= distance) own_tiles_end += before;
        }
        own_tiles_end += tiles_before;
    }
};
