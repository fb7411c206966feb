// Which tiles a persistent block computes, in which order: of all tiles, counted through, one in `every`.
//
// Tiles are counted matrix by matrix of a batch, by groups of rows of HIGH rows of tiles, in a group column by column. So tiles that are
// computed at the same time are neighbours in both directions, and what they load of A and B is in the L2 cache more often:
//
//     HIGH = 2    0   2   4   6
//                 1   3   5   7
//                 8   9  10  11      (the last group may have fewer rows)
#pragma once

#include "operands.cuh"
#include "ptx/keep.cuh"
#include "ptx/thread_index.cuh"

// Where a tile of a matrix lies, in rows and columns of tiles.
struct TilePosition {
    int row, col;
};

// Where tile `number` of tiles_m x tiles_n lies. A division takes 0.1 us, with which a block begins: most need none.
template <int HIGH>
__device__ __forceinline__ TilePosition position_in_groups(unsigned number, int tiles_m, int tiles_n) {
    unsigned first = 0, in_group = number;  // row of tiles of the group
    const unsigned tiles_of_group = HIGH * tiles_n;
    if (number >= tiles_of_group) {
        first = number / tiles_of_group * HIGH;
        in_group -= first * tiles_n;
    }
    const unsigned rows = min(tiles_m - first, HIGH);
    const unsigned col = rows == HIGH ? in_group / HIGH : in_group / rows;
    return {static_cast<int>(first + in_group - col * rows), static_cast<int>(col)};
}

// ROWS x COLS: a tile. The blocks of a cluster compute DOWN x ACROSS tiles next to each other, counted as one: where some of
// them have no rows or no columns, they get a `row` or a `col` past the end. Ranks go down first.
//
//     for (TileOrder<BM, BN, GROUP_M> tile(sizes, blockIdx.x, gridDim.x); tile.next();) { ... }
template <int ROWS, int COLS, int HIGH, int DOWN = 1, int ACROSS = 1>
class TileOrder {
  public:
    int matrix;    // of the batch
    int row, col;  // the tile's first element

    // Tile `first` and those `every` further on.
    __device__ __forceinline__ TileOrder(const Sizes& sizes, int first, int every)
        : tiles_m((sizes.m - 1) / (ROWS * DOWN) + 1),
          tiles_n((sizes.n - 1) / (COLS * ACROSS) + 1),
          tiles(sizes.batch * tiles_m * tiles_n),
          tile(first),
          every(every) {}

    // The tiles of this block, from its number `number` on, where `cluster` blocks are counted as one. What follows from the sizes
    // for all tiles is computed at each call, and takes no register between.
    static __device__ __forceinline__ TileOrder of_block(Sizes sizes, int cluster, int number) {
        keep(sizes.m);
        keep(sizes.n);
        keep(sizes.batch);
        const int every = block_count() / cluster;
        return TileOrder(sizes, block_index() / cluster + number * every, every);
    }

    // Goes on to the block's next tile; false where there is none.
    __device__ __forceinline__ bool next() {
        if (tile >= tiles) return false;
        const unsigned of_matrix = tiles_m * tiles_n, number = tile;
        matrix = number < of_matrix ? 0 : number / of_matrix;
        const TilePosition at = position_in_groups<HIGH>(number - matrix * of_matrix, tiles_m, tiles_n);
        row = (at.row * DOWN + blockIdx.x % DOWN) * ROWS;
        col = (at.col * ACROSS + blockIdx.x / DOWN % ACROSS) * COLS;
        tile += every;
        return true;
    }

    // Whether the tile has rows and columns.
    __device__ __forceinline__ bool exists(const Sizes& sizes) const { return row < sizes.m && col < sizes.n; }

  private:
    int tiles_m, tiles_n;  // of a matrix
    int tiles;             // of all
    int tile, every;       // the tile that comes next
};
