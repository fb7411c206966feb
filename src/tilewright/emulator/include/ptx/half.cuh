// 16-bit floating-point types on the emulator: their formats, and how they round. Names and results are those of cuda_fp16.h and
// cuda_bf16.h, which narrow_float.hpp has.
#pragma once

struct __half;
struct __nv_bfloat16;

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

// To nearest, ties away from zero.
__forceinline__ unsigned rounded_to_tf32(unsigned bits) {
    const unsigned magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7fffffff;  // NaN
    return (bits + (magnitude < 0x7f800000 ? 0x1000 : 0)) & 0xffffe000;
}

enum class Rounding { nearest, zero, up, down };

// The bits of a number with a mantissa of mantissa_bits and exponents up to bias.
__forceinline__ std::uint16_t narrowed_to(int mantissa_bits, int bias, double value, Rounding rounding) {
    const std::uint32_t infinite = (2 * bias + 1) << mantissa_bits;
    const auto bits = bit_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = bits & ~(1ull << 63);
    const bool negative = bits >> 63;
    const std::uint32_t sign = negative ? 0x8000 : 0;
    if (magnitude > 0x7ffull << 52) return 0x7fff;
    if (magnitude == 0x7ffull << 52) return sign | infinite;
    const int exponent = int(magnitude >> 52) - 1023;
    const int below = exponent < 1 - bias ? 1 - bias - exponent : 0;  // by how much it is a subnormal's
    std::uint32_t kept = 0;
    std::uint64_t rest = magnitude, half = ~0ull;  // far less than half of the smallest number
    if (below <= mantissa_bits + 1) {
        const std::uint64_t mantissa = (magnitude & ((1ull << 52) - 1)) | 1ull << 52;
        const int drop = 52 - mantissa_bits + below;
        kept = std::uint32_t(mantissa >> drop);
        rest = mantissa & ((1ull << drop) - 1);
        half = 1ull << (drop - 1);
    }
    const bool away = rounding == Rounding::nearest ? rest > half || (rest == half && (kept & 1))
                                                    : rest != 0 && rounding == (negative ? Rounding::down : Rounding::up);
    if (exponent > bias) kept = infinite;
    else if (below == 0) kept += (exponent + bias - 1) << mantissa_bits;  // the mantissa has a bit of the exponent's
    if (exponent <= bias) kept += away;
    if (kept < infinite) return sign | kept;
    const bool cut = rounding == Rounding::zero || rounding == (negative ? Rounding::up : Rounding::down);
    return sign | (infinite - cut);
}

template <typename Type>
std::uint16_t narrowed(double value, Rounding rounding = Rounding::nearest);
template <>
__forceinline__ std::uint16_t narrowed<__half>(double value, Rounding rounding) {
    return narrowed_to(10, 15, value, rounding);
}
template <>
__forceinline__ std::uint16_t narrowed<__nv_bfloat16>(double value, Rounding rounding) {
    return narrowed_to(7, 127, value, rounding);
}
template <typename Type>
std::uint16_t narrowed(float value);
template <>
__forceinline__ std::uint16_t narrowed<__half>(float value) {
    return half_from_float(value);
}
template <>
__forceinline__ std::uint16_t narrowed<__nv_bfloat16>(float value) {
    return bfloat16_from_float(value);
}

// A sum that a double cannot hold becomes the odd one of its neighbours: rounded again, to fewer bits, it is the exact sum rounded.
__forceinline__ double odd_sum(double a, double b) {
    const double sum = a + b, of_b = sum - a;
    const double error = (a - (sum - of_b)) + (b - of_b);
    const auto bits = bit_cast<std::int64_t>(sum);
    if (bits & 1 || !(error < 0 || error > 0)) return sum;
    return bit_cast<double>(bits + ((error > 0) == (sum > 0) ? 1 : -1));
}

template <typename Type>
__forceinline__ auto widened(Type value) {
    if constexpr (!std::is_integral_v<Type> || sizeof(Type) < 8) return double(value);
    else return odd_sum(double(value >> 32) * 0x1p32, double(value & 0xffffffff));
}

// Of 0 to 1; NaN becomes 0.
template <typename Type>
__forceinline__ auto saturated(Type value) {
    if (!(value.wide() > 0)) return Type::from_bits(0);
    return value.wide() > 1 ? Type(1.0f) : value;
}

// The larger of two, or the smaller. 0 is larger than -0. A NaN is given up for a number, unless it counts.
template <typename Type>
__forceinline__ auto extreme(Type a, Type b, bool largest, bool nan_counts) {
    const bool a_nan = a.wide() != a.wide(), b_nan = b.wide() != b.wide();
    if (a_nan || b_nan) return nan_counts || (a_nan && b_nan) ? Type::from_bits(0x7fff) : a_nan ? b : a;
    if (a.wide() == b.wide()) return Type::from_bits(largest ? a.bits & b.bits : a.bits | b.bits);
    return (a.wide() > b.wide()) == largest ? a : b;
}

}  // namespace simt

#define SIMT_NARROW __half
#define SIMT_PAIR __half2
#define SIMT_NAMED(before, after) before##half##after
#define SIMT_SAME_PAIR __half2half2
#define SIMT_WIDE simt::float_from_half
#include "narrow_float.hpp"
#undef SIMT_NARROW
#undef SIMT_PAIR
#undef SIMT_NAMED
#undef SIMT_SAME_PAIR
#undef SIMT_WIDE

#define SIMT_NARROW __nv_bfloat16
#define SIMT_PAIR __nv_bfloat162
#define SIMT_NAMED(before, after) before##bfloat16##after
#define SIMT_SAME_PAIR __bfloat162bfloat162
#define SIMT_WIDE simt::float_from_bfloat16
#include "narrow_float.hpp"
#undef SIMT_NARROW
#undef SIMT_PAIR
#undef SIMT_NAMED
#undef SIMT_SAME_PAIR
#undef SIMT_WIDE

// What tensor cores take elements of Type for.
template <typename Type>
constexpr auto FACTOR_TYPE = simt::FactorType::tf32;
template <>
constexpr auto FACTOR_TYPE<__half> = simt::FactorType::half;
template <>
constexpr auto FACTOR_TYPE<__nv_bfloat16> = simt::FactorType::bfloat16;

using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
