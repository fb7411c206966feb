// Loads of 16-bit elements: as those of floats in tile_io.cuh. The elements are moved as bits, whichever type they are of.
#pragma once

#include "ptx/half.cuh"
#include "tile_io.cuh"

// The bits of the element at x, or of 0 where that lies outside its matrix.
__device__ __forceinline__ unsigned load_bits(const void* x, bool inside) {
    return EDGES && !inside ? 0 : *static_cast<const unsigned short*>(x);
}

// Elements (row, col) to (row, col + 7) of a rows x cols matrix; col is a multiple of 8.
template <typename T>
__device__ __forceinline__ uint4 load8(const T* X, int ld, int rows, int cols, int row, int col) {
    static_assert(sizeof(T) == 2, "8 elements are 16 bytes");
    const T* x = at(X, ld, row, col);
    if (ALIGNED && (!EDGES || (row < rows && col + 8 <= cols))) return *reinterpret_cast<const uint4*>(x);
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned low = load_bits(x + 2 * i, row < rows && col + 2 * i < cols);
        const unsigned high = load_bits(x + 2 * i + 1, row < rows && col + 2 * i + 1 < cols);
        pairs[i] = low | high << 16;
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}
