// Sums of a warpgroup (wgmma.cuh) to memory by the copy engine: lanes write results of 16 bits to shared memory that no other warp
// uses, 16 rows x 64 columns at a time, and one lane has them stored. What lies outside of D is left out. The warp goes on, and
// waits only before it writes there again, so that the next tile is multiplied while this one is stored.
//
//     lanes         | wait, write pairs, fence_async_shared | __syncwarp |       | wait, write ... (the next of SLOTS)
//     elected lane  | wait_tiles_read                                    | store | wait_tiles_read ...
//
// Where rows of D are not aligned, or end within 16 bytes, of which the copy engine stores all, or where results are not of 16 bits,
// threads store (warpgroup.cuh).
#pragma once

#include "epilogue/result.cuh"
#include "ptx/elect.cuh"
#include "ptx/matrix_descriptor.cuh"
#include "ptx/tensor_map.cuh"

// A base of this takes no memory where there is none.
template <int BYTES>
struct StoredLines {
    unsigned char lines[BYTES];
};
template <>
struct StoredLines<0> {};

// WARPS: of a block, that store. SLOTS: how often each has memory for 16 x 64 results, a divisor of how many such a tile has; or 0,
// and threads store.
template <int WARPS, int SLOTS>
struct StoredTiles : StoredLines<WARPS * SLOTS * 16 * LINE_BYTES> {
    // Whether the copy engine stores results of type T.
    template <typename T>
    static constexpr bool by_tma = SLOTS > 0 && ALIGNED && sizeof(T) == 2;

    // The `part`-th 64 rows of a consumer's tile, with element (row, col) of D at their corner. map: of D. biases: of these columns
    // (warp_biases.cuh).
    template <typename T, int COUNT, typename Biases>
    __device__ __forceinline__ void store(const Result<T>& result, const TensorMap* map, int matrix, int part, int row, int col,
                                          const Number<T> (&sums)[COUNT], const Biases& biases) {
        constexpr int BLOCKS = COUNT / 32;
        const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
        row += warp % 4 * 16;
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            unsigned char* const slot = &this->lines[(warp * SLOTS + (part * BLOCKS + block) % SLOTS) * 16 * LINE_BYTES];
            if (elect_one()) wait_tiles_read<SLOTS - 1>();
            __syncwarp();
            if (result.beta == 0.0f) {
                write<false>(result, row, col, block, sums, biases, slot);
            } else {
                write<true>(result, row, col, block, sums, biases, slot);
            }
            fence_async_shared();
            __syncwarp();
            if (elect_one()) {
                store_tile_async(map, col + 64 * block, row, matrix, slot);
                commit_tiles();
            }
        }
    }

    // By a warp, before it ends.
    __device__ __forceinline__ void wait_stored() {
        if (SLOTS > 0 && elect_one()) wait_tiles_read<0>();
    }

  private:
    template <bool ADDS_C, typename T, int COUNT, typename Biases>
    __device__ __forceinline__ void write(const Result<T>& result, int row, int col, int block, const Number<T> (&sums)[COUNT],
                                          const Biases& biases, unsigned char* slot) const {
        const int lane = threadIdx.x % 32;
        const Number<T> of_rows[] = {result.bias.of_row(row + lane / 4), result.bias.of_row(row + lane / 4 + 8)};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int at = 8 * block + i;
            Number<T> of_columns[2];
            biases.get(at, of_columns);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int line = lane / 4 + 8 * half;
                Number<T> pair[] = {sums[4 * at + 2 * half], sums[4 * at + 2 * half + 1]};
                result.template finish_pair<ADDS_C>(pair, row + line, col + 8 * at + lane % 4 * 2, of_rows[half], of_columns);
                store_run<2>(reinterpret_cast<T*>(slot + swizzled(line, i) + lane % 4 * 4), pair);
            }
        }
    }
};
