// Moving parts of row-major matrices from global straight to shared memory, asynchronously; EDGES and ALIGNED as in
// tile_io.cuh.
#pragma once

#include "ptx/async_copy.cuh"
#include "tile_io.cuh"

// Starts to copy elements (row, col) to (row, col + 3) to a multiple of 16 bytes; col is a multiple of 4. Zeros
// outside.
__device__ __forceinline__ void copy4_async(float* shared, const float* X, int ld, int rows, int cols, int row,
                                            int col) {
    const float* x = at(X, ld, row, col);
    if (ALIGNED) {
        const int inside = row < rows ? min(max(cols - col, 0), 4) : 0;
        copy_async_first(shared, x, EDGES ? inside * 4 : 16);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) copy_async<4>(shared + i, x + i, !EDGES || (row < rows && col + i < cols));
    }
}
