// Copies of matrices as a kernel wants them: lines of neighbours, each from a multiple of 16 bytes on, transposed or not.
//
// With SPLIT_PARTS above 1 an element x is copied as parts of another type, a matrix each: x0 is x rounded, x1 what is left of x rounded,
// and so on. The matrices of a batch lie in the copy behind each other, each with its parts behind each other. Where SCALED is 1,
// elements are scaled before (part_scales.cuh). What a product has to know of them is seen on the way (part_range.cuh).
//
// MOVERS threads move a square of one matrix, each of them quads: four neighbours in memory, by one load where all lines there are
// aligned, and then four in the copy, whose lines have room for whole quads. A square of a transposed copy goes through shared
// memory:
//
//     across = 0:   memory --> registers --> copy                       quad q: row q / (SQUARE / 4)
//     across = 1:   memory --> registers --> staged[row][col] --> copy, four elements of a column together
//
// The odd length of a row there puts a column's elements on distinct banks.
#pragma once

#include "elements.cuh"
#include "float32_parts/part_range.cuh"
#include "float32_parts/part_scales.cuh"

// Matrices to be copied, one or a batch.
template <typename From, typename To>
struct Copy {
    const From* from;
    To* to;
    float* scales;                // that products of the copy are multiplied by; null where SCALED is 0
    Range* range;                 // of its elements; null: not looked at
    NonFinite* non_finite;        // a list of those that are not
    long long matrix_stride;      // elements from one matrix to the next in memory; in the copy they are right behind each other
    int lines, length, matrices;  // lines of the copy, and elements of each; how many matrices are to be copied
    int across;                   // whether lines in memory run across those of the copy
    int ld_from, ld;              // elements from one line to the next, in memory and in the copy
    int along_k;                  // whether lines of the copy run along k

    // The element of matrix `matrix` of row (or column) `side`, at `k`.
    __device__ __forceinline__ From at(int matrix, int side, int k) const {
        const bool neighbours_in_k = along_k != across;
        return from[matrix * matrix_stride + static_cast<long long>(neighbours_in_k ? side : k) * ld_from + (neighbours_in_k ? k : side)];
    }

    template <int SQUARE>
    __device__ __forceinline__ int along() const { return (length + SQUARE - 1) / SQUARE; }
    template <int SQUARE>
    __device__ __forceinline__ int down() const { return (lines + SQUARE - 1) / SQUARE; }
    template <int SQUARE>
    __device__ __forceinline__ int squares() const { return along<SQUARE>() * down<SQUARE>() * matrices; }

    // Where square `number` begins in the copy.
    struct Place {
        int matrix, line, element;
    };
    template <int SQUARE>
    __device__ __forceinline__ Place place(int number) const {
        int matrix = 0;
        if (matrices > 1) {
            matrix = number / (along<SQUARE>() * down<SQUARE>());
            number %= along<SQUARE>() * down<SQUARE>();
        }
        return {matrix, number / along<SQUARE>() * SQUARE, number % along<SQUARE>() * SQUARE};
    }

    // Whether all lines in memory begin at a multiple of COUNT elements.
    template <int COUNT>
    __device__ __forceinline__ bool aligned() const {
        const long long first = reinterpret_cast<long long>(from) / static_cast<long long>(sizeof(From));
        return (first | ld_from | matrix_stride) % COUNT == 0;
    }
};

// What MOVERS threads do, of which this is number `thread`. TURNS: whether copies may be transposed.
template <typename From, typename To, int SQUARE, int MOVERS, bool TURNS = true>
class SquareMover {
    using Element = typename Bits<sizeof(From)>::type;
    using Quad = typename Bits<4 * sizeof(From)>::type;

    static constexpr int QUADS = SQUARE / 4;  // of a row
    static constexpr int TIMES = SQUARE * QUADS / MOVERS;

  public:
    struct Shared {
        Element staged[TURNS ? SQUARE : 1][SQUARE + 1];
        unsigned largest[MOVERS / 32];
    };

