// The blocks of a cluster as DOWN rows of ACROSS blocks, whose tiles of D lie alike. Those of a row have one tile of A, those of a
// column one of B, and each block loads a part of it for all of them:
//
//     rank 0   rank 2      each loads a half of A for both, and a half of B for the block above or below
//     rank 1   rank 3
//
// A cluster may have PARTS of these, of consecutive ranks, each of another part of k.
#pragma once

#include "ptx/cluster.cuh"

// COUNT blocks that load a tile for each other: which part this one loads, and a bit for each of them.
template <int COUNT>
struct Sharers {
    int part;
    unsigned short blocks;
};

template <int DOWN, int ACROSS, int PARTS = 1>
struct ClusterGrid {
    static constexpr int BLOCKS = DOWN * ACROSS;
    static constexpr int MATES = DOWN + ACROSS - 1;  // blocks of one row or column with this one, itself included

    const int first = PARTS == 1 ? 0 : cluster_rank() / BLOCKS * BLOCKS;  // rank
    const int row = cluster_rank() % DOWN, col = (cluster_rank() - first) / DOWN;

    __device__ __forceinline__ Sharers<ACROSS> of_row() const {
        unsigned blocks = 0;
#pragma unroll
        for (int other = 0; other < ACROSS; ++other) blocks |= 1 << other * DOWN;
        return {col, static_cast<unsigned short>(blocks << (first + row))};
    }
    __device__ __forceinline__ Sharers<DOWN> of_column() const {
        return {row, static_cast<unsigned short>(((1 << DOWN) - 1) << (first + col * DOWN))};
    }

    // Rank of one of the MATES: those of the column, then the others of the row.
    __device__ __forceinline__ int mate(int number) const {
        return first + (number < DOWN ? col * DOWN + number : (col + number - DOWN + 1) % ACROSS * DOWN + row);
    }
};
