// CUDA's vector types and make_ functions, aligned as on the GPU. uint3 and dim3 are in abi.hpp.
#pragma once

#define SIMT_VECTOR1(name, T)                                                              \
    struct name {                                                                          \
        T x;                                                                               \
    };                                                                                     \
    __forceinline__ name make_##name(T x) { return {x}; }
#define SIMT_VECTOR2(name, T)                                                              \
    struct alignas(2 * sizeof(T)) name {                                                   \
        T x, y;                                                                            \
    };                                                                                     \
    __forceinline__ name make_##name(T x, T y) { return {x, y}; }
#define SIMT_VECTOR3(name, T)                                                              \
    struct name {                                                                          \
        T x, y, z;                                                                         \
    };                                                                                     \
    __forceinline__ name make_##name(T x, T y, T z) { return {x, y, z}; }
#define SIMT_VECTOR4(name, T)                                                              \
    struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name {                         \
        T x, y, z, w;                                                                      \
    };                                                                                     \
    __forceinline__ name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }
#define SIMT_VECTORS(name, T)                                                              \
    SIMT_VECTOR1(name##1, T)                                                               \
    SIMT_VECTOR2(name##2, T)                                                               \
    SIMT_VECTOR3(name##3, T)                                                               \
    SIMT_VECTOR4(name##4, T)
SIMT_VECTORS(char, signed char)
SIMT_VECTORS(uchar, unsigned char)
SIMT_VECTORS(short, short)
SIMT_VECTORS(ushort, unsigned short)
SIMT_VECTORS(int, int)
SIMT_VECTORS(longlong, long long)
SIMT_VECTORS(ulonglong, unsigned long long)
SIMT_VECTORS(double, double)
SIMT_VECTOR1(uint1, unsigned)
SIMT_VECTOR2(uint2, unsigned)
SIMT_VECTOR4(uint4, unsigned)
SIMT_VECTOR1(float1, float)  // one by one: `float` may be a macro
SIMT_VECTOR2(float2, float)
SIMT_VECTOR3(float3, float)
SIMT_VECTOR4(float4, float)
#undef SIMT_VECTORS
#undef SIMT_VECTOR1
#undef SIMT_VECTOR2
#undef SIMT_VECTOR3
#undef SIMT_VECTOR4

__forceinline__ uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
