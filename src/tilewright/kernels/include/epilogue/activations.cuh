// Activations: what is applied to every element of a result, last of all. NaN stays NaN.
#pragma once

struct identity {
    static __device__ __forceinline__ float of(float x) { return x; }
};

struct relu {
    static __device__ __forceinline__ float of(float x) { return x < 0.0f ? 0.0f : x; }
};

// x times the probability that a normal variable is less than x.
struct gelu {
    static __device__ __forceinline__ float of(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
};

struct silu {
    static __device__ __forceinline__ float of(float x) { return x / (1.0f + expf(-x)); }
};

// gelu with 0.5 * (1 + tanh(u)) for the probability, u being sqrt(2 / pi) * (x + 0.044715 * x^3). That is 1 / (1 + exp(-2u)).
struct gelu_tanh {
    static __device__ __forceinline__ float of(float x) {
        return x / (1.0f + expf(-1.5957691f * (x + 0.044715f * x * x * x)));
    }
};
