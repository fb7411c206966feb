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
#include "ptx/keep.cuh"

// The 16 bytes that begin `skew` (even) bytes behind the first of 32 in shared memory. No array: ptxas would keep it in local memory.
__device__ __forceinline__ uint4 shifted(const uint4* from, int skew) {
    const uint2* const halves = reinterpret_cast<const uint2*>(from) + skew / 8;
    const uint2 a = halves[0], b = halves[1], c = halves[2];
    const bool one = skew & 4;
    const unsigned w0 = one ? a.y : a.x, w1 = one ? b.x : a.y, w2 = one ? b.y : b.x, w3 = one ? c.x : b.y, w4 = one ? c.y : c.x;
    const int bits = skew % 4 * 8;
    return make_uint4(__funnelshift_r(w0, w1, bits), __funnelshift_r(w1, w2, bits), __funnelshift_r(w2, w3, bits),
                      __funnelshift_r(w3, w4, bits));
}

// Of a thread: a piece of some lines, and some of these lines' ends. Lines whose numbers differ by 8 start alike, modulo 16 bytes: so
// do all of a thread, where it has every eighth or fewer.
template <typename T, bool ALONG_K, int EXTENT, int THREADS>
class TileCopies<T, ALONG_K, EXTENT, 1, THREADS, true> {
    using Tile = FragmentTile<T, ALONG_K, EXTENT>;
    static constexpr int PASSES = Tile::LINES * Tile::PIECES / THREADS, STRIDE = THREADS / Tile::PIECES;  // lines from one to the next
    static constexpr int UNLIKE = STRIDE < 8 ? 8 / STRIDE : 1;  // passes whose lines start each in its own way
    static_assert(32 % Tile::PIECES == 0, "a line's pieces are one warp's");

    // The tile of a step. All that follows from it is computed where it is used: most products that are copied so have few steps, and
    // what a compiler computes before a loop is in their way.
    struct Step {
        unsigned pitch;      // bytes from a line to the next
        const char* first;   // the tile's first element
        int lines, bytes;    // lines that the matrix has from this thread's first on; bytes of a line, or more than a tile has
        bool fronts, front;  // whether something else lies right before all lines, or before the first alone

        __device__ __forceinline__ Step(const TileCopies& of, int step, int depth)
            : pitch(of.pitch),
              first(of.first + static_cast<unsigned long long>(ALONG_K ? sizeof(T) : of.pitch) * static_cast<unsigned>(step * BK)),
              lines((ALONG_K ? of.inside : depth) - line_of(0)),
              bytes(min(ALONG_K ? depth : of.inside, (Tile::PIECES + 1) * Tile::PIECE) * static_cast<int>(sizeof(T))),
              fronts((ALONG_K ? step == 0 : of.from_side_0) && of.pitch / sizeof(T) > (ALONG_K ? depth : of.inside)),
              front(step == 0 && of.from_side_0 && skew_of(first) > 0) {
            keep(pitch);
            keep(first);
            keep(lines);
            keep(bytes);
        }
    };

  public:
    // Of a matrix of the batch, the tiles from side `first` on.
    __device__ __forceinline__ TileCopies(const Factor<T>& factor, int matrix, int sides, int first, int /* k */)
        : first(reinterpret_cast<const char*>(at(factor.matrix(matrix), factor.ld, ALONG_K ? first : 0, ALONG_K ? 0 : first))),
          pitch(static_cast<unsigned>(factor.ld) * static_cast<unsigned>(sizeof(T))),
          inside(sides - first),
          from_side_0(first == 0) {
#pragma unroll
        for (int i = 0; i < UNLIKE; ++i) skews[i] = skew_of(line_at(this->first, pitch, line_of(i)));
        shifts = skew_of(this->first) || pitch % 16;
    }

