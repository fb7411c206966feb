// Tiles of factors in shared memory, in 16-byte pieces of lines along k, or of lines across k, at one k each, of elements of 16
// bits. Asynchronous copies fill them, and ldmatrix loads fragments (mma.cuh) from them.
//
// The pieces of a line are exchanged, so that a warp, which loads one piece of each of 8 lines at a time, finds them on distinct
// banks. Four pieces a line, as of 32 elements of 16 bits:
//
//     lines 0, 1    0 1 2 3  0 1 2 3     128 bytes of shared memory
//           2, 3    1 0 3 2  1 0 3 2
//           4, 5    2 3 0 1  2 3 0 1
//           6, 7    3 2 1 0  3 2 1 0
//
// Where factors lie at any address, lines have one piece more (shifted_copies.cuh): an odd number, so that their pieces need no
// exchange to lie on distinct banks.
#pragma once

#include "operands.cuh"
#include "ptx/async_copy.cuh"
#include "ptx/load_matrix.cuh"
#include "ptx/mma.cuh"
#include "tile_io.cuh"

// Whether factors lie in memory as the caller's, at any address; others are copies that start at multiples of 16 bytes.
constexpr bool ANY_ADDRESS = !ALIGNED && SPLIT_PARTS == 1 && sizeof(FACTOR) == 2;

// Of EXTENT sides, rows of A or columns of B, and BK of k. ALONG_K: lines are sides.
template <typename T, bool ALONG_K, int EXTENT>
struct FragmentTile {
    static_assert(ALONG_K || sizeof(T) == 2, "ldmatrix transposes elements of 16 bits");
    static constexpr int PIECE = 16 / sizeof(T);  // elements
    static constexpr int LINES = ALONG_K ? EXTENT : BK;
    static constexpr int PIECES = (ALONG_K ? BK : EXTENT) / PIECE;
    static constexpr int SWIZZLED = PIECES < 8 ? PIECES : 8;
    uint4 pieces[LINES][PIECES + ANY_ADDRESS];

    static __device__ __forceinline__ int offset_of(int line, int piece) {
        return ANY_ADDRESS ? piece : piece ^ line / (8 / SWIZZLED) % SWIZZLED;
    }

    // Loads four matrices of 8 sides and 16 bytes of k: of 16 sides from `side` on and of k from `k` on. SIDES_FIRST: those of 16
    // sides are neighbours.
    template <bool SIDES_FIRST>
    __device__ __forceinline__ void load(unsigned (&words)[4], int side, int k) const {
        const int lane = threadIdx.x % 32, low = lane / 8 % 2, high = lane / 16;
        const int sides = side / 8 + (SIDES_FIRST ? low : high), piece = k / PIECE + (SIDES_FIRST ? high : low);  // in eights, in pieces
        if constexpr (ALONG_K) {
            const int line = 8 * sides + lane % 8;
            load_matrices(words, reinterpret_cast<const unsigned*>(&pieces[line][offset_of(line, piece)]));
        } else {
            const int line = 8 * piece + lane % 8;
            load_matrices_transposed(words, reinterpret_cast<const unsigned*>(&pieces[line][offset_of(line, sides)]));
        }
#pragma unroll
        for (int i = 0; sizeof(T) == 4 && i < 4; ++i) words[i] = round_to_tf32(words[i]);
    }

    // Fragments of A: 16 rows each, the first from `row` on.
    template <int COUNT>
    __device__ __forceinline__ void load_rows(unsigned (&fragments)[COUNT][4], int row, int k) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) load<true>(fragments[i], row + 16 * i, k);
    }

    // Fragments of B: 8 columns each, the first from `col` on.
    template <int COUNT>
    __device__ __forceinline__ void load_columns(unsigned (&fragments)[COUNT][2], int col, int k) const {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            unsigned words[4];
            load<false>(words, col + 8 * i, k);
#pragma unroll
            for (int j = 0; j < 4; ++j) fragments[i + j / 2][j % 2] = words[j];
        }
    }
};

// What one of THREADS threads copies of a factor: of each of COUNT matrices of `sides` rows (or columns), right behind each other,
// tile after tile along k.
template <typename T, bool ALONG_K, int EXTENT, int COUNT, int THREADS, bool = ANY_ADDRESS>
class TileCopies {
    using Tile = FragmentTile<T, ALONG_K, EXTENT>;

  public:
    // Of a matrix of the batch, the tiles from side `first` and from `k` on.
    __device__ __forceinline__ TileCopies(const Factor<T>& factor, int matrix, int sides, int first, int k)
        : next(at(factor.matrix(matrix), factor.ld, line_of(0) + (ALONG_K ? first : k), piece() * Tile::PIECE + (ALONG_K ? k : first))),
          stride(static_cast<long long>(sides) * factor.ld),
          ld(factor.ld),
          inside(sides - first) {}

    // Starts to copy the next tile, from whose start the matrices have `depth` elements along k.
    __device__ __forceinline__ void start(Tile (&to)[COUNT], int depth, int /* step */) {
        const int lines = ALONG_K ? inside : depth, length = (ALONG_K ? depth : inside) - piece() * Tile::PIECE;
        const int bytes = EDGES ? min(max(length, 0), Tile::PIECE) * static_cast<int>(sizeof(T)) : 16;
#pragma unroll
        for (int t = 0; t < COUNT; ++t) {
#pragma unroll
            for (int i = 0; i < PASSES; ++i) {
                const int line = line_of(i);
                uint4* const into = &to[t].pieces[line][Tile::offset_of(line, piece())];
                copy_async_first(into, at(next + t * stride, ld, line - line_of(0), 0), !EDGES || line < lines ? bytes : 0);
            }
        }
        next += ALONG_K ? BK : static_cast<long long>(BK) * ld;
    }

    // Moves what this warp has copied of a tile into place: it is there.
    __device__ __forceinline__ void shift(Tile (&)[COUNT], int, int) const {}

  private:
    static constexpr int PASSES = Tile::LINES * Tile::PIECES / THREADS;  // of a matrix's tile

    static __device__ __forceinline__ int piece() { return threadIdx.x % Tile::PIECES; }
    static __device__ __forceinline__ int line_of(int i) { return i * (THREADS / Tile::PIECES) + threadIdx.x / Tile::PIECES; }

    const T* next;    // of the first matrix
    long long stride;  // elements from one to the next
    int ld, inside;   // sides from the tile's first on
};
