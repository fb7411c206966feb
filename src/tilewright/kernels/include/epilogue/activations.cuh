// Activations: what is applied to every element of a result, last of all. NaN stays NaN.
//
// None has a branch, so that what it waits for overlaps for all elements of a thread.
#pragma once

#include <approximate.cuh>  // in brackets: the emulator has one of its own

struct identity {
    static __device__ __forceinline__ float of(float x) { return x; }
};

template <typename>
constexpr bool COMPUTES_NOTHING = false;
template <>
constexpr bool COMPUTES_NOTHING<identity> = true;

struct relu {
    static __device__ __forceinline__ float of(float x) { return x < 0.0f ? 0.0f : x; }
};

// x times the probability that a normal variable is less than x. `tail` is the probability that one is more than |x|, and its
// logarithm a polynomial of |x|: minimax on [0, 5], with an error of 7e-8 of `tail` up to 2 and exp(4 * (|x| - 2)) times that
// beyond. The last coefficient is negative, so that `tail` becomes 0 for large |x|.
struct gelu {
    static __device__ __forceinline__ float of(float x) {
        constexpr float LOG2_TAIL[] = {-1.0f,           -1.15110736f,    -4.59187383e-1f, -5.25623246e-2f, 7.16032349e-3f,
                                       -2.10829632e-4f, -1.56007047e-4f, 3.31471914e-5f,  -2.32564587e-6f};
        float log2_tail = LOG2_TAIL[8];
#pragma unroll
        for (int power = 7; power >= 0; --power) log2_tail = fmaf(log2_tail, fabsf(x), LOG2_TAIL[power]);
        const float tail = exp2_approx(log2_tail);
        return x * (x > 0.0f ? 1.0f - tail : tail);
    }
};

struct silu {
    static __device__ __forceinline__ float of(float x) { return x * reciprocal_approx(1.0f + expf(-x)); }
};

// gelu with 0.5 * (1 + tanh(u)) for the probability, u being sqrt(2 / pi) * (x + 0.044715 * x^3). That is 1 / (1 + exp(-2u)).
struct gelu_tanh {
    static __device__ __forceinline__ float of(float x) {
        const float log2_exp = x * fmaf(-0.102943240f, x * x, -2.30220819f);  // of exp(-2u)
        return x * reciprocal_approx(1.0f + exp2_approx(log2_exp));
    }
};
