// Parts of a float32 factor on their way to shared memory, from where they lie: in any order, from any alignment on.
//
// In shared memory a factor's elements at one k are neighbours, a line of them an odd number of quads long. Memory has neighbours
// across k or along it:
//
//     across k:   memory --> part            by quads where lines are aligned, else one by one
//     along k:    memory --> raw --> part    by quads; ldmatrix hands each lane of a warp the quad of four sides at its k, and
//                                            eight lanes that store theirs at a time do so on distinct banks
//                 memory --> part            else, and where there is no `raw`: one by one, a warp 8 of k by 4 sides, on distinct
//                                            banks too
#pragma once

#include "ptx/async_copy.cuh"
#include "ptx/keep.cuh"
#include "ptx/load_matrix.cuh"
#include "relayout/relayout_square.cuh"

// How a factor lies in memory.
enum class PartWay { along_k_by_quads, along_k, across_by_quads, across };

// A factor in memory, as is a copy's origin, from a tile's first row (or column) on.
struct InPlace {
    const float* data;
    const int& ld;  // elements from one line to the next
    int sides;      // rows (or columns)
    PartWay way;

    template <typename PartType>
    __device__ __forceinline__ InPlace(const Copy<float, PartType>& copy, int matrix, int first)
        : ld(copy.ld_from), way(way_of(copy)) {
        const bool along_k = copy.along_k != copy.across;
        data = copy.from + matrix * copy.matrix_stride + first * (along_k ? static_cast<long long>(ld) : 1);
        sides = (copy.along_k ? copy.lines : copy.length) - first;
    }

    // sides: of the whole factor.
    __device__ __forceinline__ InPlace(const Factor<float>& factor, int matrix, int first, int sides, bool along_k)
        : data(factor.matrix(matrix) + first * (along_k ? static_cast<long long>(factor.ld) : 1)),
          ld(factor.ld),
          sides(sides - first) {
        way = way_of(along_k, (reinterpret_cast<unsigned long long>(data) / sizeof(float) | ld) % 4 == 0);
    }

    // The same for all tiles.
    template <typename PartType>
    static __device__ __forceinline__ PartWay way_of(const Copy<float, PartType>& copy) {
        const long long stride = reinterpret_cast<long long>(copy.from) / static_cast<long long>(sizeof(float)) | copy.ld_from |
                                copy.matrix_stride;
        return way_of(copy.along_k != copy.across, stride % 4 == 0);
    }

  private:
    // aligned: whether lines begin at multiples of four elements.
    static __device__ __forceinline__ PartWay way_of(bool along_k, bool aligned) {
        if (along_k) return aligned ? PartWay::along_k_by_quads : PartWay::along_k;
        return aligned ? PartWay::across_by_quads : PartWay::across;
    }
};

// What one of THREADS threads copies of a factor: parts of SIDES rows (or columns) and DEPTH of k. RAW: whether there is memory for
// lines along k; DEPTH is 32 then, a lane's k.
template <int SIDES, int DEPTH, int THREADS, bool RAW>
class PartCopies {
  public:
    using Part = float[DEPTH][SIDES + 4];
    using Raw = float[RAW ? SIDES : 1][DEPTH];
    static_assert(!RAW || DEPTH == 32, "a lane stores the quads of one k");

    // thread: of all that copy, the number of this one.
    __device__ __forceinline__ PartCopies(const InPlace& from, int thread)
        : next(from.data), ld(from.ld), sides(from.sides), way(from.way) {
        next += raw(way)                           ? first<RawLines>(thread)
                : along_k()                        ? first<Along>(thread)
                : way == PartWay::across_by_quads  ? first<Quads>(thread)
                                                   : first<Across>(thread);
    }

    // Starts to copy the next part, of which the factor has `depth` of k or more.
    __device__ __forceinline__ void start(Part& to, Raw& lines, int depth, int thread) {
        if (EDGES && (depth < DEPTH || sides < SIDES)) {
            copy<true>(to, lines, depth, thread);
        } else {
            copy<false>(to, lines, depth, thread);
        }
        next += along_k() ? DEPTH : DEPTH * distance();
    }

