// Copies of matrices as a kernel wants them: lines of neighbours, each from a multiple of 16 bytes on, transposed or not.
//
// With TERMS above 1 an element x is copied as terms of another type, a matrix each: x0 is x rounded, x1 what is left of x rounded,
// and so on. The matrices of a batch lie in the copy behind each other, each with its terms behind each other. Where SCALED is 1,
// elements are scaled before (term_scales.cuh). What a product has to know of them is seen on the way (term_range.cuh).
//
// MOVERS threads move a square of one matrix. Neighbours among them load neighbours in memory, and store neighbours in the copy;
// four elements together where memory's lines are aligned. A square of a transposed copy goes through shared memory:
//
//     across = 0:   memory --> registers --> copy                       thread t: row t / SQUARE, column t % SQUARE
//     across = 1:   memory --> registers --> staged[row][col] --> copy, four elements of a column together
//
// The odd length of a row there puts a column's elements on distinct banks.
#pragma once

#include "elements.cuh"
#include "term_range.cuh"
#include "term_scales.cuh"

// Matrices to be copied, one or a batch.
template <typename From, typename To>
struct Copy {
    const From* from;
    To* to;
    float* scales;                // that products of the copy are multiplied by; null where SCALED is 0
    Range* range;                 // of its elements; null: not looked at
    long long matrix_stride;      // elements from one matrix to the next in memory; in the copy they are right behind each other
    int lines, length, matrices;  // lines of the copy, and elements of each; how many matrices are to be copied
    int across;                   // whether lines in memory run across those of the copy
    int ld_from, ld;              // elements from one line to the next, in memory and in the copy
    int along_k;                  // whether lines of the copy run along k

    template <int SQUARE>
    __device__ __forceinline__ int squares() const {
        return (length + SQUARE - 1) / SQUARE * ((lines + SQUARE - 1) / SQUARE) * matrices;
    }
};

// What MOVERS threads do, of which this is number `thread`. sync(): lets them all meet.
template <typename From, typename To, int SQUARE, int MOVERS>
class SquareMover {
  public:
    using Element = typename Bits<sizeof(From)>::type;

    struct Shared {
        Element staged[SQUARE][SQUARE + 1];
        unsigned largest[MOVERS / 32];
    };

    // Moves square `number` of a copy, and returns what it saw. Where there is no such square, it only meets the others.
    template <typename Sync>
    static __device__ __forceinline__ Range move(const Copy<From, To>& copy, int number, int thread, Shared& shared,
                                                 const Sync& sync) {
        const bool exists = number < copy.template squares<SQUARE>();
        const int along = (copy.length + SQUARE - 1) / SQUARE, down = (copy.lines + SQUARE - 1) / SQUARE;
        int matrix = 0;
        if (copy.matrices > 1) {
            matrix = number / (along * down);
            number %= along * down;
        }
        const int line = number / along * SQUARE, element = number % along * SQUARE;
        const int row = copy.across ? element : line, col = copy.across ? line : element;  // in memory
        const int sides = copy.along_k ? copy.lines : copy.length;
        const int k = copy.along_k ? element : line, side = copy.along_k ? line : element;
        const long long scales_before = static_cast<long long>(matrix) * (copy.along_k ? along : down) + k / SQUARE;
        const Square square = {
            reinterpret_cast<const Element*>(copy.from) + matrix * copy.matrix_stride +
                static_cast<long long>(row) * copy.ld_from + col,
            copy.to + (static_cast<long long>(matrix) * TERMS * copy.lines + line) * copy.ld + element,
            static_cast<long long>(copy.lines) * copy.ld,
            copy.scales + scales_before * scale_run(sides) + side / SQUARE,
            copy.ld_from,
            copy.ld,
            exists ? (copy.across ? copy.length : copy.lines) - row : 0,
            exists ? (copy.across ? copy.lines : copy.length) - col : 0,
        };
        const long long apart = reinterpret_cast<long long>(copy.from) / static_cast<long long>(sizeof(Element)) |
                                copy.ld_from | copy.matrix_stride;
        const bool has_quads = apart % 4 == 0;  // all lines in memory are aligned
        if (copy.across) {
            return has_quads ? move<true, 4>(square, thread, shared, sync) : move<true, 1>(square, thread, shared, sync);
        }
        return has_quads ? move<false, 4>(square, thread, shared, sync) : move<false, 1>(square, thread, shared, sync);
    }

  private:
    using Quad = typename Bits<4 * sizeof(From)>::type;

    // A square of a matrix whose lines in memory are rows. `rows` and `cols`: how far the matrix reaches from its first element.
    struct Square {
        const Element* from;
        To* to;
        long long term;  // elements from one term to the next in the copy
        float* scale;    // that products of it are multiplied by
        int ld_from, ld;
        int rows, cols;
    };

