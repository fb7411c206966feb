// Integers of 8 bits, whose products tensor cores sum up in int32, modulo 2^32.
#pragma once

using int8 = signed char;
using uint8 = unsigned char;

template <typename T>
constexpr bool IS_INTEGER = false;
template <>
constexpr bool IS_INTEGER<int8> = true;
template <>
constexpr bool IS_INTEGER<uint8> = true;
template <>
constexpr bool IS_INTEGER<int> = true;

// Elements as bytes that the compiler does not extend the sign of; others as they are.
template <typename T>
__device__ __forceinline__ const T* as_bytes(const T* x) {
    return x;
}
__device__ __forceinline__ const uint8* as_bytes(const int8* x) { return reinterpret_cast<const uint8*>(x); }

// Four bytes in a word.
__device__ __forceinline__ int word_of(const int* bytes) { return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | bytes[3] << 24; }

// sum + the products of the bytes of two words, of type T and of type U.
template <typename T, typename U>
__device__ __forceinline__ int add_byte_products(int x, int y, int sum) {
    constexpr bool SIGNED = static_cast<T>(-1) < 0, OTHER_SIGNED = static_cast<U>(-1) < 0;
    if constexpr (SIGNED && OTHER_SIGNED) {
        return __dp4a(x, y, sum);
    } else if constexpr (!SIGNED && !OTHER_SIGNED) {
        return __dp4a(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(sum));
    } else if constexpr (SIGNED) {
        return add_byte_products<U, T>(y, x, sum);
    } else {
        // As signed, bytes with their upper bit turned over are less by 128.
        return __dp4a(x ^ static_cast<int>(0x80808080u), y, __dp4a(0x01010101, y, 0) * 128 + sum);
    }
}

template <bool INTEGER>
struct NumberOf {
    using type = float;
};
template <>
struct NumberOf<true> {
    using type = int;
};

// What elements of type T, and sums of their products, are computed with.
template <typename T>
using Number = typename NumberOf<IS_INTEGER<T>>::type;
