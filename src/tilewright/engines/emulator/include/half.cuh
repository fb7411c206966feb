// 16-bit floating-point types on the emulator: storage and conversions, no arithmetic.
//
// Names and results are those of cuda_fp16.h and cuda_bf16.h: round to nearest even, subnormals kept, one NaN.
// Conversions by constructor and cast are explicit here, so that arithmetic on the types themselves does not compile: it
// would be done in float, and round otherwise than a GPU.
#pragma once

namespace simt {

__forceinline__ std::uint16_t half_from_float(float value) {
    const auto bits = bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000;
    const std::uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7fff;          // NaN
    if (magnitude >= 0x47800000) return sign | 0x7c00;  // 2^16 or more
    if (magnitude < 0x38800000) {                       // below 2^-14, half's smallest normal number
        // A unit in the last place of 0.5f is 2^-24, as of half's subnormals: this addition rounds as they do.
        return sign | (bit_cast<std::uint32_t>(bit_cast<float>(magnitude) + 0.5f) - bit_cast<std::uint32_t>(0.5f));
    }
    const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | (rounded - (112u << 23)) >> 13;  // the exponents' biases differ by 127 - 15
}

__forceinline__ float float_from_half(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = bits >> 10 & 0x1f;
    const std::uint32_t mantissa = bits & 0x3ff;
    if (exponent == 0x1f) return bit_cast<float>(mantissa ? 0x7fffffffu : sign | 0x7f800000u);
    if (exponent == 0) return bit_cast<float>(sign | bit_cast<std::uint32_t>(float(float(mantissa) * 0x1p-24f)));
    return bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

__forceinline__ std::uint16_t bfloat16_from_float(float value) {
    const auto bits = bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;  // NaN
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

__forceinline__ float float_from_bfloat16(std::uint16_t bits) { return bit_cast<float>(std::uint32_t(bits) << 16); }

}  // namespace simt

struct __half {
    std::uint16_t bits;

    __half() = default;
    explicit __half(float value) : bits(simt::half_from_float(value)) {}
    explicit operator float() const { return simt::float_from_half(bits); }
};

struct alignas(4) __half2 {
    __half x, y;
};

struct __nv_bfloat16 {
    std::uint16_t bits;

    __nv_bfloat16() = default;
    explicit __nv_bfloat16(float value) : bits(simt::bfloat16_from_float(value)) {}
    explicit operator float() const { return simt::float_from_bfloat16(bits); }
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

// What tensor cores take elements of T for.
template <typename T>
constexpr auto FACTOR_TYPE = simt::FactorType::tf32;
template <>
constexpr auto FACTOR_TYPE<__half> = simt::FactorType::half;
template <>
constexpr auto FACTOR_TYPE<__nv_bfloat16> = simt::FactorType::bfloat16;

using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

__forceinline__ __half __float2half(float value) { return __half(value); }
__forceinline__ __half __float2half_rn(float value) { return __half(value); }
__forceinline__ float __half2float(__half value) { return float(value); }
__forceinline__ __half2 __halves2half2(__half low, __half high) { return {low, high}; }
__forceinline__ __half2 __floats2half2_rn(float low, float high) { return {__half(low), __half(high)}; }
__forceinline__ __half2 __float22half2_rn(float2 pair) { return {__half(pair.x), __half(pair.y)}; }
__forceinline__ float2 __half22float2(__half2 pair) { return {float(pair.x), float(pair.y)}; }
__forceinline__ __half __low2half(__half2 pair) { return pair.x; }
__forceinline__ __half __high2half(__half2 pair) { return pair.y; }
__forceinline__ float __low2float(__half2 pair) { return float(pair.x); }
__forceinline__ float __high2float(__half2 pair) { return float(pair.y); }

__forceinline__ __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
__forceinline__ __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
__forceinline__ float __bfloat162float(__nv_bfloat16 value) { return float(value); }
__forceinline__ __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
__forceinline__ __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    return {__nv_bfloat16(low), __nv_bfloat16(high)};
}
__forceinline__ __nv_bfloat162 __float22bfloat162_rn(float2 pair) {
    return {__nv_bfloat16(pair.x), __nv_bfloat16(pair.y)};
}
__forceinline__ float2 __bfloat1622float2(__nv_bfloat162 pair) { return {float(pair.x), float(pair.y)}; }
__forceinline__ __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) { return pair.x; }
__forceinline__ __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) { return pair.y; }
__forceinline__ float __low2float(__nv_bfloat162 pair) { return float(pair.x); }
__forceinline__ float __high2float(__nv_bfloat162 pair) { return float(pair.y); }
