// Parts of a float32 factor on their way to shared memory, from where they lie: in any order, from any alignment on.
//
// In shared memory a factor's elements at one k are neighbours. Memory has neighbours along k or across it: the first go there as 8
// of k by 4 sides by a warp, which the odd number of quads in a line puts on distinct banks; the second by quads, where they are
// aligned.
#pragma once

#include <async_copy.cuh>

#include "keep.cuh"
#include "relayout_square.cuh"

// A factor in memory from the tile's first row (or column) on, as is a copy's origin.
struct InPlace {
    const float* data;
    int ld;        // elements from one line to the next
    int sides;     // rows (or columns)
    bool along_k;  // whether lines run along k
    bool aligned;  // whether lines start at multiples of 16 bytes

    template <typename Term>
    __device__ __forceinline__ InPlace(const Copy<float, Term>& copy, int matrix, int first) {
        along_k = copy.along_k != copy.across;
        ld = copy.ld_from;
        data = copy.from + matrix * copy.matrix_stride + first * (along_k ? static_cast<long long>(ld) : 1);
        sides = (copy.along_k ? copy.lines : copy.length) - first;
        aligned = (reinterpret_cast<unsigned long long>(data) / sizeof(float) | ld) % 4 == 0;
    }
};

// What one of THREADS threads, number `thread`, copies of a factor: parts of SIDES rows (or columns) and DEPTH of k.
template <int SIDES, int DEPTH, int THREADS>
class PartCopies {
  public:
    using Part = float[DEPTH][SIDES + 4];

    __device__ __forceinline__ PartCopies(const InPlace& from, int thread)
        : next(from.data), ld(from.ld), sides(from.sides), way(from.along_k ? 0 : from.aligned ? 1 : 2) {
        next += way == 0   ? Along::line(thread) * at(ld) + Along::element(thread)
                : way == 1 ? Quads::line(thread) * at(ld) + Quads::element(thread)
                           : Across::line(thread) * at(ld) + Across::element(thread);
    }

    // Starts to copy the next part, of which the factor has `depth` of k or more.
    __device__ __forceinline__ void start(Part& to, int depth, int thread) {
        keep(ld);  // else what follows from it for each way has registers
        if (EDGES && (depth < DEPTH || sides < SIDES)) {
            copy<true>(to, depth, thread);
        } else {
            copy<false>(to, depth, thread);
        }
        next += way == 0 ? DEPTH : DEPTH * at(ld);
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
    using Along = Way<true, 1>;
    using Quads = Way<false, 4>;
    using Across = Way<false, 1>;

    static __device__ __forceinline__ long long at(int line) { return line; }

    // GUARDED: whether the factor ends within the part.
    template <bool GUARDED>
    __device__ __forceinline__ void copy(Part& to, int depth, int thread) {
        if (way == 0) {
            copy<GUARDED, Along>(to, depth, thread);
        } else if (way == 1) {
            copy<GUARDED, Quads>(to, depth, thread);
        } else {
            copy<GUARDED, Across>(to, depth, thread);
        }
    }

    template <bool GUARDED, typename By>
    __device__ __forceinline__ void copy(Part& to, int depth, int thread) {
        constexpr int WIDTH = By::WIDTH;
        const int first_line = By::line(thread), first = By::element(thread);
        int lines = By::ALONG_K ? sides : depth, length = By::ALONG_K ? depth : sides;
        const float* from = next;
        keep(lines);  // else the compiler has what is inside of each line ready, and of `from` all distances, in registers
        keep(length);
#pragma unroll
        for (int i = 0; i < By::COUNT; i += By::TOGETHER) {
            const int line = first_line + i;
#pragma unroll
            for (int j = 0; j < By::LENGTH; j += By::LANES * WIDTH) {
                const int element = first + j;
                const bool in_part = (By::COUNT % By::TOGETHER == 0 || line < By::COUNT) &&
                                     (By::PIECES % By::LANES == 0 || element < By::LENGTH);
                if (!in_part) continue;
                float* const into = By::ALONG_K ? &to[element][line] : &to[line][element];
                const int inside = !GUARDED ? WIDTH : line < lines ? min(length - element, WIDTH) : 0;
                if constexpr (WIDTH == 4) {
                    copy_async_first(into, from + j, max(inside, 0) * static_cast<int>(sizeof(float)));
                } else {
                    copy_async<4>(into, from + j, inside > 0);
                }
            }
            from += By::TOGETHER * at(ld);
            keep(from);
        }
    }

    const float* next;  // the thread's first element of the next part
    int ld, sides, way;
};
