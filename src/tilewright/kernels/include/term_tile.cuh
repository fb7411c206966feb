// Tiles of terms in shared memory: lines along k, of rows of A or columns of B, in 16-byte pieces. Asynchronous copies fill
// them, and ldmatrix loads fragments (mma.cuh) from them.
//
// The pieces of a line are exchanged, so that a warp, which loads one piece of each of 8 lines at a time, finds them on distinct
// banks. BK = 32, four pieces a line:
//
//     lines 0, 1    0 1 2 3  0 1 2 3     128 bytes of shared memory
//           2, 3    1 0 3 2  1 0 3 2
//           4, 5    2 3 0 1  2 3 0 1
//           6, 7    3 2 1 0  3 2 1 0
#pragma once

#include <async_copy.cuh>
#include <load_matrix.cuh>

#include "operands.cuh"
#include "tile_io.cuh"

template <int LINES>
struct TermTile {
    static constexpr int PIECES = BK / 8;
    uint4 pieces[LINES][PIECES];

    static __device__ __forceinline__ int place(int line, int piece) { return piece ^ line / (8 / PIECES) % PIECES; }

    // Loads four 8 x 8 matrices, 16 lines from `line` on and 16 k from `k` on; ALONG_K: those of 8 lines are neighbours.
    template <bool ALONG_K>
    __device__ __forceinline__ void load(unsigned (&words)[4], int line, int k) const {
        const int lane = threadIdx.x % 32, low = lane / 8 % 2, high = lane / 16;
        const int row = line + lane % 8 + 8 * (ALONG_K ? high : low), piece = k / 8 + (ALONG_K ? low : high);
        load_matrices(words, reinterpret_cast<const unsigned*>(&pieces[row][place(row, piece)]));
    }

    // Fragments of A: 16 rows each, the first from `row` on.
    template <int COUNT>
    __device__ __forceinline__ void load_rows(unsigned (&fragments)[COUNT][4], int row, int k) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) load<false>(fragments[i], row + 16 * i, k);
    }

    // Fragments of B: 8 columns each, the first from `col` on.
    template <int COUNT>
    __device__ __forceinline__ void load_columns(unsigned (&fragments)[COUNT][2], int col, int k) const {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            unsigned words[4];
            load<true>(words, col + 8 * i, k);
#pragma unroll
            for (int j = 0; j < 4; ++j) fragments[i + j / 2][j % 2] = words[j];
        }
    }
};

// What one of THREADS threads copies of a factor's terms, which are matrices of `lines` lines each, right behind each other.
template <int LINES, int THREADS>
class TermCopies {
  public:
    // Of a matrix of the batch, the tiles from line `first` on.
    __device__ __forceinline__ TermCopies(const Factor<FACTOR>& factor, int matrix, int lines, int first)
        : next(at(factor.matrix(matrix), factor.ld, first + line_of(0), piece() * 8)),
          term(static_cast<long long>(lines) * factor.ld),
          ld(factor.ld),
          inside(lines - first) {}

    // Starts to copy the next tile along k, of which the matrix has `depth` elements or more.
    __device__ __forceinline__ void start(TermTile<LINES> (&to)[TERMS], int depth) {
        const int bytes = EDGES ? min(max(depth - piece() * 8, 0), 8) * static_cast<int>(sizeof(FACTOR)) : 16;
#pragma unroll
        for (int t = 0; t < TERMS; ++t) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                const int line = line_of(i);
                uint4* const into = &to[t].pieces[line][TermTile<LINES>::place(line, piece())];
                copy_async_first(into, at(next + t * term, ld, line - line_of(0), 0), !EDGES || line < inside ? bytes : 0);
            }
        }
        next += BK;
    }

  private:
    static constexpr int PIECES = TermTile<LINES>::PIECES;
    static constexpr int COUNT = LINES * PIECES / THREADS;  // of a term's tile

    static __device__ __forceinline__ int piece() { return threadIdx.x % PIECES; }
    static __device__ __forceinline__ int line_of(int i) { return i * (THREADS / PIECES) + threadIdx.x / PIECES; }

    const FACTOR* next;  // of the first term
    long long term;      // elements from one to the next
    int ld, inside;      // lines from the tile's first on
};
