// Copies of a 16-bit factor's tiles (fragment_tile.cuh) whose lines start at any address.
//
// cp.async moves words of 4 bytes. A line that starts in the middle of one is half a word late in shared memory, with one word more,
// and the warp that copied it shifts it into place:
//
//     memory      | . 0 | 1 2 | 3 4 | 5 6 | ... | 63 . |      words of 2 elements
//     copied      | . 0 | 1 2 | 3 4 | 5 6 | ... | 63 0 |
//     shifted     | 0 1 | 2 3 | 4 5 | 6 7 | ... |
//
// What lies before a line is the end of the one before, or what is between them, or before a matrix: that is not read.
#pragma once

#include "pipeline/fragment_tile.cuh"
#include "ptx/keep.cuh"

// Of a warp: all of some lines, ACROSS lanes a line.
template <typename T, bool ALONG_K, int EXTENT, int THREADS>
class TileCopies<T, ALONG_K, EXTENT, 1, THREADS, true> {
    using Tile = FragmentTile<T, ALONG_K, EXTENT>;
    static constexpr int WORDS = 4 * Tile::PIECES, ACROSS = WORDS < 32 ? WORDS : 32, TOGETHER = 32 / ACROSS;
    static constexpr int LINE_BYTES = sizeof(Tile::pieces[0]);
    static constexpr int OWN = Tile::LINES / (THREADS / 32);  // lines of a warp
    static constexpr int UNLIKE = 1 + TOGETHER % 2;           // passes of a lane whose lines start each in its own way
    static constexpr int BESIDE = 32 / Tile::PIECES, PASSES = OWN / BESIDE;  // lines whose pieces a warp shifts at a time
    static_assert(32 % Tile::PIECES == 0 && OWN * Tile::PIECES % 32 == 0, "a line's pieces are one warp's, and all lanes have one");

    // The tile of a step. All that follows from it is computed where it is used: what a compiler computes before a loop takes registers.
    struct Step {
        unsigned pitch;      // bytes from a line to the next
        const char* first;   // its first element
        int lines, bytes;    // lines that the matrix has from it on; bytes of a line, or more than a tile has
        bool fronts, front;  // whether something else lies right before all lines, or before the first alone

        __device__ __forceinline__ Step(const TileCopies& of, int step, int depth)
            : pitch(of.pitch),
              first(of.first + static_cast<unsigned long long>(ALONG_K ? sizeof(T) : of.pitch) * static_cast<unsigned>(step * BK)),
              lines(ALONG_K ? of.inside : depth),
              bytes(min(ALONG_K ? depth : of.inside, 2 * WORDS + 2) * static_cast<int>(sizeof(T))),
              fronts((ALONG_K ? step == 0 : of.from_side_0) && of.pitch / sizeof(T) > (ALONG_K ? depth : of.inside)),
              front(step == 0 && of.from_side_0 && of.late_of(0)) {
            keep(pitch);
            keep(first);
        }

        __device__ __forceinline__ const char* line_at(int line) const { return first + offset_of(line); }
        __device__ __forceinline__ unsigned long long offset_of(int lines) const {
            return static_cast<unsigned long long>(pitch) * static_cast<unsigned>(lines);
        }
    };

  public:
    // Of a matrix of the batch, the tiles from side `first` on.
    __device__ __forceinline__ TileCopies(const Factor<T>& factor, int matrix, int sides, int first, int /* k */)
        : first(reinterpret_cast<const char*>(at(factor.matrix(matrix), factor.ld, ALONG_K ? first : 0, ALONG_K ? 0 : first))),
          pitch(static_cast<unsigned>(factor.ld) * static_cast<unsigned>(sizeof(T))),
          inside(sides - first),
          from_side_0(first == 0) {}

