// From a warpgroup's sums (wgmma.cuh) to D. They are sums of D (stored_tiles.cuh, warpgroup.cuh) or, where SWAPPED, of D^T, whose rows
// are columns of D: a lane has sums of two of every 8 rows of D, in two columns 8 apart, and adds C and the bias as they lie.
//
// The copy engine stores 64 rows x 64 columns of D at a time: the four warps, which have 16 columns each, write them to shared memory as
// 8 x 8 matrices that `stmatrix` transposes, each to the memory of the warp that has these 16 rows stored. Pieces of 16 bytes of 8 lines,
// swizzled, lie on different banks.
//
//     columns of D    0-15            16-31           32-47           48-63
//     rows 0-15     | warp 0 writes | warp 1 writes | warp 2 writes | warp 3 writes |   warp 0 has them stored
//     rows 16-31    | warp 0 writes | warp 1 writes | ...                               warp 1 has them stored
//
//     lanes         | finish |                 | sync | write, fence_async_shared | sync |       | finish (the next 64 rows) ...
//     elected lane           | wait_tiles_read |                                         | store |
//
// Where it does not store (stored_tiles.cuh), threads do, 8 columns of a row at a time.
#pragma once

#include "epilogue/stored_tiles.cuh"
#include "epilogue/warpgroup.cuh"
#include "ptx/keep.cuh"
#include "ptx/load_matrix.cuh"
#include "ptx/named_barrier.cuh"

// WARPS, SLOTS: as in StoredTiles.
template <bool SWAPPED, int WARPS, int SLOTS>
struct ResultTiles : StoredTiles<WARPS, SLOTS> {
    using Base = StoredTiles<WARPS, SLOTS>;

    // Of a consumer's tile of 64 * PARTS rows and COLS columns of what is computed, from the tile's first column of D on.
    template <typename T, int PARTS, int COLS>
    using Biases = WarpBiases<T, COLS>;

    // The `part`-th 64 rows of this tile, with element (row, col) at their corner. map: of D.
    template <typename T, int COUNT, typename Biases>
    __device__ __forceinline__ void store(const Result<T>& result, const TensorMap* map, int matrix, int part, int row, int col,
                                          const Number<T> (&sums)[COUNT], const Biases& biases) {
        if constexpr (Base::template by_tma<T>) {
            Base::store(result, map, matrix, part, row, col, sums, biases);
        } else {
            store_warpgroup(result, row, col, sums, biases);
        }
    }
};

// Of 64 columns of D that a warpgroup has sums of, the first of this lane's two, which are 8 apart.
__device__ __forceinline__ int own_column() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }

// The biases of a lane's columns of D, of PARTS times 64 columns from `col` on. They are loaded long before they are used, also by a
// cluster's last blocks, which may have no columns of D.
template <typename T, int PARTS>
struct LaneBiases {
    T of_columns[PARTS][2];

    __device__ __forceinline__ LaneBiases(const Bias<T>& bias, int col) {
#pragma unroll
        for (int i = 0; i < 2 * PARTS; ++i) {
            const int at = col + i / 2 * 64 + own_column() + i % 2 * 8;
            of_columns[i / 2][i % 2] = from_number<T>(at < bias.n ? bias.of_column(at) : Number<T>{});
        }
    }
};

template <int WARPS, int SLOTS>
struct ResultTiles<true, WARPS, SLOTS> : StoredTiles<WARPS, SLOTS> {
    using Base = StoredTiles<WARPS, SLOTS>;

    template <typename T, int PARTS, int COLS>
    using Biases = LaneBiases<T, PARTS>;

    template <typename T, int COUNT, int PARTS>
    __device__ __forceinline__ void store(const Result<T>& result, const TensorMap* map, int matrix, int part, int row, int col,
                                          const Number<T> (&sums)[COUNT], const LaneBiases<T, PARTS>& biases) {
        const Number<T> of_columns[] = {to_number(biases.of_columns[part][0]), to_number(biases.of_columns[part][1])};
        if constexpr (!Base::template by_tma<T>) {
            store_elements(result, row, col, sums, of_columns);
        } else {
#pragma unroll
            for (int first = 0; first < COUNT; first += 32) {  // the sums of 64 rows of D
                keep(col);
                unsigned words[16] = {};  // of two elements
                if (result.beta == 0.0f) {
                    finish<false>(result, first, row, col, sums, of_columns, words);
                } else {
                    finish<true>(result, first, row, col, sums, of_columns, words);
                }
                store_block<COUNT>(map, matrix, part * ((COUNT + 31) / 32) + first / 32, first, row, col, words);
            }
        }
    }

