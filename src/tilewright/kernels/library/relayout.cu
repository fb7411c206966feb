// Copies of matrices as another kernel wants them: lines of neighbours, each from a multiple of 16 bytes on, transposed or
// not. The kernel that wants them may start up meanwhile.
//
// With TERMS above 1 an element x of FACTOR is copied as terms of RESULT, a matrix each: x0 is x rounded, x1 what is left of
// x rounded, and so on. The matrices of a batch lie in the copy behind each other, each with its terms behind each other.
// Where SCALED is 1, SIDE is 64, and elements are scaled before (term_scales.cuh). What a product has to know of them is added
// to `range` (term_range.cuh).
//
// A block moves a square of one matrix. Neighbouring threads load neighbours in memory, and store neighbours in the copy;
// four elements together where memory's lines are aligned. A square of a transposed copy goes through shared memory:
//
//     across = 0:   memory --> registers --> copy                       thread t: row t / SIDE, column t % SIDE
//     across = 1:   memory --> registers --> staged[row][col] --> copy, four elements of a column together
//
// Shared memory: SIDE x (SIDE + 1) elements; the odd length puts a column's elements on distinct banks.

#include <dependent_launch.cuh>

#include "elements.cuh"
#include "term_range.cuh"
#include "term_scales.cuh"

using Element = Bits<sizeof(FACTOR)>::type;
using Quad = Bits<4 * sizeof(FACTOR)>::type;

// Matrices to be copied, one or a batch.
struct Copy {
    const FACTOR* from;
    RESULT* to;
    float* scales;                // that products of the copy are multiplied by; null where SCALED is 0
    Range* range;                 // of its elements; null: not looked at
    long long matrix_stride;      // elements from one matrix to the next in memory; in the copy they are right behind each other
    int lines, length, matrices;  // lines of the copy, and elements of each
    int across;                   // whether lines in memory run across those of the copy
    int ld_from, ld;              // elements from one line to the next, in memory and in the copy
    int along_k;                  // whether lines of the copy run along k
};

// A square of a matrix whose lines in memory are rows. `rows` and `cols`: how far the matrix reaches from its first element.
struct Square {
    const Element* from;
    RESULT* to;
    long long term;  // elements from one term to the next in the copy
    float* scale;    // that products of it are multiplied by
    int ld_from, ld;
    int rows, cols;
};

// Stores four neighbours of a line of the copy, or fewer.
__device__ __forceinline__ void store(RESULT* to, long long term, const Element* elements, int count) {
    if constexpr (TERMS == 1) {
        if (count == 4) {
            *reinterpret_cast<Quad*>(to) = *reinterpret_cast<const Quad*>(elements);
        } else {
            for (int i = 0; i < count; ++i) reinterpret_cast<Element*>(to)[i] = elements[i];
        }
    } else {
        float left[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) left[i] = i < count ? to_float(reinterpret_cast<const FACTOR*>(elements)[i]) : 0.0f;
#pragma unroll
        for (int t = 0; t < TERMS; ++t, to += term) {
            if (count == 4) {
                store_run<4>(to, left);
            } else {
                for (int i = 0; i < count; ++i) to[i] = from_float<RESULT>(left[i]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) left[i] = (left[i] - to_float(from_float<RESULT>(left[i]))) * TERM_STEP;
        }
    }
}

// Scales a square's elements, of which this thread has moved some. `inside(i, j)`: whether moved[i][j] is one of the matrix.
template <int TIMES, int WIDTH, typename Inside>
__device__ __forceinline__ void scale(const Square& square, Element (&moved)[TIMES][WIDTH], const Inside& inside,
                                      unsigned (&of_warps)[THREADS / 32], Range& range) {
    unsigned largest = 0;
#pragma unroll
    for (int i = 0; i < TIMES; ++i) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) largest = max(largest, moved[i][j] & Range::NONE);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) largest = max(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; ++warp) largest = max(largest, of_warps[warp]);

    range.see(largest);
    const float by = __uint_as_float(min(268 - (largest >> 23), 254u) << 23);  // 2^(14 - e) for 2^e, at most 2^127
    if (threadIdx.x == 0) *square.scale = 1 / by;
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