    // By whole warps, when what their lanes have copied of a part has come: ends the way of lines along k.
    static __device__ __forceinline__ void finish(PartWay way, Part& to, const Raw& lines, int thread) {
        if (!raw(way)) return;
        const int lane = thread % 32;
#pragma unroll
        for (int first = 0; first < SIDES; first += RawLines::TOGETHER) {
            const int side = first + thread / 32 * 4;  // the first of those that this warp has copied
            if (SIDES % RawLines::TOGETHER != 0 && side >= SIDES) continue;
            float quad[4];
            load_matrices(quad, &lines[side + lane / 8][lane % 8 * 4]);
            store_run<4>(&to[lane][side], quad);
        }
    }

  private:
    // Memory's lines, by pieces of WIDTH_ elements: LANES threads copy a line's neighbours.
    template <bool ALONG_K_, int WIDTH_>
    struct Way {
        static constexpr bool ALONG_K = ALONG_K_;
        static constexpr int WIDTH = WIDTH_;
        static constexpr int LENGTH = ALONG_K ? DEPTH : SIDES, COUNT = ALONG_K ? SIDES : DEPTH;
        static constexpr int PIECES = LENGTH / WIDTH;
        static constexpr int LANES = ALONG_K || PIECES <= 8 ? 8 : PIECES <= 16 ? 16 : 32;
        static constexpr int TOGETHER = THREADS / LANES;  // lines

        static __device__ __forceinline__ int line(int thread) { return thread / LANES; }
        static __device__ __forceinline__ int element(int thread) { return thread % LANES * WIDTH; }
    };
    using RawLines = Way<true, 4>;
    using Along = Way<true, 1>;
    using Quads = Way<false, 4>;
    using Across = Way<false, 1>;

    static __device__ __forceinline__ bool raw(PartWay way) { return RAW && way == PartWay::along_k_by_quads; }
    __device__ __forceinline__ bool along_k() const { return way == PartWay::along_k || way == PartWay::along_k_by_quads; }

    // From one line to the next. It takes no register between its uses.
    __device__ __forceinline__ long long distance() const {
        int distance = ld;
        keep(distance);
        return distance;
    }

    // Where a thread begins.
    template <typename By>
    __device__ __forceinline__ long long first(int thread) const {
        return By::line(thread) * static_cast<long long>(ld) + By::element(thread);
    }

    // GUARDED: whether the factor ends within the part.
    template <bool GUARDED>
    __device__ __forceinline__ void copy(Part& to, Raw& lines, int depth, int thread) {
        if (raw(way)) {
            copy<GUARDED, RawLines>(lines, depth, thread);
        } else if (along_k()) {
            copy<GUARDED, Along>(to, depth, thread);
        } else if (way == PartWay::across_by_quads) {
            copy<GUARDED, Quads>(to, depth, thread);
        } else {
            copy<GUARDED, Across>(to, depth, thread);
        }
    }

    template <bool GUARDED, typename By, typename To>
    __device__ __forceinline__ void copy(To& to, int depth, int thread) {
        constexpr bool TURNS = By::ALONG_K && By::WIDTH == 1;
        const int first_line = By::line(thread), first = By::element(thread);
        int lines = By::ALONG_K ? sides : depth, length = By::ALONG_K ? depth : sides;
        const long long stride = By::TOGETHER * distance();
        const float* from = next;
        keep(lines);  // else the compiler has what is inside of each line ready, and of `from` all distances, in registers
        keep(length);
#pragma unroll
        for (int i = 0; i < By::COUNT; i += By::TOGETHER) {
            const int line = first_line + i;
#pragma unroll
            for (int j = 0; j < By::LENGTH; j += By::LANES * By::WIDTH) {
                const int element = first + j;
                const bool in_part = (By::COUNT % By::TOGETHER == 0 || line < By::COUNT) &&
                                     (By::PIECES % By::LANES == 0 || element < By::LENGTH);
                if (!in_part) continue;
                float* const into = TURNS ? &to[element][line] : &to[line][element];
                const int inside = !GUARDED ? By::WIDTH : line < lines ? min(length - element, By::WIDTH) : 0;
                if constexpr (By::WIDTH == 4) {
                    copy_async_first(into, from + j, max(inside, 0) * static_cast<int>(sizeof(float)));
                } else {
                    copy_async<4>(into, from + j, inside > 0);
                }
            }
            from += stride;
            keep(from);
        }
    }

    const float* next;  // the thread's first element of the next part
    const int& ld;
    const int sides;
    const PartWay way;
};
