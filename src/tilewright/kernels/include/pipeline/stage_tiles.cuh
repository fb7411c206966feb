// What a step along k loads into a stage: a tile of A and one of B, of factors made of parts one of each part. SWAP_AB: A and B are
// those of D^T = B^T A^T. A_IN_REGISTERS: threads read A, which lies across k (register_operand.cuh).
#pragma once

#include "elements.cuh"
#include "pipeline/cluster_grid.cuh"
#include "pipeline/swizzled_tile.cuh"

// ROWS x COLS: the tile of D. COUNT: parts of each factor. SHARING: blocks that load B for each other. Along k each loads as many lines,
// in eights, which may be more than B has.
template <int ROWS, int COLS, int COUNT, int SHARING>
struct StageTiles {
    static constexpr int DEPTH = LINE_BYTES / sizeof(FACTOR);  // of k
    // Where k is 0, nothing says in which order TF32 or float8 lies.
    static constexpr Major MAJOR_A = A_IN_REGISTERS || (TRANSPOSED_A && MAY_CROSS_K<FACTOR>) ? Major::across_k : Major::along_k;
    static constexpr Major MAJOR_B = TRANSPOSED_B || !MAY_CROSS_K<FACTOR> ? Major::along_k : Major::across_k;
    static constexpr int LOADED = MAJOR_B == Major::along_k ? (COLS + 8 * SHARING - 1) / (8 * SHARING) * 8 * SHARING : COLS;

    SwizzledTile<MAJOR_A, ROWS, DEPTH> A[COUNT];
    SwizzledTile<MAJOR_B, LOADED, DEPTH> B[COUNT];

    // Bytes that `load` loads of matrices of m rows and n columns.
    template <typename Grid>
    static __device__ __forceinline__ unsigned bytes(const Grid& grid, int m, int n) {
        const unsigned of_a = SwizzledTile<MAJOR_A, ROWS, DEPTH>::bytes(grid.of_row(), m);
        return COUNT * (of_a + SwizzledTile<MAJOR_B, LOADED, DEPTH>::bytes(grid.of_column(), n));
    }

    // Starts to load from row `row` of A, column `col` of B and from `k` on, in a grid of blocks that load parts for each other.
    // matrix_a, matrix_b: in the tensor maps' batches, whose matrices are parts: the first of them. map_a, map_b: of the factors of D.
    template <typename Grid>
    __device__ __forceinline__ void load(const Grid& grid, const TensorMap* map_a, const TensorMap* map_b, int row, int col, int k,
                                         int matrix_a, int matrix_b, Barrier* full) {
#pragma unroll 1
        for (int part = 0; part < COUNT; ++part) {
            A[part].load_shared(grid.of_row(), SWAP_AB ? map_b : map_a, row, k, matrix_a + part, full);
            B[part].load_shared(grid.of_column(), SWAP_AB ? map_a : map_b, col, k, matrix_b + part, full);
        }
    }
};