    // WIDTH: elements, 1 or 4, that a thread loads together.
    template <bool ACROSS, int WIDTH, typename Sync>
    static __device__ __forceinline__ Range move(const Square& square, int thread, Shared& shared, const Sync& sync) {
        constexpr int TIMES = SQUARE * SQUARE / WIDTH / MOVERS;
        constexpr int PIECES = SQUARE / WIDTH;
        __align__(16) Element moved[TIMES][WIDTH];
        const auto row_of = [&](int time, int pieces) { return (time * MOVERS + thread) / pieces; };
        const auto col_of = [&](int pieces) { return thread % pieces * (SQUARE / pieces); };
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            const int row = row_of(i, PIECES), col = col_of(PIECES);
            const Element* const at = square.from + static_cast<long long>(row) * square.ld_from + col;
            if (WIDTH == 4 && row < square.rows && col + 4 <= square.cols) {
                *reinterpret_cast<Quad*>(moved[i]) = *reinterpret_cast<const Quad*>(at);
            } else {
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) moved[i][j] = row < square.rows && col + j < square.cols ? at[j] : Element(0);
            }
        }
        Range range = {};
        if constexpr (TERMS > 1 && !SCALED) {
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) range.see(moved[i][j]);
            }
        }
        const auto inside = [&](int i, int j) { return row_of(i, PIECES) < square.rows && col_of(PIECES) + j < square.cols; };
        if constexpr (SCALED) scale(square, moved, inside, thread, shared.largest, sync, range);
        const auto put = [&](int row, int col, int rows, int cols, const Element* elements, int count) {
            To* const at = square.to + static_cast<long long>(row) * square.ld + col;
            if (row < rows && col < cols) store(at, square.term, elements, min(count, cols - col));
        };
        if constexpr (!ACROSS) {
#pragma unroll
            for (int i = 0; i < TIMES; ++i) put(row_of(i, PIECES), col_of(PIECES), square.rows, square.cols, moved[i], WIDTH);
        } else {
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) shared.staged[row_of(i, PIECES)][col_of(PIECES) + j] = moved[i][j];
            }
            sync();
#pragma unroll
            for (int i = 0; i < SQUARE * SQUARE / 4 / MOVERS; ++i) {
                const int row = row_of(i, SQUARE / 4), col = col_of(SQUARE / 4);
                __align__(16) Element quad[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) quad[j] = shared.staged[col + j][row];
                put(row, col, square.cols, square.rows, quad, 4);
            }
        }
        return range;
    }

    // Scales a square's elements, of which this thread has moved some. `inside(i, j)`: whether moved[i][j] is one of the matrix.
    template <int TIMES, int WIDTH, typename Inside, typename Sync>
    static __device__ __forceinline__ void scale(const Square& square, Element (&moved)[TIMES][WIDTH], const Inside& inside,
                                                 int thread, unsigned (&of_warps)[MOVERS / 32], const Sync& sync,
                                                 Range& range) {
        unsigned largest = 0;
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) largest = max(largest, moved[i][j] & Range::NONE);
        }
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) largest = max(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
        if (thread % 32 == 0) of_warps[thread / 32] = largest;
        sync();
#pragma unroll
        for (int warp = 0; warp < MOVERS / 32; ++warp) largest = max(largest, of_warps[warp]);

        range.see(largest);
        const float by = __uint_as_float(min(268 - (largest >> 23), 254u) << 23);  // 2^(14 - e) for 2^e, at most 2^127
        if (thread == 0 && square.rows > 0) *square.scale = 1 / by;
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                const unsigned scaled = __float_as_uint(__uint_as_float(moved[i][j]) * by);
                if (inside(i, j)) range.see_scaled(moved[i][j], scaled);
                moved[i][j] = scaled;
            }
        }
    }

    // Stores four neighbours of a line of the copy, or fewer.
    static __device__ __forceinline__ void store(To* to, long long term, const Element* elements, int count) {
        if constexpr (TERMS == 1) {
            if (count == 4) {
                *reinterpret_cast<Quad*>(to) = *reinterpret_cast<const Quad*>(elements);
            } else {
                for (int i = 0; i < count; ++i) reinterpret_cast<Element*>(to)[i] = elements[i];
            }
        } else {
            float left[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) left[i] = i < count ? to_float(reinterpret_cast<const From*>(elements)[i]) : 0.0f;
#pragma unroll
            for (int t = 0; t < TERMS; ++t, to += term) {
                if (count == 4) {
                    store_run<4>(to, left);
                } else {
                    for (int i = 0; i < count; ++i) to[i] = from_float<To>(left[i]);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) left[i] = (left[i] - to_float(from_float<To>(left[i]))) * TERM_STEP;
            }
        }
    }
};
