// Copies of a 16-bit factor's tiles (fragment_tile.cuh) whose lines start at any address.
//
// cp.async moves pieces whose addresses are multiples of 16. Those come that a line's elements lie in, one more than it has, and the
// warp that copied them shifts them into place:
//
//     memory           | . . . 0 1 2 3 4 | 5 6 7 8 9 10 11 12 | 13 14 15 . . . . . |      pieces of 8 elements; the line starts 6 bytes in
//     pieces and end   | . . . 0 1 2 3 4 | 5 6 7 8 9 10 11 12 | 13 14 15 0 0 0 0 0 |      copied
//     pieces           | 0 1 2 3 4 5 6 7 | 8 9 10 11 .. 15    |                           shifted
//
// What lies before a line is the end of the one before, or what is between them, or before a matrix: that is not read.
#pragma once

#include "pipeline/fragment_tile.cuh"

// The 16 bytes that begin `skew` (even) bytes behind the first of 32. No array: ptxas would keep it in local memory.
__device__ __forceinline__ uint4 shifted(const uint4& first, const uint4& second, int skew) {
    const bool two = skew & 8, one = skew & 4;
    const unsigned a0 = two ? first.z : first.x, a1 = two ? first.w : first.y, a2 = two ? second.x : first.z,
                   a3 = two ? second.y : first.w, a4 = two ? second.z : second.x, a5 = two ? second.w : second.y;
    const unsigned b0 = one ? a1 : a0, b1 = one ? a2 : a1, b2 = one ? a3 : a2, b3 = one ? a4 : a3, b4 = one ? a5 : a4;
    const int bits = skew % 4 * 8;
    return make_uint4(__funnelshift_r(b0, b1, bits), __funnelshift_r(b1, b2, bits), __funnelshift_r(b2, b3, bits),
                      __funnelshift_r(b3, b4, bits));
}

// Of a thread: its pieces, and some of its warp's ends.
template <typename T, bool ALONG_K, int EXTENT, int THREADS>
class TileCopies<T, ALONG_K, EXTENT, 1, THREADS, true> {
    using Tile = FragmentTile<T, ALONG_K, EXTENT>;

    // A piece of each tile, where it is copied from.
    struct Piece {
        const T* from;  // a multiple of 16 bytes
        int skew;       // bytes from there to the piece's first element

        __device__ __forceinline__ Piece() = default;
        __device__ __forceinline__ explicit Piece(const T* first) : skew(reinterpret_cast<unsigned long long>(first) % 16) {
            from = first - skew / static_cast<int>(sizeof(T));
        }

        // Starts to copy at most `most` bytes; of the line, `bytes` are left from the piece's first element on.
        __device__ __forceinline__ void start(uint4* to, int bytes, int most) const {
            copy_async_first(to, from, min(max(bytes + skew, 0), most));
        }
        __device__ __forceinline__ void step(int ld) { from += ALONG_K ? BK : static_cast<long long>(BK) * ld; }
    };

  public:
    // Of a matrix of the batch, the tiles from side `first` and from `k` on.
    __device__ __forceinline__ TileCopies(const Factor<T>& factor, int matrix, int sides, int first, int k)
        : tile(at(factor.matrix(matrix), factor.ld, ALONG_K ? first : k, ALONG_K ? k : first)),
          ld(factor.ld),
          inside(sides - first),
          gaps(!ALONG_K && first == 0 && factor.ld > sides) {
#pragma unroll
        for (int i = 0; i < PASSES; ++i) pieces[i] = Piece(at(tile, ld, line_of(i), number() * Tile::PIECE));
#pragma unroll
        for (int i = 0; i < ENDS; ++i) ends[i] = Piece(at(tile, ld, end_line(i), Tile::PIECES * Tile::PIECE));
        shifts = reinterpret_cast<unsigned long long>(tile) % 16 || ld * sizeof(T) % 16;
    }

