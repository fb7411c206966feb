// Moving parts of row-major matrices between global memory, shared memory and registers.
//
// Two macros come from the engine, which sets them from the problem, so that a problem pays only for what it needs:
//   EDGES    1: some tile reaches past a matrix. Accesses are bounds-checked; elements outside read as 0.
//   ALIGNED  1: every row starts at a multiple of 16 bytes, so that four elements can move as one float4.
#pragma once

// Address of element (row, col). The product is taken in 64 bits: a matrix may have more than 2^31 elements.
template <typename T>
__device__ __forceinline__ T* at(T* X, int ld, int row, int col) {
    return X + static_cast<long long>(row) * ld + col;
}

// The element at x, or 0 where that lies outside its matrix: zeros add nothing to a product.
__device__ __forceinline__ float load(const float* x, bool inside) {
    return EDGES && !inside ? 0.0f : *x;
}

// Element (row, col) of a rows x cols matrix, 0 outside of it.
__device__ __forceinline__ float load(const float* X, int ld, int rows, int cols, int row, int col) {
    return load(at(X, ld, row, col), row < rows && col < cols);
}

// Elements (row, col) to (row, col + 3); col is a multiple of 4.
__device__ __forceinline__ float4 load4(const float* X, int ld, int rows, int cols, int row, int col) {
    if (ALIGNED && (!EDGES || (row < rows && col + 4 <= cols))) {
        return *reinterpret_cast<const float4*>(at(X, ld, row, col));
    }
    return make_float4(load(X, ld, rows, cols, row, col), load(X, ld, rows, cols, row, col + 1),
                       load(X, ld, rows, cols, row, col + 2), load(X, ld, rows, cols, row, col + 3));
}

// Four neighbouring elements of shared memory, from a 16-byte boundary on.
__device__ __forceinline__ void load_float4(float* to, const float* shared) {
    const float4 four = *reinterpret_cast<const float4*>(shared);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
}

// The way back.
__device__ __forceinline__ void store_float4(float* shared, const float* from) {
    *reinterpret_cast<float4*>(shared) = make_float4(from[0], from[1], from[2], from[3]);
}

// COUNT neighbouring elements of shared memory, a multiple of 4, from a 16-byte boundary on.
template <int COUNT>
__device__ __forceinline__ void load_fragment(float (&fragment)[COUNT], const float* shared) {
    static_assert(COUNT % 4 == 0, "a fragment is read as whole float4s");
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) load_float4(&fragment[i], shared + i);
}
