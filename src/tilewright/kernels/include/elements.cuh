// Elements of a matrix in memory, of type float, __half or __nv_bfloat16, and the floats that are computed with.
#pragma once

#include <half.cuh>  // in brackets: the emulator has one of its own

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// The element nearest to a float; of two that are equally near, the even one.
template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
    return x;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
    return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}

// Four neighbouring elements, at a multiple of their size in bytes, by one load.
__device__ __forceinline__ void load_quad(float* to, const float* from) {
    const float4 quad = *reinterpret_cast<const float4*>(from);
    to[0] = quad.x;
    to[1] = quad.y;
    to[2] = quad.z;
    to[3] = quad.w;
}

template <typename T>
__device__ __forceinline__ void load_quad(float* to, const T* from) {
    static_assert(sizeof(T) == 2, "four elements are 8 bytes");
    const uint2 bits = *reinterpret_cast<const uint2*>(from);
    const T* const quad = reinterpret_cast<const T*>(&bits);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = to_float(quad[i]);
}

// The way back, by one store.
__device__ __forceinline__ void store_quad(float* to, const float* from) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}

template <typename T>
__device__ __forceinline__ void store_quad(T* to, const float* from) {
    static_assert(sizeof(T) == 2, "four elements are 8 bytes");
    uint2 bits;
    T* const quad = reinterpret_cast<T*>(&bits);
#pragma unroll
    for (int i = 0; i < 4; ++i) quad[i] = from_float<T>(from[i]);
    *reinterpret_cast<uint2*>(to) = bits;
}
