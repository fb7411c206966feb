// What inline PTX becomes that may have floats of 16 and of 8 bits.
#pragma once

#include "inline_ptx.hpp"
#include "ptx/float8.cuh"
#include "ptx/half.cuh"

namespace simt::ptx {

template <typename Half, typename From>
__forceinline__ Half to_half(From value) {
    if constexpr (std::is_same_v<Half, __half>) return __float2half_rn(float(value));
    else return __float2bfloat16_rn(float(value));
}

template <typename Half>
__forceinline__ unsigned pair(Half lower, Half upper) {
    return bit_cast<unsigned short>(lower) | unsigned(bit_cast<unsigned short>(upper)) << 16;
}

__forceinline__ unsigned halves_of_e4m3(unsigned short two) {
    return pair(__float2half_rn(to_float(float8_e4m3{std::uint8_t(two)})),
                __float2half_rn(to_float(float8_e4m3{std::uint8_t(two >> 8)})));
}

// Sums that are pairs of half.
template <int A, int B>
__forceinline__ void multiply_fragments(Call call, unsigned (&sums)[2], const unsigned (&a)[A], const unsigned (&b)[B],
                                        FactorType of_a, FactorType of_b) {
    float wide[4];
    for (int i = 0; i < 4; ++i) wide[i] = float_from_half(std::uint16_t(sums[i / 2] >> 16 * (i % 2)));
    multiply_fragments(call, wide, a, b, of_a, of_b);
    for (int i = 0; i < 2; ++i) sums[i] = pair(__float2half_rn(wide[2 * i]), __float2half_rn(wide[2 * i + 1]));
}

}  // namespace simt::ptx
