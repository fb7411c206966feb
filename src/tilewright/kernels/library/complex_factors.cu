// Factors of a complex product as those of a real one, D = A B' in floats: A and D are read as they lie, (re, im) by (re, im), and B' has
// for each element x of B four floats, so that a row of A times two columns of B' is the real and the imaginary part of one element of D.
//
//     B, an element in row k      B', rows 2k and 2k + 1      of a conjugated A
//     x = (xr, xi)                |  xr  xi |                 | xr   xi |
//                                 | -xi  xr |                 | xi  -xr |
//
// x is what B has, conjugated if CONJUGATE, then multiplied by alpha if COMPLEX_ALPHA. B' has the order of B: a line of B, a row or a
// column, becomes two neighbouring lines of the same number of pairs. Lines of a column-major A are no view of such rows: A is transposed.
// Or A is written so, transposed or as it is where B would become too large (complex_join.cu): of A^T, rows are lines that run along k.
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

// The pairs of an element, in the two lines that its line becomes.
__device__ __forceinline__ void write_twice(float2 x, const ComplexAlpha& alpha, bool along_k, float2& first, float2& second) {
    if (CONJUGATE) x.y = -x.y;
    if (COMPLEX_ALPHA) x = make_float2(alpha.re * x.x - alpha.im * x.y, alpha.re * x.y + alpha.im * x.x);
    const float2 below = CONJUGATE_OTHER ? make_float2(x.y, -x.x) : make_float2(-x.y, x.x);  // row 2k + 1 of B'
    first = make_float2(x.x, along_k ? below.x : x.y);
    second = make_float2(along_k ? x.y : below.x, below.y);
}

// Writes square `number` twice as large, two elements of a line at a time.
__device__ __forceinline__ void write_twice(const ComplexCopy& copy, int number, const ComplexAlpha& alpha) {
    const auto [matrix, line, element] = copy.place<SIDE>(number);
    const float2* const from = copy.from + matrix * copy.matrix_stride;
    float2* const to = copy.to + 2ll * matrix * copy.lines * copy.ld;
    const bool aligned = copy.aligned<2>();
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * SIDE / 2; i += THREADS) {
        const int row = line + i / (SIDE / 2), col = element + i % (SIDE / 2) * 2;
        if (row >= copy.lines || col >= copy.length) continue;
        const float2* const at = from + static_cast<long long>(row) * copy.ld_from + col;
        float2 pair[2] = {};
        if (aligned && col + 1 < copy.length) {
            const float4 both = *reinterpret_cast<const float4*>(at);
            pair[0] = make_float2(both.x, both.y), pair[1] = make_float2(both.z, both.w);
        } else {
            pair[0] = at[0];
            if (col + 1 < copy.length) pair[1] = at[1];
        }
        float2 first[2], second[2];
        write_twice(pair[0], alpha, copy.along_k, first[0], second[0]);
        write_twice(pair[1], alpha, copy.along_k, first[1], second[1]);
        float2* const target = to + 2ll * row * copy.ld + col;
        *reinterpret_cast<float4*>(target) = make_float4(first[0].x, first[0].y, first[1].x, first[1].y);
        *reinterpret_cast<float4*>(target + copy.ld) = make_float4(second[0].x, second[0].y, second[1].x, second[1].y);
    }
}

// The squares of the factor that is transposed, which has no lines where there is none, have the first numbers. The kernel behind may start up meanwhile.
extern "C" __global__ void __launch_bounds__(THREADS, 1536 / THREADS)
    complex_factors(ComplexCopy transposed, ComplexCopy doubled, ComplexAlpha alpha) {
    __shared__ float2 staged[SIDE][SIDE + 1];
    grid_dependency_wait();
    grid_dependency_launch();
    const int of_a = transposed.squares<SIDE>(), number = blockIdx.x;
    if (number < of_a) {
        transpose(transposed, number, staged);
    } else {
        write_twice(doubled, number - of_a, alpha);
    }
}
