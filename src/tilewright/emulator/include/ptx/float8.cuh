// Types of 8 bits on the emulator, floating-point ones and integers: storage and conversions, no arithmetic.
#pragma once

#include "ptx/half.cuh"

struct float8_e4m3 {
    std::uint8_t bits;
};
struct float8_e5m2 {
    std::uint8_t bits;
};

template <>
constexpr auto FACTOR_TYPE<float8_e4m3> = simt::FactorType::e4m3;
template <>
constexpr auto FACTOR_TYPE<float8_e5m2> = simt::FactorType::e5m2;
template <>
constexpr auto FACTOR_TYPE<signed char> = simt::FactorType::s8;
template <>
constexpr auto FACTOR_TYPE<unsigned char> = simt::FactorType::u8;

__forceinline__ float to_float(float8_e5m2 x) { return simt::float_from_half(std::uint16_t(x.bits << 8)); }
__forceinline__ float to_float(float8_e4m3 x) {
    const std::uint32_t sign = (x.bits & 0x80u) << 24, exponent = x.bits >> 3 & 0xf, mantissa = x.bits & 7;
    if ((x.bits & 0x7f) == 0x7f) return simt::bit_cast<float>(0x7fffffffu);
    if (exponent == 0) {
        return simt::bit_cast<float>(sign | simt::bit_cast<std::uint32_t>(float(float(mantissa) * 0x1p-9f)));
    }
    return simt::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);  // the biases differ by 127 - 7
}

__forceinline__ void pair_to_floats(float* to, float8_e4m3 x, float8_e4m3 y) {
    to[0] = to_float(x);
    to[1] = to_float(y);
}

__forceinline__ float8_e4m3 to_e4m3(float x) {
    const auto bits = simt::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return {0x7f};                            // NaN
    if (magnitude >= 0x43e00000) return {std::uint8_t(sign | 0x7e)};      // 448 or more
    if (magnitude < 0x3c800000) {                                         // below 2^-6, the smallest normal number
        // A unit in the last place of 2^14 is 2^-9, as of e4m3's subnormals: this addition rounds as they do.
        const float rounded = float(simt::bit_cast<float>(magnitude) + 0x1p14f);
        return {std::uint8_t(sign | (simt::bit_cast<std::uint32_t>(rounded) - simt::bit_cast<std::uint32_t>(0x1p14f)))};
    }
    const std::uint32_t rounded = magnitude + 0x7ffff + (magnitude >> 20 & 1);
    return {std::uint8_t(sign | (rounded - (120u << 23)) >> 20)};         // the biases differ by 127 - 7
}