// Moves a square; WIDTH: elements, 1 or 4, that a thread loads together.
template <bool ACROSS, int WIDTH>
__device__ __forceinline__ Range move(const Square& square, Element (&staged)[SIDE][SIDE + 1],
                                      unsigned (&largest)[THREADS / 32]) {
    constexpr int TIMES = SIDE * SIDE / WIDTH / THREADS;
    constexpr int PIECES = SIDE / WIDTH;
    __align__(16) Element moved[TIMES][WIDTH];
    const auto row_of = [](int time, int pieces) { return (time * THREADS + static_cast<int>(threadIdx.x)) / pieces; };
    const auto col_of = [](int pieces) { return static_cast<int>(threadIdx.x) % pieces * (SIDE / pieces); };
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
    if constexpr (SCALED) scale(square, moved, inside, largest, range);
    const auto put = [&](int row, int col, int rows, int cols, const Element* elements, int count) {
        RESULT* const at = square.to + static_cast<long long>(row) * square.ld + col;
        if (row < rows && col < cols) store(at, square.term, elements, min(count, cols - col));
    };
    if (!ACROSS) {
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            put(row_of(i, PIECES), col_of(PIECES), square.rows, square.cols, moved[i], WIDTH);
        }
        return range;
    }
#pragma unroll
    for (int i = 0; i < TIMES; ++i) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) staged[row_of(i, PIECES)][col_of(PIECES) + j] = moved[i][j];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SIDE * SIDE / 4 / THREADS; ++i) {
        const int row = row_of(i, SIDE / 4), col = col_of(SIDE / 4);
        __align__(16) Element quad[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) quad[j] = staged[col + j][row];
        put(row, col, square.cols, square.rows, quad, 4);
    }
    return range;
}

// One copy or two: the squares of `first` have the first numbers. A copy of no lines has none. A multiprocessor is to be full of
// threads, so that enough loads are under way; with squares of 64 that would leave a thread too few registers.
extern "C" __global__ void __launch_bounds__(THREADS, SIDE == 32 ? 2048 / THREADS : 1)
    relayout(Copy first, Copy second) {
    __shared__ Element staged[SIDE][SIDE + 1];
    __shared__ unsigned largest[THREADS / 32];
    __shared__ Range of_warps[THREADS / 32];
    wait_for_grid_before();
    let_grid_after_start();  // it starts when the last block here has, so it takes no block's slot
    const int squares_of_first = (first.length + SIDE - 1) / SIDE * ((first.lines + SIDE - 1) / SIDE) * first.matrices;
    const bool of_second = blockIdx.x >= squares_of_first;
    const Copy copy = of_second ? second : first;

    const int along = (copy.length + SIDE - 1) / SIDE, down = (copy.lines + SIDE - 1) / SIDE;
    int number = blockIdx.x - (of_second ? squares_of_first : 0), matrix = 0;
    if (copy.matrices > 1) {
        matrix = number / (along * down);
        number %= along * down;
    }
    const int line = number / along * SIDE, element = number % along * SIDE;
    const int row = copy.across ? element : line, col = copy.across ? line : element;  // in memory
    const Square square = {
        reinterpret_cast<const Element*>(copy.from) + matrix * copy.matrix_stride +
            static_cast<long long>(row) * copy.ld_from + col,
        copy.to + (static_cast<long long>(matrix) * TERMS * copy.lines + line) * copy.ld + element,
        static_cast<long long>(copy.lines) * copy.ld,
        copy.along_k
            ? copy.scales + (static_cast<long long>(matrix) * along + element / SIDE) * scale_run(copy.lines) + line / SIDE
            : copy.scales + (static_cast<long long>(matrix) * down + line / SIDE) * scale_run(copy.length) + element / SIDE,
        copy.ld_from,
        copy.ld,
        (copy.across ? copy.length : copy.lines) - row,
        (copy.across ? copy.lines : copy.length) - col,
    };
    const long long apart = reinterpret_cast<long long>(copy.from) / static_cast<long long>(sizeof(Element)) |
                            copy.ld_from | copy.matrix_stride;
    const bool has_quads = apart % 4 == 0;  // all lines in memory are aligned
    Range known = {};
    if (TERMS > 1 && copy.range != nullptr && threadIdx.x == 0) known = known_of(copy.range);  // along with the elements
    Range range;
    if (copy.across) {
        range = has_quads ? move<true, 4>(square, staged, largest) : move<true, 1>(square, staged, largest);
    } else {
        range = has_quads ? move<false, 4>(square, staged, largest) : move<false, 1>(square, staged, largest);
    }
    if (TERMS == 1 || copy.range == nullptr) return;
    const Range of_warp = range.of_warp();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = of_warp;
    __syncthreads();
    if (threadIdx.x < 32) {
        const Range none = {};
        const Range of_block = (threadIdx.x < THREADS / 32 ? of_warps[threadIdx.x] : none).of_warp();
        if (threadIdx.x == 0) of_block.add_to(copy.range, known);
    }
}