    // Starts to copy the next tile, from whose start the matrix has `depth` elements along k.
    __device__ __forceinline__ void start(Tile (&to)[1], int depth, bool is_first) {
        const int lines = ALONG_K ? inside : depth, bytes = (ALONG_K ? depth : inside) * static_cast<int>(sizeof(T));
        const bool all_fronts = gaps || (is_first && ALONG_K && ld > depth);  // of lines, none of which has its neighbour before it
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            const int line = line_of(i);
            const bool front = number() == 0 && (all_fronts || (is_first && line == 0));
            uint4* const into = &to[0].pieces[line][Tile::offset_of(line, number())];
            if (!front) pieces[i].start(into, bytes - 16 * number(), !EDGES || line < lines ? 16 : 0);
            pieces[i].step(ld);
        }
#pragma unroll
        for (int i = 0; i < ENDS; ++i) {
            const int line = end_line(i);
            const bool exists = !EDGES || line < lines;
            if (has_end(i)) ends[i].start(&to[0].ends[line], bytes - 16 * Tile::PIECES, exists && ends[i].skew > 0 ? 16 : 0);
            ends[i].step(ld);
        }
        if ((all_fronts || is_first) && number() == 0) copy_fronts(to[0], all_fronts, lines, bytes);
        tile += ALONG_K ? BK : static_cast<long long>(BK) * ld;
    }

    // Moves what this warp has copied of a tile into place.
    __device__ __forceinline__ void shift(Tile (&tile)[1]) const {
        if (!shifts) return;  // for all threads or for none
        __syncwarp();
        uint4 found[PASSES];
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            const int line = line_of(i);
            const uint4* const of_line = tile[0].pieces[line];
            const uint4& own = of_line[Tile::offset_of(line, number())];
            const uint4& behind = number() == Tile::PIECES - 1 ? tile[0].ends[line] : of_line[Tile::offset_of(line, number() + 1)];
            found[i] = shifted(own, behind, pieces[i].skew);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PASSES; ++i) tile[0].pieces[line_of(i)][Tile::offset_of(line_of(i), number())] = found[i];
    }

  private:
    static constexpr int PASSES = Tile::LINES * Tile::PIECES / THREADS;
    static constexpr int ABREAST = 32 / Tile::PIECES;  // lines of a warp in a pass
    static constexpr int ENDS = (PASSES * ABREAST + 31) / 32;
    static_assert(32 % Tile::PIECES == 0, "a line's pieces are one warp's");

    static __device__ __forceinline__ int number() { return threadIdx.x % Tile::PIECES; }  // of a thread's pieces in their lines
    static __device__ __forceinline__ int line_of(int i) { return i * (THREADS / Tile::PIECES) + threadIdx.x / Tile::PIECES; }
    static __device__ __forceinline__ int end_of(int i) { return 32 * i + threadIdx.x % 32; }  // of the warp's
    static __device__ __forceinline__ bool has_end(int i) { return end_of(i) < PASSES * ABREAST; }
    static __device__ __forceinline__ int end_line(int i) {
        return end_of(i) / ABREAST * (THREADS / Tile::PIECES) + threadIdx.x / 32 * ABREAST + end_of(i) % ABREAST;
    }

    // The first pieces of all lines, or of the first alone, by elements.
    __device__ __forceinline__ void copy_fronts(Tile& to, bool all, int lines, int bytes) const {
#pragma unroll 1
        for (int i = 0; i < PASSES; ++i) {
            const int line = line_of(i);
            if (!all && line > 0) break;
            const T* const from = at(tile, ld, line, 0);
            const int before = reinterpret_cast<unsigned long long>(from) % 16 / sizeof(T);
            unsigned short* const into = reinterpret_cast<unsigned short*>(&to.pieces[line][Tile::offset_of(line, 0)]);
#pragma unroll 1
            for (int k = 0; k < Tile::PIECE; ++k) {
                const bool exists = line < lines && k >= before && (k - before) * static_cast<int>(sizeof(T)) < bytes;
                into[k] = exists ? reinterpret_cast<const unsigned short*>(from)[k - before] : 0;
            }
        }
    }

    const T* tile;  // its first element
    Piece pieces[PASSES], ends[ENDS];
    int ld, inside;  // sides from the tile's first on
    bool gaps;       // whether tiles begin where lines do, behind a gap
    bool shifts;     // whether some line does not start at a multiple of 16 bytes
};
