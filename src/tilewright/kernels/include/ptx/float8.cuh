// 8-bit floating-point types, as bits: 1 of sign, 4 or 5 of exponent, 3 or 2 of mantissa. e4m3 has no infinity, and numbers up to
// 448; e5m2 is the upper half of a __half. A GPU from compute capability 8.9 on converts them.
#pragma once

#include "ptx/half.cuh"

struct float8_e4m3 {
    unsigned char bits;
};
struct float8_e5m2 {
    unsigned char bits;
};

__device__ __forceinline__ float to_float(float8_e4m3 x) {
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(x.bits)));
    return __half2float(__ushort_as_half(static_cast<unsigned short>(pair)));
}
__device__ __forceinline__ void pair_to_floats(float* to, float8_e4m3 x, float8_e4m3 y) {
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(y.bits << 8 | x.bits)));
    to[0] = __half2float(__ushort_as_half(static_cast<unsigned short>(pair)));
    to[1] = __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)));
}
__device__ __forceinline__ float to_float(float8_e5m2 x) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(x.bits << 8)));
}

// The nearest to a float, the even one of two; the largest number where the float is larger, of infinity too.
__device__ __forceinline__ float8_e4m3 to_e4m3(float x) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return {static_cast<unsigned char>(pair)};
}
