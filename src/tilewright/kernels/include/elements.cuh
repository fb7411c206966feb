// Elements of a matrix in memory, of type float, __half, __nv_bfloat16, int or of 8 bits, and what is computed with: ints for integers,
// else floats.
#pragma once

#include <ptx/float8.cuh>  // in brackets: "ptx/..." next to this file would come before the emulator's
#include <ptx/half.cuh>
#include <ptx/integers.cuh>

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
template <>
__device__ __forceinline__ float8_e4m3 from_float<float8_e4m3>(float x) {
    return to_e4m3(x);
}

template <typename T>
__device__ __forceinline__ Number<T> to_number(T x) {
    if constexpr (IS_INTEGER<T>) {
        return x;
    } else {
        return to_float(x);
    }
}
template <typename T>
__device__ __forceinline__ T from_number(Number<T> x) {
    if constexpr (IS_INTEGER<T>) {
        return x;
    } else {
        return from_float<T>(x);
    }
}

// Sums as what results of type T are computed with; where that is what they are, they themselves.
template <typename T, typename Sum, int COUNT, bool SAME = IS_INTEGER<T> == IS_INTEGER<Sum>>
struct SumsFor {
    Sum (&numbers)[COUNT];

    __device__ __forceinline__ SumsFor(Sum (&sums)[COUNT]) : numbers(sums) {}
};
template <typename T, typename Sum, int COUNT>
struct SumsFor<T, Sum, COUNT, false> {
    Number<T> numbers[COUNT];

    __device__ __forceinline__ SumsFor(Sum (&sums)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) numbers[i] = static_cast<Number<T>>(sums[i]);
    }
};

// What BYTES bytes are loaded and stored as.
template <int BYTES>
struct Bits;
template <>
struct Bits<1> {
    using type = unsigned char;
};
template <>
struct Bits<2> {
    using type = unsigned short;
};
template <>
struct Bits<4> {
    using type = unsigned;
};
template <>
struct Bits<8> {
    using type = uint2;
};
template <>
struct Bits<16> {
    using type = uint4;
};

// The numbers of COUNT elements; of e4m3, two by one instruction.
template <int COUNT, typename T>
__device__ __forceinline__ void to_numbers(Number<T>* to, const T* from) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) to[i] = to_number(from[i]);
}
template <int COUNT>
__device__ __forceinline__ void to_numbers(float* to, const float8_e4m3* from) {
    if constexpr (COUNT % 2 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) pair_to_floats(to + i, from[i], from[i + 1]);
    } else {
        to[0] = to_float(from[0]);
    }
}

// COUNT neighbouring elements, 1 to 16 bytes at a multiple of their size, by one load.
template <int COUNT, typename T>
__device__ __forceinline__ void load_run(Number<T>* to, const T* from) {
    using Run = typename Bits<COUNT * sizeof(T)>::type;
    const Run bits = *reinterpret_cast<const Run*>(from);
    to_numbers<COUNT>(to, reinterpret_cast<const T*>(&bits));
}

// The way back, by one store.
template <int COUNT, typename T>
__device__ __forceinline__ void store_run(T* to, const Number<T>* from) {
    using Run = typename Bits<COUNT * sizeof(T)>::type;
    Run bits;
    T* const run = reinterpret_cast<T*>(&bits);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) run[i] = from_number<T>(from[i]);
    *reinterpret_cast<Run*>(to) = bits;
}