    // Starts to copy the tile of step `step`, from whose start the matrix has `depth` elements along k.
    __device__ __forceinline__ void start(Tile (&to)[1], int depth, int step) const {
        const Step of(*this, step, depth);
        int copied[UNLIKE];  // bytes of a piece, from a multiple of 16 on
#pragma unroll
        for (int i = 0; i < UNLIKE; ++i) {
            const bool skips = of.fronts && number() == 0 && skews[i] > 0;
            copied[i] = skips || !exists(i, of) ? 0 : most(of.bytes - 16 * number() + skews[i]);
        }
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            const int line = line_of(i), like = i % UNLIKE;
            // A side past the matrix has no results: another line is copied again. What is past its k must be zeros.
            const int existing = ALONG_K && !exists(i, of) ? 0 : line - line_of(like);
            const char* const from = line_at(start_of(line_at(of.first, of.pitch, line_of(like))) + 16 * number(), of.pitch, existing);
            const bool zeros = (i == 0 && of.front && threadIdx.x == 0) || (!ALONG_K && !exists(i, of));
            copy_async_first(&to[0].pieces[line][number()], from, zeros ? 0 : copied[like]);
        }
#pragma unroll
        for (int i = 0; i < PASSES; i += Tile::PIECES) {
            const int line = line_of(i + number());
            const char* const from = line_at(of.first, of.pitch, line);
            const int skew = UNLIKE == 1 ? skews[0] : skew_of(from), left = of.bytes - 16 * Tile::PIECES + skew;
            uint4* const into = &to[0].pieces[line][Tile::PIECES];
            const int copied = skew > 0 && exists(i + number(), of) ? most(left) : 0;
            if (i + number() < PASSES) copy_async_first(into, start_of(from) + 16 * Tile::PIECES, copied);
        }
    }

    // Moves what this warp has copied of the tile of step `step` into place.
    __device__ __forceinline__ void shift(Tile (&tile)[1], int depth, int step) const {
        if (!shifts) return;  // for all threads or for none
        __syncwarp();
        const Step of(*this, step, depth);
        if (of.fronts || of.front) store_fronts(tile[0], of);
        uint4 found[PASSES];
#pragma unroll
        for (int i = 0; i < PASSES; ++i) found[i] = shifted(&tile[0].pieces[line_of(i)][number()], skews[i % UNLIKE]);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < PASSES; ++i) tile[0].pieces[line_of(i)][number()] = found[i];
    }

  private:
    static __device__ __forceinline__ int number() { return threadIdx.x % Tile::PIECES; }  // of a thread's pieces in their lines
    static __device__ __forceinline__ int line_of(int i) { return i * STRIDE + threadIdx.x / Tile::PIECES; }
    static __device__ __forceinline__ bool exists(int i, const Step& of) { return !EDGES || i * STRIDE < of.lines; }  // line_of(i)
    static __device__ __forceinline__ int most(int bytes) { return min(max(bytes, 0), 16); }

    // Where line `line` from one on starts, the multiple of 16 bytes before, and the bytes from there on.
    static __device__ __forceinline__ const char* line_at(const char* from, unsigned pitch, int line) {
        return from + static_cast<unsigned long long>(pitch) * static_cast<unsigned>(line);
    }
    static __device__ __forceinline__ const char* start_of(const char* line) {
        return reinterpret_cast<const char*>(reinterpret_cast<unsigned long long>(line) & ~15ULL);
    }
    static __device__ __forceinline__ int skew_of(const char* line) { return reinterpret_cast<unsigned long long>(line) % 16; }

    // What no piece may be copied for: the beginnings of all lines, or of the first alone, by elements.
    __device__ __forceinline__ void store_fronts(Tile& to, const Step& of) const {
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            const int line = line_of(i), skew = skews[i % UNLIKE];
            if (!exists(i, of) || !(of.fronts || line == 0)) continue;
            const T* const from = reinterpret_cast<const T*>(line_at(of.first, of.pitch, line));
            T* const into = reinterpret_cast<T*>(&to.pieces[line][0]) + skew / sizeof(T);
#pragma unroll 1
            for (int k = number(); k * static_cast<int>(sizeof(T)) < min(16 - skew, of.bytes); k += Tile::PIECES) into[k] = from[k];
        }
        __syncwarp();
    }

    const char* first;  // the first element of the tile of step 0
    unsigned pitch;     // bytes from a line to the next
    int skews[UNLIKE];  // bytes from a multiple of 16 on to a thread's lines
    int inside;         // sides from the tile's first on
    bool from_side_0;
    bool shifts;  // whether some line does not start at a multiple of 16 bytes
};
