// Factors of a complex product as those of a real one, D = A B' in floats: A and D are read as they lie, (re, im) by (re, im), and B' has
// for each element x of B four floats, so that a row of A times two columns of B' is the real and the imaginary part of one element of D.
//
//     B, an element in row k      B', rows 2k and 2k + 1      of a conjugated A
//     x = (xr, xi)                |  xr  xi |                 | xr   xi |
//                                 | -xi  xr |                 | xi  -xr |
//
// x is what B has, conjugated if CONJUGATE, then multiplied by alpha if COMPLEX_ALPHA. B' has the order of B: a line of B, a row or a
// column, becomes two neighbouring lines of the same number of pairs. Lines of a column-major A are no view of such rows: A is transposed.
// Or A is written so, or transposed, where B would become too large (complex_join.cu): of A^T, rows are lines that run along k.
//
// With PLANES, both are written as three matrices of floats: re, im and re + im.
#include "ptx/dependent_launch.cuh"

constexpr int SPLIT_PARTS = 1;  // what relayout_square.cuh asks for
constexpr bool SCALED = false;
#include "relayout/relayout_square.cuh"

struct ComplexAlpha {
    float re, im;
};

using ComplexCopy = Copy<float2, float2>;

// Transposes square `number`: lines in memory run across those of the copy, whose last pair may be filled up with a 0.
__device__ __forceinline__ void transpose(const ComplexCopy& copy, int number, float2 (&staged)[SIDE][SIDE + 1]) {
    const auto [matrix, line, element] = copy.place<SIDE>(number);
    const float2* const from = copy.from + matrix * copy.matrix_stride;
    float2* const to = copy.to + static_cast<long long>(matrix) * copy.lines * copy.ld;
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * SIDE; i += THREADS) {
        const int row = element + i / SIDE, col = line + i % SIDE;  // in memory
        const bool exists = row < copy.length && col < copy.lines;
        staged[i / SIDE][i % SIDE] = exists ? from[static_cast<long long>(row) * copy.ld_from + col] : make_float2(0, 0);
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * SIDE; i += THREADS) {
        const int row = line + i / SIDE, col = element + i % SIDE;
        if (row < copy.lines && col < copy.ld) to[static_cast<long long>(row) * copy.ld + col] = staged[i % SIDE][i / SIDE];
    }
}

// An element as it is to be multiplied.
template <bool IS_CONJUGATED, bool HAS_ALPHA>
__device__ __forceinline__ float2 as_multiplied(float2 x, const ComplexAlpha& alpha) {
    if (IS_CONJUGATED) x.y = -x.y;
    return HAS_ALPHA ? make_float2(alpha.re * x.x - alpha.im * x.y, alpha.re * x.y + alpha.im * x.x) : x;
}

// Calls write(matrix, row, col, x, y) for each two neighbours x and y of the lines of square `number`; 0 past a line's end.
template <bool IS_CONJUGATED, bool HAS_ALPHA, typename Write>
__device__ __forceinline__ void for_each_two(const ComplexCopy& copy, int number, const ComplexAlpha& alpha, const Write& write) {
    const auto [matrix, line, element] = copy.place<SIDE>(number);
    const float2* const from = copy.from + matrix * copy.matrix_stride;
    const bool aligned = copy.aligned<2>();
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * SIDE / 2; i += THREADS) {
        const int row = line + i / (SIDE / 2), col = element + i % (SIDE / 2) * 2;
        if (row >= copy.lines || col >= copy.length) continue;
        const float2* const at = from + static_cast<long long>(row) * copy.ld_from + col;
        float2 x, y = {};
        if (aligned && col + 1 < copy.length) {
            const float4 both = *reinterpret_cast<const float4*>(at);
            x = make_float2(both.x, both.y), y = make_float2(both.z, both.w);
        } else {
            x = at[0];
            if (col + 1 < copy.length) y = at[1];
        }
        const long long line_of_all = static_cast<long long>(matrix) * copy.lines + row;
        write(line_of_all, matrix, col, as_multiplied<IS_CONJUGATED, HAS_ALPHA>(x, alpha), as_multiplied<IS_CONJUGATED, HAS_ALPHA>(y, alpha));
    }
}

// The pairs of an element, in the two lines that its line becomes.
__device__ __forceinline__ void pairs_of(float2 x, bool along_k, float2& first, float2& second) {
    const float2 below = CONJUGATE_OTHER ? make_float2(x.y, -x.x) : make_float2(-x.y, x.x);  // row 2k + 1 of B'
    first = make_float2(x.x, along_k ? below.x : x.y);
    second = make_float2(along_k ? x.y : below.x, below.y);
}

// Writes square `number` twice as large.
__device__ __forceinline__ void write_twice(const ComplexCopy& copy, int number, const ComplexAlpha& alpha) {
    for_each_two<CONJUGATE, COMPLEX_ALPHA>(copy, number, alpha, [&](long long line, int, int col, float2 x, float2 y) {
        float2 first[2], second[2];
        pairs_of(x, copy.along_k, first[0], second[0]);
        pairs_of(y, copy.along_k, first[1], second[1]);
        float2* const to = copy.to + 2 * line * copy.ld + col;
        *reinterpret_cast<float4*>(to) = make_float4(first[0].x, first[0].y, first[1].x, first[1].y);
        *reinterpret_cast<float4*>(to + copy.ld) = make_float4(second[0].x, second[0].y, second[1].x, second[1].y);
    });
}

// Writes the real parts of square `number`, the imaginary ones, and the sums of both, each as a matrix of floats.
template <bool IS_CONJUGATED, bool HAS_ALPHA>
__device__ __forceinline__ void write_planes(const ComplexCopy& copy, int number, const ComplexAlpha& alpha) {
    for_each_two<IS_CONJUGATED, HAS_ALPHA>(copy, number, alpha, [&](long long line, int matrix, int col, float2 x, float2 y) {
        const long long plane = static_cast<long long>(copy.lines) * copy.ld;  // in two floats, as `to`
        float2* const to = copy.to + 2 * matrix * plane + line * copy.ld + col / 2;
        to[0] = make_float2(x.x, y.x);
        to[plane] = make_float2(x.y, y.y);
        to[2 * plane] = make_float2(x.x + x.y, y.x + y.y);
    });
}

// The squares of `first` have the first numbers: of A with PLANES, else of the factor that is transposed, which has no lines where there
// is none. The kernel behind may start up meanwhile.
extern "C" __global__ void __launch_bounds__(THREADS, 1536 / THREADS)
    complex_factors(ComplexCopy first, ComplexCopy second, ComplexAlpha alpha) {
    __shared__ float2 staged[SIDE][SIDE + 1];
    grid_dependency_wait();
    grid_dependency_launch();
    const int of_first = first.squares<SIDE>(), number = blockIdx.x;
    if (number >= of_first) {
        if (PLANES) {
            write_planes<CONJUGATE, COMPLEX_ALPHA>(second, number - of_first, alpha);
        } else {
            write_twice(second, number - of_first, alpha);
        }
    } else if (PLANES) {
        write_planes<CONJUGATE_OTHER, false>(first, number, alpha);
    } else {
        transpose(first, number, staged);
    }
}
