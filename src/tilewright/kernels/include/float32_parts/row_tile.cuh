// A tile of A in shared memory as parts (part_pairs.cuh) of ROWS rows, TILE_K of k: what wgmma reads as its B. Warpgroups load the
// float32 elements from memory, split them, and store their parts:
//
//   memory, by lines of k   -->  registers, one or two steps ahead: 16 k of a row  -->  parts: ROWS lines of 64 bytes each
//
// The order of k within 16 is that in which the other factor is read (column_tile.cuh). Pieces of a line are exchanged with a swizzle
// of 64 bytes (matrix_descriptor.cuh). Where SCALED is 1, 16 rows have a scale in common: a warp loads these.
#pragma once

#include "float32_parts/part_pairs.cuh"
#include "float32_parts/column_tile.cuh"
#include "operands.cuh"
#include "ptx/matrix_descriptor.cuh"
#include "tile_io.cuh"

template <int ROWS>
struct RowTile {
    static constexpr int BYTES = TILE_K * sizeof(Pair::PartType);  // of a line
    unsigned char parts[SPLIT_PARTS][ROWS * BYTES];

    // Of 16 k from 16 * step on.
    __device__ __forceinline__ MatrixDescriptor at(int part, int step) const {
        return matrix_descriptor<BYTES>(parts[part]) + step * STEP_BYTES;
    }
};

// What products of a tile's rows are multiplied by; of no use where SCALED is 0.
template <int ROWS>
struct RowScales {
    static constexpr int RUN = 16;  // rows
    float of_runs[SCALED && ROWS > RUN ? ROWS / RUN : 1];
};

// What one of THREADS threads loads and splits of ROWS rows of A, which is row-major and aligned, and TILES tiles of k. Order: the
// ColumnOrder of the other factor.
template <typename Order, int ROWS, int TILES, int THREADS>
class RowSplitter {
    static constexpr int UNITS = ROWS * 2 * TILES, EACH = (UNITS + THREADS - 1) / THREADS;  // of 16 k; of a thread
    static constexpr int BUFFERS = EACH == 1 ? 2 : 1;            // of them, as there are registers
    static constexpr int LANES = ROWS < 16 ? 2 * ROWS : 32;      // of a warp, that load from one tile

  public:
    SeenRange watch;

    // Rows from `row` on; k from `k` on.
    __device__ __forceinline__ RowSplitter(const Factor<float>& factor, const Sizes& sizes, int matrix, int row, int k,
                                             int thread)
        : thread(thread), rows(sizes.m - row), depth(sizes.k - k) {
        const float* const first = at(factor.matrix(matrix), factor.ld, row, k);
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            next[i] = at(first, factor.ld, row_of(i), 16 * step_of(i));
#pragma unroll
            for (int half = 0; half < 2; ++half) offsets[i][half] = offset_of(i, half);
            pin(offsets[i]);  // so that they are not computed anew for each tile
        }
#pragma unroll
        for (int buffer = 0; buffer < BUFFERS; ++buffer) load(buffer);
    }

    // Stores a step's tiles, and loads those of the step BUFFERS further on.
    __device__ __forceinline__ void store(RowTile<ROWS> (&to)[TILES], RowScales<ROWS> (&scales)[TILES], int step) {
        if (BUFFERS == 1 || step % 2 == 0) {
            store_from<0>(to, scales);
        } else {
            store_from<BUFFERS - 1>(to, scales);
        }
    }

  private:
    template <int BUFFER>
    __device__ __forceinline__ void store_from(RowTile<ROWS> (&to)[TILES], RowScales<ROWS> (&scales)[TILES]) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const float scale = watch.see(elements[BUFFER][i]);
            if (!has(i)) continue;
            const int tile = step_of(i) / 2;
            if (SCALED && thread % LANES == 0) scales[tile].of_runs[row_of(i) / RowScales<ROWS>::RUN] = scale;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint4 piece[SPLIT_PARTS];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float* const pair = &elements[BUFFER][i][2 * Order::pair(half, j)];
                    unsigned parts[SPLIT_PARTS];
                    split_pair(pair[0], pair[1], parts);
#pragma unroll
                    for (int t = 0; t < SPLIT_PARTS; ++t) reinterpret_cast<unsigned*>(&piece[t])[j] = parts[t];
                }
#pragma unroll
                for (int t = 0; t < SPLIT_PARTS; ++t) *reinterpret_cast<uint4*>(&to[tile].parts[t][offsets[i][half]]) = piece[t];
            }
        }
        load(BUFFER);
    }

    __device__ __forceinline__ bool has(int i) const { return UNITS % THREADS == 0 || thread + THREADS * i < UNITS; }
    // Two neighbouring threads load neighbours, and eight store to distinct banks.
    __device__ __forceinline__ int row_of(int i) const { return (thread + THREADS * i) / 2 % ROWS; }
    __device__ __forceinline__ int step_of(int i) const { return (thread + THREADS * i) / (2 * ROWS) * 2 + thread % 2; }
    __device__ __forceinline__ unsigned offset_of(int i, int half) const {
        return swizzled<RowTile<ROWS>::BYTES>(row_of(i), step_of(i) % 2 * 2 + half);
    }

    // Loads the next step's elements. Without edges, the last step's once more where there is none: unconditional loads are not waited
    // for here.
    __device__ __forceinline__ void load(int buffer) {
        depth -= TILES * TILE_K;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int left = has(i) && row_of(i) < rows ? depth + TILES * TILE_K - 16 * step_of(i) : 0;
#pragma unroll
            for (int j = 0; j < 16; j += 4) {
                if (EDGES ? left >= j + 4 : has(i)) {
                    load_run<4>(&elements[buffer][i][j], next[i] + j);
                } else {
#pragma unroll
                    for (int e = j; e < j + 4; ++e) elements[buffer][i][e] = EDGES && e < left ? next[i][e] : 0.0f;
                }
            }
            next[i] += EDGES || depth > 0 ? TILES * TILE_K : 0;
        }
    }

    const int thread, rows;
    int depth;                // of k, from those on that are loaded next
    const float* next[EACH];  // where those are
    unsigned offsets[EACH][2];  // in a tile, of 8 of a thread's elements each
    float elements[BUFFERS][EACH][16];
};
