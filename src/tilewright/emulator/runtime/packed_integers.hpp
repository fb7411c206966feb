// CUDA's functions of integers that are packed in one of 32 bits: four of 8 bits or two of 16 (CUDA Math API, "SIMD Intrinsics"),
// and products of such, summed up.
#pragma once

namespace simt {

// Calls what gives a part of the result from the same part of x and of y, for each.
template <typename Part, typename Function>
__forceinline__ auto by_parts(unsigned x, unsigned y, Function function) {
    constexpr unsigned BITS = 8 * sizeof(Part);
    unsigned result = 0;
    for (unsigned bit = 0; bit < 32; bit += BITS) {
        const int part = function(int(Part(x >> bit)), int(Part(y >> bit)));
        result |= (unsigned(part) & ((1u << BITS) - 1)) << bit;
    }
    return result;
}

// The sum of the products of the parts, from `first` on of y.
template <typename X, typename Y, typename Sum>
__forceinline__ auto dot(unsigned x, unsigned y, Sum sum, unsigned first = 0) {
    for (unsigned i = 0; i < 4 / sizeof(X); ++i) {
        sum += Sum(X(x >> 8 * sizeof(X) * i)) * Sum(Y(y >> 8 * sizeof(Y) * (first + i)));
    }
    return sum;
}

template <typename Part>
constexpr auto within(int value) {
    constexpr int most = std::numeric_limits<Part>::max(), least = std::numeric_limits<Part>::min();
    return value > most ? most : value < least ? least : value;
}

}  // namespace simt

#define SIMT_PACKED(name, Part, expression)                                                       \
    __forceinline__ unsigned name(unsigned x, unsigned y) {                                       \
        return simt::by_parts<Part>(x, y, [](int a, int b) -> int { return expression; });        \
    }
#define SIMT_PACKED_INTEGERS(width, s, u)                                  \
    SIMT_PACKED(__vadd##width, u, a + b)                                   \
    SIMT_PACKED(__vsub##width, u, a - b)                                   \
    SIMT_PACKED(__vaddss##width, s, simt::within<s>(a + b))                \
    SIMT_PACKED(__vaddus##width, u, simt::within<u>(a + b))                \
    SIMT_PACKED(__vsubss##width, s, simt::within<s>(a - b))                \
    SIMT_PACKED(__vsubus##width, u, simt::within<u>(a - b))                \
    SIMT_PACKED(__vmaxs##width, s, a > b ? a : b)                          \
    SIMT_PACKED(__vmaxu##width, u, a > b ? a : b)                          \
    SIMT_PACKED(__vmins##width, s, a < b ? a : b)                          \
    SIMT_PACKED(__vminu##width, u, a < b ? a : b)                          \
    SIMT_PACKED(__vavgu##width, u, (a + b + 1) / 2)                        \
    SIMT_PACKED(__vabsdiffs##width, s, a > b ? a - b : b - a)              \
    SIMT_PACKED(__vabsdiffu##width, u, a > b ? a - b : b - a)              \
    SIMT_PACKED(__vcmpeq##width, u, a == b ? -1 : 0)                       \
    SIMT_PACKED(__vcmpne##width, u, a != b ? -1 : 0)                       \
    SIMT_PACKED(__vcmpges##width, s, a >= b ? -1 : 0)                      \
    SIMT_PACKED(__vcmpgeu##width, u, a >= b ? -1 : 0)                      \
    SIMT_PACKED(__vcmpgts##width, s, a > b ? -1 : 0)                       \
    SIMT_PACKED(__vcmpgtu##width, u, a > b ? -1 : 0)                       \
    SIMT_PACKED(__vcmplts##width, s, a < b ? -1 : 0)                       \
    SIMT_PACKED(__vcmpltu##width, u, a < b ? -1 : 0)                       \
    SIMT_PACKED(__vseteq##width, u, a == b)                                \
    SIMT_PACKED(__vsetgtu##width, u, a > b)                                \
    __forceinline__ unsigned __vabs##width(unsigned x) { return __vabsdiffs##width(x, 0); } \
    __forceinline__ unsigned __vneg##width(unsigned x) { return __vsub##width(0, x); }      \
    __forceinline__ unsigned __vsads##width(unsigned x, unsigned y) {                       \
        return simt::dot<u, u>(__vabsdiffs##width(x, y), sizeof(u) == 1 ? 0x01010101u : 0x00010001u, 0u); \
    }                                                                                       \
    __forceinline__ unsigned __vsadu##width(unsigned x, unsigned y) {                       \
        return simt::dot<u, u>(__vabsdiffu##width(x, y), sizeof(u) == 1 ? 0x01010101u : 0x00010001u, 0u); \
    }
SIMT_PACKED_INTEGERS(4, signed char, unsigned char)
SIMT_PACKED_INTEGERS(2, short, unsigned short)
#undef SIMT_PACKED_INTEGERS
#undef SIMT_PACKED

__forceinline__ int __dp4a(int x, int y, int sum) { return int(simt::dot<signed char, signed char>(x, y, unsigned(sum))); }
__forceinline__ unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    return simt::dot<unsigned char, unsigned char>(x, y, sum);
}
__forceinline__ int __dp4a(char4 x, char4 y, int sum) { return __dp4a(simt::bit_cast<int>(x), simt::bit_cast<int>(y), sum); }
__forceinline__ unsigned __dp4a(uchar4 x, uchar4 y, unsigned sum) {
    return __dp4a(simt::bit_cast<unsigned>(x), simt::bit_cast<unsigned>(y), sum);
}
__forceinline__ int __dp2a_lo(int x, int y, int sum) { return int(simt::dot<short, signed char>(x, y, unsigned(sum))); }
__forceinline__ int __dp2a_hi(int x, int y, int sum) { return int(simt::dot<short, signed char>(x, y, unsigned(sum), 2)); }
__forceinline__ unsigned __dp2a_lo(unsigned x, unsigned y, unsigned sum) {
    return simt::dot<unsigned short, unsigned char>(x, y, sum);
}
__forceinline__ unsigned __dp2a_hi(unsigned x, unsigned y, unsigned sum) {
    return simt::dot<unsigned short, unsigned char>(x, y, sum, 2);
}
