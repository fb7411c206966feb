// Products of a tile of B, split in registers, and of the parts of A's rows in shared memory (row_tile.cuh): D^T = B^T A^T, of 64
// columns of B by a warpgroup.
//
// Products of parts (stage_products.cuh): six of three, three of two. Tensor cores cut off what does not fit into a sum, so their sums
// begin anew, and threads add them up: the largest product of each tile, and separately all others, which are small. A warp waits for
// room among the products that tensor cores have to make, so it splits the next tile after those that it starts:
//
//   tensor cores   | largest | other | other | other | ...    up to 64 rows:  sums of both kinds, those of others over a step,
//   threads        | load, split all of the next tile | add largest | ... add others              or where SCALED is 1 over a tile
//
//   tensor cores   | other | other | other | ... |            | largest |          128 rows:   registers for one kind at a time;
//   threads        | load, split all of the next | add others |         | add      another warpgroup multiplies meanwhile
//
// Where SCALED is 1, the 16 columns of a warp have a scale in common, and so do 16 rows of A: threads multiply by both as they add.
//
// The tensor cores read the registers of B's parts until the wait, but ptxas gives them to others as soon as the products have
// started (found on an H200). So what comes next goes to registers of its own, and takes their place by a choice that depends on
// a sum, so that it cannot come before the wait, and that seems to need them.
#pragma once

#include "float32_parts/part_pairs.cuh"
#include "float32_parts/row_tile.cuh"
#include "float32_parts/column_tile.cuh"
#include "ptx/wgmma.cuh"

template <bool ALONG_K, int COLS, int ROWS>
class RowProducts {
    using Tile = ColumnTile<ALONG_K, COLS>;

    static constexpr int COUNT = ROWS / 2;        // sums of a thread
    static constexpr bool SEPARATE = ROWS <= 64;     // whether there are registers for sums of both kinds
    static constexpr unsigned NEVER = 0x7fa5a5a5;  // a NaN that no tensor core makes
    using Scales = RowScales<ROWS>;

  public:
    SeenRange watch;

    // thread: of those that have the columns of a tile of B, 64 each warpgroup.
    __device__ __forceinline__ RowProducts(int thread, int exists) : thread(thread), exists(exists), offsets(thread) {}

    // Splits the first tile of B, which comes to be multiplied.
    __device__ __forceinline__ void begin(const Tile& tile) {
        split(tile);
        take(true);
    }

    // Adds the products of the tile that was taken last, the `first` or the `last` of a step. Meanwhile splits `then`, which comes
    // next, and takes it, if there is MORE.
    template <bool MORE>
    __device__ __forceinline__ void multiply(const RowTile<ROWS>& rows_of_a, const Scales& scales, bool first, bool last, const Tile& then) {
        if constexpr (SEPARATE) {
            float largest[COUNT];
            fence_sums(largest, now);
            start<0, 0>(largest, rows_of_a, false);
            fence_sums(others);
            start<SPLIT_PARTS - 1, 1>(others, rows_of_a, !SCALED && !first);
            if (MORE && exists) split(then);
            wait_products<1>(largest);
            add(largest, scales, 1.0f);
            wait_products<0>(others, now);
            if (SCALED || last) add(others, scales, 1.0f / PART_STEP);
            if (MORE) take(__float_as_uint(others[0]) != NEVER);
        } else {
            float partial[COUNT];
            fence_sums(partial, now);
            start<SPLIT_PARTS - 1, 1>(partial, rows_of_a, false);
            if (MORE && exists) split(then);
            wait_products<0>(partial);
            add(partial, scales, 1.0f / PART_STEP);
            fence_sums(partial);
            start<0, 0>(partial, rows_of_a, false);
            wait_products<0>(partial, now);
            add(partial, scales, 1.0f);
            if (MORE) take(__float_as_uint(partial[0]) != NEVER);
        }
    }

    // Stores the sums, those of a row of A in a line of shared memory.
    template <int PITCH>
    __device__ __forceinline__ void store(float (&to)[ROWS][PITCH]) const {
        const int lane = thread % 32, col = ColumnOrder<ALONG_K>::column_of(thread);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) to[i / 4 * 8 + lane % 4 * 2 + i % 2][col + i / 2 % 2 * ColumnOrder<ALONG_K>::SECOND] = sums[i];
    }

  private:
    // Starts products of parts whose numbers add up to MOST, then to less, until LEAST.
    template <int MOST, int LEAST>
    __device__ __forceinline__ void start(float (&partial)[COUNT], const RowTile<ROWS>& rows_of_a, bool adds) {
        int started = 0;
#pragma unroll
        for (int order = MOST; order >= LEAST; --order) {
#pragma unroll
            for (int part = 0; part <= order; ++part) {
#pragma unroll
                for (int i = 0; i < 2; ++i, ++started) {
                    multiply_async<Pair::PartType>(partial, now[i][part], rows_of_a.at(order - part, i), adds || started > 0);
                }
            }
        }
        commit_products();
    }

    // The thread's elements of a tile, which comes next.
    __device__ __forceinline__ void split(const Tile& tile) {
        float elements[16];
#pragma unroll
        for (int i = 0; i < 2; ++i) tile.read(elements + 8 * i, offsets, i);
        next_scale = watch.see(elements);
#pragma unroll
        for (int pair = 0; pair < 8; ++pair) {
            unsigned parts[SPLIT_PARTS];
            split_pair(elements[2 * pair], elements[2 * pair + 1], parts);
#pragma unroll
            for (int t = 0; t < SPLIT_PARTS; ++t) next[pair / 4][t][pair % 4] = parts[t];
        }
    }

    // What was split comes to be multiplied.
    __device__ __forceinline__ void take(bool certainly) {
#pragma unroll
        for (int i = 0; i < 2 * SPLIT_PARTS * 4; ++i) {
            unsigned& part = now[i / (SPLIT_PARTS * 4)][i / 4 % SPLIT_PARTS][i % 4];
            part = certainly ? next[i / (SPLIT_PARTS * 4)][i / 4 % SPLIT_PARTS][i % 4] : part;
        }
        now_scale = next_scale;
    }

    // step: what products are multiplied by besides.
    __device__ __forceinline__ void add(const float (&partial)[COUNT], const Scales& scales, float step) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if constexpr (SCALED) {
                sums[i] = fmaf(partial[i], scales.of_runs[2 * i / Scales::RUN] * (now_scale * step), sums[i]);
            } else {
                sums[i] += partial[i];
            }
        }
    }

    const int thread, exists;
    const ColumnOffsets<ALONG_K> offsets;
    float sums[COUNT] = {}, others[SEPARATE ? COUNT : 1];  // the latter made by tensor cores over a step
    unsigned now[2][SPLIT_PARTS][4], next[2][SPLIT_PARTS][4];  // of B, of 16 k each: what is multiplied, and what comes next
    float now_scale, next_scale;                   // of these
};
