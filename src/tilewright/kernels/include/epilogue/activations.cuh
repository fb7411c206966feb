// Activations: what is applied to every element of a result of type T, last of all. NaN stays NaN.
//
// None has a branch, so that what it waits for overlaps for all elements of a thread.
#pragma once

#include "ptx/approximate.cuh"

struct identity {
    template <typename T>
    static __device__ __forceinline__ float of(float x) {
        return x;
    }
};

template <typename>
constexpr bool COMPUTES_NOTHING = false;
template <>
constexpr bool COMPUTES_NOTHING<identity> = true;

struct relu {
    template <typename T>
    static __device__ __forceinline__ float of(float x) {
        return x < 0.0f ? 0.0f : x;
    }
};

// The base-2 logarithm of the probability that a normal variable is more than x, for x of 0 or more: a polynomial, minimax on
// [0, 5], with the same error of the probability up to 2 and a larger one beyond. For results of 32 bits that is 7e-8 and
// exp(4 * (x - 2)) times that; for shorter ones, which round by 2e-4 at least, 6.1e-5 and exp(x - 2) times that. The last
// coefficient is negative, so that the probability becomes 0 for large x.
template <int BYTES>
__device__ __forceinline__ float log2_tail(float x) {
    constexpr int DEGREE = BYTES == 4 ? 8 : 5;
    constexpr float LONG[] = {-1.0f,           -1.15110736f,    -4.59187383e-1f, -5.25623246e-2f, 7.16032349e-3f,
                              -2.10829632e-4f, -1.56007047e-4f, 3.31471914e-5f,  -2.32564587e-6f};
    constexpr float SHORT[] = {-1.00008786f,    -1.14960444f,   -4.63278353e-1f,
                               -4.87736277e-2f, 5.95324207e-3f, -3.29589879e-4f};
    float sum = BYTES == 4 ? LONG[DEGREE] : SHORT[DEGREE];
#pragma unroll
    for (int power = DEGREE - 1; power >= 0; --power) sum = fmaf(sum, x, BYTES == 4 ? LONG[power] : SHORT[power]);
    return sum;
}

// x times the probability that a normal variable is less than x.
struct gelu {
    template <typename T>
    static __device__ __forceinline__ float of(float x) {
        const float tail = exp2_approx(log2_tail<sizeof(T)>(fabsf(x)));
        return x * (x > 0.0f ? 1.0f - tail : tail);
    }
};

struct silu {
    template <typename T>
    static __device__ __forceinline__ float of(float x) {
        return x * reciprocal_approx(1.0f + (sizeof(T) == 4 ? expf(-x) : exp2_approx(-1.44269504f * x)));
    }
};

// gelu with 0.5 * (1 + tanh(u)) for the probability, u being sqrt(2 / pi) * (x + 0.044715 * x^3). That is 1 / (1 + exp(-2u)).
struct gelu_tanh {
    template <typename T>
    static __device__ __forceinline__ float of(float x) {
        const float log2_exp = x * fmaf(-0.102943240f, x * x, -2.30220819f);  // of exp(-2u)
        return x * reciprocal_approx(1.0f + exp2_approx(log2_exp));
    }
};