    // Starts with square `number` of a copy: the thread's elements of it come, while other work is done. Where there is no such
    // square, there are none.
    __device__ __forceinline__ void load(const Copy<From, To>& copy, int number, int thread) {
        const bool exists = number < copy.template squares<SQUARE>();
        const int along = copy.template along<SQUARE>(), down = copy.template down<SQUARE>();
        const auto [matrix, line, element] = copy.template place<SQUARE>(number);
        turned = TURNS && copy.across;
        const int row = turned ? element : line, col = turned ? line : element;  // in memory
        rows = exists ? (turned ? copy.length : copy.lines) - row : 0;
        cols = exists ? (turned ? copy.lines : copy.length) - col : 0;
        to = copy.to + (static_cast<long long>(matrix) * SPLIT_PARTS * copy.lines + line) * copy.ld + element;
        ld = copy.ld;
        part = static_cast<long long>(copy.lines) * copy.ld;
        if constexpr (SCALED) {
            const int k = copy.along_k ? element : line, side = copy.along_k ? line : element;
            const long long scales_before = static_cast<long long>(matrix) * (copy.along_k ? along : down) + k / SQUARE;
            scale = copy.scales + scales_before * scale_run(copy.along_k ? copy.lines : copy.length) + side / SQUARE;
        }

        const Element* const from = reinterpret_cast<const Element*>(copy.from) + matrix * copy.matrix_stride +
                                    static_cast<long long>(row) * copy.ld_from + col;
        const bool aligned = copy.template aligned<4>();
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            const Element* const at = from + static_cast<long long>(row_of(i, thread)) * copy.ld_from + col_of(thread);
            const int count = row_of(i, thread) < rows ? cols - col_of(thread) : 0;  // elements that there are
            if (aligned && count >= 4) {
                *reinterpret_cast<Quad*>(moved[i]) = *reinterpret_cast<const Quad*>(at);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) moved[i][j] = j < count ? at[j] : Element(0);
            }
        }
    }

    // Before the square, which is number `number` of the copy, is stored: puts the thread's elements that are not finite on the list, and 0
    // in their place. Where there is no room for one, no parts represent the factor.
    __device__ __forceinline__ void list_non_finite(const Copy<From, To>& copy, int number, int thread) {
        unsigned found = 0;  // a bit each
        static_assert(4 * TIMES <= 32, "a word has a bit for each of a thread's elements");
#pragma unroll
        for (int i = 0; i < 4 * TIMES; ++i) {
            if ((moved[i / 4][i % 4] & Range::NONE) < NonFinite::FIRST) continue;
            found |= 1u << i;
            moved[i / 4][i % 4] = 0;
        }
        const auto [matrix, line, element] = copy.template place<SQUARE>(number);
        for (; found != 0; found &= found - 1) {
            const int i = __ffs(found) - 1, down = row_of(i / 4, thread), across = col_of(thread) + i % 4;  // in memory
            const int of_line = line + (turned ? across : down), in_line = element + (turned ? down : across);
            const unsigned at = atomicAdd(&copy.range->listed, 1);
            if (at < NonFinite::MOST) {
                copy.non_finite[at] = {matrix, copy.along_k ? of_line : in_line, copy.along_k ? in_line : of_line};
            } else {
                atomicMax(&copy.range->largest, NonFinite::FIRST);
            }
        }
    }

    // Stores the square, and returns what this thread saw. sync(): syncs all MOVERS threads, whose squares are turned or not
    // alike.
    template <typename Sync>
    __device__ __forceinline__ Range store(int thread, Shared& shared, const Sync& sync) {
        Range range = {};
        if constexpr (SCALED) {
            scale_elements(thread, shared.largest, sync, range);
        } else if constexpr (SPLIT_PARTS > 1) {
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) range.see(moved[i][j]);
            }
        }
        if (turned) {
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) shared.staged[row_of(i, thread)][col_of(thread) + j] = moved[i][j];
            }
            sync();
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) moved[i][j] = shared.staged[col_of(thread) + j][row_of(i, thread)];
            }
        }
        const int lines = turned ? cols : rows, length = turned ? rows : cols;
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            const int line = row_of(i, thread), element = col_of(thread);
            if (line < lines && element < length) store_quad(to + static_cast<long long>(line) * ld + element, moved[i]);
        }
        return range;
    }

  private:
    static __device__ __forceinline__ int row_of(int time, int thread) { return (time * MOVERS + thread) / QUADS; }
    static __device__ __forceinline__ int col_of(int thread) { return thread % QUADS * 4; }

    // Scales the square's elements, of which this thread has some.
    template <typename Sync>
    __device__ __forceinline__ void scale_elements(int thread, unsigned (&of_warps)[MOVERS / 32], const Sync& sync,
                                                   Range& range) {
        unsigned largest = 0;
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) largest = max(largest, moved[i][j] & Range::NONE);
        }
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) largest = max(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
        if (thread % 32 == 0) of_warps[thread / 32] = largest;
        sync();
#pragma unroll
        for (int warp = 0; warp < MOVERS / 32; ++warp) largest = max(largest, of_warps[warp]);

        range.see(largest);
        const float by = __uint_as_float(min(268 - (largest >> 23), 254u) << 23);  // 2^(14 - e) for 2^e, at most 2^127
        if (thread == 0 && rows > 0) *scale = 1 / by;
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const unsigned scaled = __float_as_uint(__uint_as_float(moved[i][j]) * by);
                range.see_scaled(moved[i][j], scaled);
                moved[i][j] = scaled;
            }
        }
    }

    // Stores four neighbours of a line of the copy.
    __device__ __forceinline__ void store_quad(To* at, const Element (&quad)[4]) const {
        if constexpr (SPLIT_PARTS == 1) {
            *reinterpret_cast<Quad*>(at) = *reinterpret_cast<const Quad*>(quad);
        } else {
            float left[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) left[i] = to_float(reinterpret_cast<const From*>(quad)[i]);
#pragma unroll
            for (int t = 0; t < SPLIT_PARTS; ++t, at += part) {
                store_run<4>(at, left);
#pragma unroll
                for (int i = 0; i < 4; ++i) left[i] = (left[i] - to_float(from_float<To>(left[i]))) * PART_STEP;
            }
        }
    }

    __align__(16) Element moved[TIMES][4];
    To* to;          // the square's first element in the copy
    long long part;  // elements from one part to the next there
    float* scale;    // that products of the square are multiplied by
    int ld;
    int rows, cols;  // in memory, that there are from the square's first element on
    bool turned;
};
