// Matrix descriptors: where a factor of a warpgroup's product lies in shared memory, and how (wgmma; sm_90a alone).
//
// Elements have 16 bits; those of TF32, floats, have 32, and those of float8 have 8. A tile is made of lines of 128 bytes, which
// are 64 elements, 32 or 128, and begin at a multiple of 1024 bytes; the 16-byte pieces of a line are exchanged as TMA does with a swizzle of 128 bytes:
//
//     line 0  | 0 1 2 3 4 5 6 7 |      a piece's number is xored with that of its line, modulo 8
//     line 1  | 1 0 3 2 5 4 7 6 |      so the same piece of 8 lines lies in different banks
//     line 2  | 2 3 0 1 6 7 4 5 | ...
//
// Along k (a row-major A, a column-major B) a line is 64 k, 32 or 128, of one row of A or column of B. Across k (a column-major A,
// a row-major B) it is 64 rows or columns at one k; a wider tile is several such blocks of lines. TF32 and float8 lie along k alone.
//
//     bits 0-13   start of the matrix, 16-29 leading offset, 32-45 stride offset: each in bytes / 16
//     bits 62-63  1: a swizzle of 128 bytes, 2: of 64
//
// Lines of half the length, 32 elements of 16 bits or 64 of float8, are exchanged with a swizzle of 64 bytes: a piece's number is
// xored with half that of its line, modulo 4. Their tile begins at a multiple of 512 bytes.
#pragma once

#include "ptx/shared_address.cuh"

enum class Major { along_k, across_k };

// Whether lines of elements of T may lie across k.
template <typename T>
constexpr bool MAY_CROSS_K = sizeof(T) == 2;

constexpr int LINE = 64;          // elements of a line, of 16 bits
constexpr int LINE_BYTES = 128;
constexpr int STEP_BYTES = 32;     // of a line along k, that one instruction reads: 16 k, 8 or 32

struct MatrixDescriptor {
    unsigned long long bits;

    // The same matrix this many bytes further on: STEP_BYTES for the next step along k, 16 lines for those across k.
    __device__ __forceinline__ MatrixDescriptor operator+(int bytes) const { return {bits + (bytes >> 4)}; }
};

// leading: bytes from one block of lines to the next, where they lie across k. BYTES: of a line.
template <int BYTES = LINE_BYTES>
__device__ __forceinline__ MatrixDescriptor matrix_descriptor(const void* tile, int leading = 0) {
    static_assert(BYTES == 128 || BYTES == 64, "a line is as long as the swizzle");
    const unsigned long long start = (shared_address(tile) & 0x3ffff) >> 4;
    return {start | static_cast<unsigned long long>(leading >> 4) << 16 |
            static_cast<unsigned long long>(8 * BYTES >> 4) << 32 | (BYTES == 128 ? 1ull : 2ull) << 62};
}

// Byte of a tile at which piece `piece` (of 16 bytes) of a line lies.
template <int BYTES = LINE_BYTES>
__device__ __forceinline__ unsigned swizzled(unsigned line, unsigned piece) {
    return line * BYTES + (piece ^ line * BYTES / LINE_BYTES % (BYTES / 16)) * 16;
}
