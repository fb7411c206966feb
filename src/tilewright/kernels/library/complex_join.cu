// The complex product D that two rows of real products are, for each row of A:
//
//     PAIRS = 0, a row of n floats each     | re re re .. |      PAIRS = 1, of (re, im) pairs of B     | ar br  ar bi  .. |
//                                           | im im im .. |                                            | ai br  ai bi  .. |
//
// With PLANES = 1 there are three products, each of as many rows as D: P = Ar Br, Q = Ai Bi and R = (Ar + Ai) (Br + Bi), of which the
// element is (P - Q, R - P - Q).
//
// Then D = alpha * product + beta * C + bias; a real alpha is in the products already. D, C and the bias are pairs of floats.
#include "operands.cuh"
#include "ptx/dependent_launch.cuh"

struct ComplexAlpha {
    float re, im;
};

__device__ __forceinline__ float2 pair_at(const float* row, int col) { return reinterpret_cast<const float2*>(row)[col]; }

// sizes: n in floats of D.
extern "C" __global__ void __launch_bounds__(THREADS) complex_join(Sizes sizes, const float* products, Output<float> output, ComplexAlpha alpha) {
    grid_dependency_wait();
    grid_dependency_launch();
    const int across = (sizes.n + BN - 1) / BN, down = (sizes.m + BM - 1) / BM;
    const int matrix = blockIdx.x / (across * down), tile = blockIdx.x % (across * down);
    const int columns = sizes.n / 2, ld = ((PAIRS ? sizes.n : columns) + 3) / 4 * 4;
#pragma unroll
    for (int i = threadIdx.x; i < BM * BN / 2; i += THREADS) {
        const int row = tile / across * BM + i / (BN / 2), col = tile % across * (BN / 2) + i % (BN / 2);
        if (row >= sizes.m || col >= columns) continue;
        const long long above = static_cast<long long>(matrix) * sizes.m;  // rows of D of matrices before
        const float* const first = products + (PLANES ? 3 * above + row : 2 * (above + row)) * ld;
        const long long apart = PLANES ? static_cast<long long>(sizes.m) * ld : ld;
        const float* const second = first + apart;
        float2 x;
        if (PLANES) {
            const float p = first[col], q = second[col], r = second[apart + col];
            x = make_float2(p - q, r - p - q);
        } else if (PAIRS) {
            const float2 re = pair_at(first, col), im = pair_at(second, col);  // of an element of A, times (re, im) of B
            x.x = CONJUGATE_A == CONJUGATE_B ? re.x - im.y : re.x + im.y;
            x.y = (CONJUGATE_B ? -re.y : re.y) + (CONJUGATE_A ? -im.x : im.x);
        } else {
            x = make_float2(first[col], second[col]);
        }
        if (COMPLEX_ALPHA) x = make_float2(alpha.re * x.x - alpha.im * x.y, alpha.re * x.y + alpha.im * x.x);
        if (output.beta != 0) {
            const float2 c = pair_at(output.C + matrix * output.batch_stride_c + static_cast<long long>(row) * output.ldc, col);
            x.x += output.beta * c.x;
            x.y += output.beta * c.y;
        }
        if (output.bias != nullptr) {
            const float2 bias = pair_at(output.bias, col);
            x.x += bias.x;
            x.y += bias.y;
        }
        float* const to = output.D + matrix * output.batch_stride_d + static_cast<long long>(row) * output.ldd;
        reinterpret_cast<float2*>(to)[col] = x;
    }
}
