// Copies of matrices as another kernel wants them: lines of neighbours, each from a multiple of 16 bytes on, transposed or
// not, from any strides. The kernel that wants them may start up meanwhile.
//
// A block moves a square of one matrix. Neighbouring threads load what are neighbours in memory, or lie nearest to each
// other; four elements together where the view allows. Where that runs across the lines of the copy, the square goes
// through shared memory:
//
//     element_stride is the smaller:   view --> registers --> copy           thread t: line t / SIDE, element t % SIDE
//     line_stride is the smaller:      view --> registers --> square[element][line] --> copy, four elements together
//
// Shared memory: SIDE x (SIDE + 1) elements; the odd length puts a column's elements on distinct banks.

#include <dependent_launch.cuh>

#include "elements.cuh"

using Element = Bits<sizeof(FACTOR)>::type;
using Quad = Bits<4 * sizeof(FACTOR)>::type;

// Matrices to be copied, one or a batch, as lines of the copy; strides are in elements.
struct Copy {
    const FACTOR* from;
    FACTOR* to;
    long long line_stride, element_stride, matrix_stride;
    int lines, length, matrices;
    int ld;  // elements from one line of the copy to the next, the matrices being right behind each other
};

// Whether quads of neighbours along a side of stride 1 may be loaded together.
__device__ __forceinline__ bool has_quads(const Copy& copy, long long stride, long long other) {
    const long long apart = reinterpret_cast<long long>(copy.from) / static_cast<long long>(sizeof(Element)) | other |
                            copy.matrix_stride;
    return stride == 1 && apart % 4 == 0;
}

__device__ __forceinline__ void store_quads(Element* to, int elements, const Element* quad) {
    if (elements >= 4) {
        *reinterpret_cast<Quad*>(to) = *reinterpret_cast<const Quad*>(quad);
    } else {
        for (int i = 0; i < elements; ++i) to[i] = quad[i];
    }
}

// Moves the square that begins at (line, element). ACROSS: neighbouring threads load neighbouring lines. WIDTH: elements,
// 1 or 4, that a thread loads together.
template <bool ACROSS, int WIDTH>
__device__ __forceinline__ void move_square(const Copy& copy, const Element* from, Element* to, int line, int element) {
    constexpr int TIMES = SIDE * SIDE / WIDTH / THREADS;
    constexpr int PIECES = SIDE / WIDTH;
    __shared__ Element square[ACROSS ? SIDE : 1][SIDE + 1];
    __align__(16) Element moved[TIMES][WIDTH];
    const int far = ACROSS ? copy.length - element : copy.lines - line;  // what is left, and how far apart
    const int near = ACROSS ? copy.lines - line : copy.length - element;
    const long long far_stride = ACROSS ? copy.element_stride : copy.line_stride;
    const long long near_stride = ACROSS ? copy.line_stride : copy.element_stride;
#pragma unroll
    for (int i = 0; i < TIMES; ++i) {
        const int y = (i * THREADS + threadIdx.x) / PIECES, x = (i * THREADS + threadIdx.x) % PIECES * WIDTH;
        const Element* const at = from + y * far_stride + x * near_stride;
        if (WIDTH == 4 && y < far && x + 4 <= near) {
            *reinterpret_cast<Quad*>(moved[i]) = *reinterpret_cast<const Quad*>(at);
        } else {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) moved[i][j] = y < far && x + j < near ? at[j * near_stride] : Element(0);
        }
    }
    if constexpr (!ACROSS) {
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            const int y = (i * THREADS + threadIdx.x) / PIECES, x = (i * THREADS + threadIdx.x) % PIECES * WIDTH;
            if (y >= far) continue;
            Element* const at = to + static_cast<long long>(y) * copy.ld + x;
            if constexpr (WIDTH == 4) {
                store_quads(at, near - x, moved[i]);
            } else if (x < near) {
                *at = moved[i][0];
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            const int y = (i * THREADS + threadIdx.x) / PIECES, x = (i * THREADS + threadIdx.x) % PIECES * WIDTH;
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) square[y][x + j] = moved[i][j];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SIDE * SIDE / 4 / THREADS; ++i) {
            const int y = (i * THREADS + threadIdx.x) / (SIDE / 4), x = (i * THREADS + threadIdx.x) % (SIDE / 4) * 4;
            __align__(16) Element quad[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) quad[j] = square[x + j][y];
            if (y < near) store_quads(to + static_cast<long long>(y) * copy.ld + x, far - x, quad);
        }
    }
}

// Moves square `number` of a copy's.
__device__ __forceinline__ void move(const Copy& copy, int number) {
    const int along = (copy.length + SIDE - 1) / SIDE, down = (copy.lines + SIDE - 1) / SIDE;
    const int matrix = number / (along * down);
    const int line = number % (along * down) / along * SIDE, element = number % along * SIDE;
    const Element* const from = reinterpret_cast<const Element*>(copy.from) + matrix * copy.matrix_stride +
                                line * copy.line_stride + element * copy.element_stride;
    Element* const to = reinterpret_cast<Element*>(copy.to) +
                        (static_cast<long long>(matrix) * copy.lines + line) * copy.ld + element;
    if (abs(copy.line_stride) < abs(copy.element_stride)) {
        if (has_quads(copy, copy.line_stride, copy.element_stride)) {
            move_square<true, 4>(copy, from, to, line, element);
        } else {
            move_square<true, 1>(copy, from, to, line, element);
        }
    } else if (has_quads(copy, copy.element_stride, copy.line_stride)) {
        move_square<false, 4>(copy, from, to, line, element);
    } else {
        move_square<false, 1>(copy, from, to, line, element);
    }
}

// One copy or two: the squares of `first` have the first numbers. A copy of no lines has none.
extern "C" __global__ void __launch_bounds__(THREADS) relayout(Copy first, Copy second) {
    wait_for_grid_before();
    let_grid_after_start();  // it starts when the last block here has, so it takes no block's slot
    const int squares = (first.length + SIDE - 1) / SIDE * ((first.lines + SIDE - 1) / SIDE) * first.matrices;
    const int number = blockIdx.x;
    if (number < squares) {
        move(first, number);
    } else {
        move(second, number - squares);
    }
}