  private:
    // Where the i-th sum lies in D.
    static __device__ __forceinline__ int row_of(int col, int i) { return col + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
    static __device__ __forceinline__ int column_of(int row, int i) { return row + own_column() + i / 2 % 2 * 8; }

    // Makes elements of D of the sums from the `first` on, of 64 rows.
    template <bool ADDS_C, typename T, int COUNT>
    static __device__ __forceinline__ void finish(const Result<T>& result, int first, int row, int col, const Number<T> (&sums)[COUNT],
                                                  const Number<T> (&of_columns)[2], unsigned (&words)[16]) {
#pragma unroll
        for (int i = first; i < first + 32 && i < COUNT; ++i) {
            const int at_row = row_of(col, i);
            const Number<T> of_row = result.bias.of_row(at_row);
            const Number<T> x = result.template element<ADDS_C>(sums[i], at_row, column_of(row, i), of_row, of_columns[i / 2 % 2]);
            reinterpret_cast<T*>(words)[i - first] = from_number<T>(x);
        }
    }

    // By threads, row by row: with a check of each element the compiler has too many in hand, and spills.
    template <typename T, int COUNT>
    static __device__ __forceinline__ void store_elements(const Result<T>& result, int row, int col, const Number<T> (&sums)[COUNT],
                                                          const Number<T> (&of_columns)[2]) {
#pragma unroll
        for (int i = 0; i < COUNT; i += i % 2 ? 3 : 1) {  // the first of two sums of a row
            keep(col);  // else all rows' addresses are computed at once
            const int at_row = row_of(col, i), at_col = column_of(row, i);
            if (EDGES && at_row >= result.m) continue;
            const Number<T> of_row = result.bias.of_row(at_row);
            const Number<T> elements[] = {result.element(sums[i], at_row, at_col, of_row, of_columns[0]),
                                      result.element(sums[i + 2], at_row, at_col + 8, of_row, of_columns[1])};
            T* const d = at(result.D, result.ldd, at_row, at_col);
            if (!EDGES || at_col < result.n) d[0] = from_number<T>(elements[0]);
            if (!EDGES || at_col + 8 < result.n) d[8] = from_number<T>(elements[1]);
        }
    }

    // Has the copy engine store 64 rows, the `turn`-th of a consumer's tile, whose sums from the `first` on of COUNT they are of. No box
    // reaches past the tile's rows, where others store.
    template <int COUNT>
    __device__ __forceinline__ void store_block(const TensorMap* map, int matrix, int turn, int first, int row, int col,
                                                const unsigned (&words)[16]) {
        constexpr int BOX_ROWS = COUNT % 8 == 0 ? 16 : 8, WARP_BYTES = 16 * LINE_BYTES;
        const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
        unsigned char* const slot = &this->lines[turn % SLOTS * WARP_BYTES];
        if (elect_one()) wait_tiles_read<SLOTS - 1>();
        sync_named<128>(1 + warp / 4);
#pragma unroll
        for (int rows = 0; rows < 4 && first + 8 * rows < COUNT; ++rows) {  // 16 of D
            // A lane names the line of a row and the piece of 8 columns.
            const unsigned piece = swizzled(lane / 16 * 8 + lane % 8, warp % 4 * 2 + lane / 8 % 2);
            store_matrices_transposed(slot + (warp / 4 * 4 + rows) * SLOTS * WARP_BYTES + piece, &words[4 * rows]);
        }
        fence_async_shared();
        sync_named<128>(1 + warp / 4);
        if (elect_one()) {
#pragma unroll
            for (int line = 0; line < 16; line += BOX_ROWS) {
                const int at = 2 * first + warp % 4 * 16 + line;  // row of the tile
                if (at < 2 * COUNT) {
                    store_tile_async(map, row, col + at, matrix, slot + (warp * SLOTS * 16 + line) * LINE_BYTES);
                }
            }
            commit_tiles();  // though it be none: a warp's groups are counted
        }
    }
};