    // Starts to copy the tile of step `step`, from whose start the matrix has `depth` elements along k.
    __device__ __forceinline__ void start(Tile (&to)[1], int depth, int step) const {
        const Step of(*this, step, depth);
        const int word = threadIdx.x % ACROSS, own = first_line() + threadIdx.x % 32 / ACROSS;
        const char* into = reinterpret_cast<const char*>(to[0].pieces[own]) + 4 * word;
        keep(into);
        const char* from[UNLIKE];
        int bytes[UNLIKE], lines[UNLIKE][WORDS / ACROSS];  // of a line from this lane's first word on; that have all of a word
#pragma unroll
        for (int i = 0; i < UNLIKE; ++i) {
            const int late = late_of(own + i);
            from[i] = of.line_at(own + i) - late + 4 * word;
            bytes[i] = of.bytes + late - 4 * word;
#pragma unroll
            for (int j = 0; j < WORDS / ACROSS; ++j) {
                const bool front = j == 0 && word == 0 && late && of.fronts;
                lines[i][j] = front || bytes[i] - 4 * ACROSS * j < 4 ? 0 : EDGES ? of.lines - own : OWN;
                keep(lines[i][j]);
            }
        }
        const bool skips = of.front && threadIdx.x == 0;
#pragma unroll
        for (int i = 0; i < OWN; i += TOGETHER) {
            const int like = i % UNLIKE;
#pragma unroll
            for (int j = 0; j < WORDS / ACROSS; ++j) {
                const int at = 4 * ACROSS * j;
                const bool exists = i < lines[like][j] && !(i == 0 && j == 0 && skips);
                if (bytes[like] - at != 2) copy_async<4>(const_cast<char*>(into) + i * LINE_BYTES + at, from[like] + at, exists);
            }
            from[like] += of.offset_of(UNLIKE * TOGETHER);
        }
        // Of each line the word that it ends in the middle of, and the one that it has more.
#pragma unroll
        for (int i = 0; i < OWN; i += 32) {
            const int lane = i + threadIdx.x % 32, line = first_line() + lane, late = late_of(line);
            const char* const start = of.line_at(line) - late;
            char* const into = reinterpret_cast<char*>(to[0].pieces[line]);
            const int last = (of.bytes + late) & ~3;
            if (lane < OWN && last < 4 * WORDS && (of.bytes + late) % 4 != 0 && !(last == 0 && late)) {
                copy_async_first<4>(into + last, start + last, line < of.lines ? 2 : 0);
            }
            if (lane < OWN && late) {
                const int copied = min(max(of.bytes + late - 4 * WORDS, 0), 4);
                copy_async_first<4>(into + 4 * WORDS, start + 4 * WORDS, line < of.lines ? copied : 0);
            }
        }
    }

    // Moves what this warp has copied of the tile of step `step` into place.
    __device__ __forceinline__ void shift(Tile (&tile)[1], int depth, int step) const {
        if (late_of(0) == 0 && pitch % 4 == 0) return;  // for all threads or for none
        __syncwarp();
        const Step of(*this, step, depth);
        if (of.fronts || of.front) store_fronts(tile[0], of);
        const int piece = threadIdx.x % Tile::PIECES, own = first_line() + threadIdx.x % 32 / Tile::PIECES;
        const bool late[] = {late_of(own) != 0, late_of(own + BESIDE) != 0};  // every second pass alike
        uint4 words[PASSES] = {};
        unsigned next[PASSES] = {};
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            const uint4* const line = tile[0].pieces[own + i * BESIDE];
            if (late[i % 2]) words[i] = line[piece];
            if (late[i % 2] && piece == Tile::PIECES - 1) next[i] = line[Tile::PIECES].x;
        }
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            const unsigned neighbour = __shfl_down_sync(0xffffffff, words[i].x, 1);
            if (piece < Tile::PIECES - 1) next[i] = neighbour;
        }
#pragma unroll
        for (int i = 0; i < PASSES; ++i) {
            const uint4 a = words[i];
            if (late[i % 2]) {
                tile[0].pieces[own + i * BESIDE][piece] = make_uint4(__funnelshift_r(a.x, a.y, 16), __funnelshift_r(a.y, a.z, 16),
                                                                     __funnelshift_r(a.z, a.w, 16), __funnelshift_r(a.w, next[i], 16));
            }
        }
    }

  private:
    static __device__ __forceinline__ int first_line() { return threadIdx.x / 32 * OWN; }  // of this warp's
    // What no word may be copied for: the first elements of all lines, or of the first alone.
    __device__ __forceinline__ void store_fronts(Tile& to, const Step& of) const {
#pragma unroll
        for (int i = 0; i < OWN; i += 32) {
            const int own = i + threadIdx.x % 32, line = first_line() + own;
            if (own < OWN && line < of.lines && late_of(line) && (of.fronts || line == 0)) {
                reinterpret_cast<T*>(to.pieces[line])[1] = *reinterpret_cast<const T*>(of.line_at(line));
            }
        }
        __syncwarp();
    }

    // Bytes from the start of a word to that of a line of a tile: 0 or 2, of all steps alike.
    __device__ __forceinline__ int late_of(int line) const {
        return (static_cast<unsigned>(reinterpret_cast<unsigned long long>(first)) + pitch * static_cast<unsigned>(line)) & 2;
    }

    const char* first;  // the first element of the tile of step 0
    unsigned pitch;     // bytes from a line to the next
    int inside;         // sides from the tile's first on
    bool from_side_0;
};
