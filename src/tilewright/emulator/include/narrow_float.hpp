// A 16-bit floating-point type and pairs of it, as in cuda_fp16.h and cuda_bf16.h. half.cuh includes this for each type:
// SIMT_NARROW is its name, SIMT_PAIR that of a pair, SIMT_NAMED(a, b) what a function is called that has the type in its name,
// and SIMT_WIDE a function that makes a float of its bits.
//
// Operations round their exact result once, to nearest even, and know one NaN. A GPU may differ where its compiler makes an FMA of
// a product and a sum, and in the last bit of a quotient or of a function that is not algebraic.

struct SIMT_NARROW {
    std::uint16_t bits;

    SIMT_NARROW() = default;
    SIMT_NARROW(float value) : bits(simt::narrowed<SIMT_NARROW>(value)) {}
    template <typename Type, typename = std::enable_if_t<std::is_arithmetic_v<Type>>>
    SIMT_NARROW(Type value) : bits(simt::narrowed<SIMT_NARROW>(simt::widened(value))) {}

    static SIMT_NARROW rounded(double value, simt::Rounding rounding = simt::Rounding::nearest) {
        return from_bits(simt::narrowed<SIMT_NARROW>(value, rounding));
    }
    static SIMT_NARROW from_bits(unsigned bits) {
        SIMT_NARROW result;
        result.bits = std::uint16_t(bits);
        return result;
    }
    double wide() const { return double(SIMT_WIDE(bits)); }

    operator float() const { return SIMT_WIDE(bits); }
    template <typename Type, typename = std::enable_if_t<std::is_arithmetic_v<Type> && !std::is_same_v<Type, simt::HostFloat>>>
    operator Type() const {
        if constexpr (std::is_same_v<Type, bool>) {
            return (bits & 0x7fff) != 0;
        } else if constexpr (std::is_integral_v<Type>) {
            return simt::integer<Type>(trunc(double(SIMT_WIDE(bits))));
        } else {
            return Type(SIMT_WIDE(bits));
        }
    }
};

struct alignas(4) SIMT_PAIR {
    SIMT_NARROW x, y;

    SIMT_PAIR() = default;
    SIMT_PAIR(SIMT_NARROW x, SIMT_NARROW y) : x(x), y(y) {}
};

// Conversions.

#define SIMT_ROUNDED(suffix, mode)                                                                                            \
    __forceinline__ SIMT_NARROW SIMT_NAMED(__float2, suffix)(float x) { return SIMT_NARROW::rounded(double(x), simt::Rounding::mode); }
SIMT_ROUNDED(_rz, zero)
SIMT_ROUNDED(_ru, up)
SIMT_ROUNDED(_rd, down)
#undef SIMT_ROUNDED
__forceinline__ SIMT_NARROW SIMT_NAMED(__float2, )(float x) { return x; }
__forceinline__ SIMT_NARROW SIMT_NAMED(__float2, _rn)(float x) { return x; }
__forceinline__ SIMT_NARROW SIMT_NAMED(__double2, )(double x) { return x; }
__forceinline__ float SIMT_NAMED(__, 2float)(SIMT_NARROW x) { return x; }

#define SIMT_INTEGER(name, Type)                                                                                                 \
    __forceinline__ Type SIMT_NAMED(__, 2##name##_rn)(SIMT_NARROW x) { return simt::integer<Type>(rint(x.wide())); }           \
    __forceinline__ Type SIMT_NAMED(__, 2##name##_rz)(SIMT_NARROW x) { return simt::integer<Type>(trunc(x.wide())); }          \
    __forceinline__ Type SIMT_NAMED(__, 2##name##_ru)(SIMT_NARROW x) { return simt::integer<Type>(ceil(x.wide())); }           \
    __forceinline__ Type SIMT_NAMED(__, 2##name##_rd)(SIMT_NARROW x) { return simt::integer<Type>(floor(x.wide())); }          \
    __forceinline__ SIMT_NARROW SIMT_NAMED(__##name##2, _rn)(Type x) { return x; }                                               \
    __forceinline__ SIMT_NARROW SIMT_NAMED(__##name##2, _rz)(Type x) {                                                           \
        return SIMT_NARROW::rounded(simt::widened(x), simt::Rounding::zero);                                                      \
    }                                                                                                                         \
    __forceinline__ SIMT_NARROW SIMT_NAMED(__##name##2, _ru)(Type x) {                                                           \
        return SIMT_NARROW::rounded(simt::widened(x), simt::Rounding::up);                                                        \
    }                                                                                                                         \
    __forceinline__ SIMT_NARROW SIMT_NAMED(__##name##2, _rd)(Type x) {                                                           \
        return SIMT_NARROW::rounded(simt::widened(x), simt::Rounding::down);                                                      \
    }
SIMT_INTEGER(short, short)
SIMT_INTEGER(ushort, unsigned short)
SIMT_INTEGER(int, int)
SIMT_INTEGER(uint, unsigned)
SIMT_INTEGER(ll, long long)
SIMT_INTEGER(ull, unsigned long long)
#undef SIMT_INTEGER

__forceinline__ short SIMT_NAMED(__, _as_short)(SIMT_NARROW x) { return short(x.bits); }
__forceinline__ unsigned short SIMT_NAMED(__, _as_ushort)(SIMT_NARROW x) { return x.bits; }
__forceinline__ SIMT_NARROW SIMT_NAMED(__short_as_, )(short bits) { return SIMT_NARROW::from_bits(bits); }
__forceinline__ SIMT_NARROW SIMT_NAMED(__ushort_as_, )(unsigned short bits) { return SIMT_NARROW::from_bits(bits); }

// Pairs.

__forceinline__ SIMT_PAIR SIMT_NAMED(make_, 2)(SIMT_NARROW x, SIMT_NARROW y) { return {x, y}; }
__forceinline__ SIMT_PAIR SIMT_NAMED(__float2, 2_rn)(float x) { return {x, x}; }
__forceinline__ SIMT_PAIR SIMT_NAMED(__floats2, 2_rn)(float low, float high) { return {low, high}; }
__forceinline__ SIMT_PAIR SIMT_NAMED(__float22, 2_rn)(float2 pair) { return {pair.x, pair.y}; }
__forceinline__ float2 SIMT_NAMED(__, 22float2)(SIMT_PAIR pair) { return {float(pair.x), float(pair.y)}; }
__forceinline__ SIMT_PAIR SIMT_SAME_PAIR(SIMT_NARROW x) { return {x, x}; }
__forceinline__ SIMT_PAIR SIMT_NAMED(__halves2, 2)(SIMT_NARROW low, SIMT_NARROW high) { return {low, high}; }
__forceinline__ SIMT_NARROW SIMT_NAMED(__low2, )(SIMT_PAIR pair) { return pair.x; }
__forceinline__ SIMT_NARROW SIMT_NAMED(__high2, )(SIMT_PAIR pair) { return pair.y; }
__forceinline__ SIMT_PAIR SIMT_NAMED(__low2, 2)(SIMT_PAIR pair) { return {pair.x, pair.x}; }
__forceinline__ SIMT_PAIR SIMT_NAMED(__high2, 2)(SIMT_PAIR pair) { return {pair.y, pair.y}; }
__forceinline__ SIMT_PAIR SIMT_NAMED(__lows2, 2)(SIMT_PAIR a, SIMT_PAIR b) { return {a.x, b.x}; }
__forceinline__ SIMT_PAIR SIMT_NAMED(__highs2, 2)(SIMT_PAIR a, SIMT_PAIR b) { return {a.y, b.y}; }
__forceinline__ SIMT_PAIR __lowhigh2highlow(SIMT_PAIR pair) { return {pair.y, pair.x}; }
__forceinline__ float __low2float(SIMT_PAIR pair) { return pair.x; }
__forceinline__ float __high2float(SIMT_PAIR pair) { return pair.y; }

// Arithmetic, of one and of pairs.

#define SIMT_UNARY(name, name2, expression)                                                                                   \
    __forceinline__ SIMT_NARROW name(SIMT_NARROW of) { return expression; }                                                   \
    __forceinline__ SIMT_PAIR name2(SIMT_PAIR of) { return {name(of.x), name(of.y)}; }
#define SIMT_BINARY(name, name2, expression)                                                                                  \
    __forceinline__ SIMT_NARROW name(SIMT_NARROW a, SIMT_NARROW b) { return expression; }                                     \
    __forceinline__ SIMT_PAIR name2(SIMT_PAIR a, SIMT_PAIR b) { return {name(a.x, b.x), name(a.y, b.y)}; }
#define SIMT_TERNARY(name, name2, expression)                                                                                 \
    __forceinline__ SIMT_NARROW name(SIMT_NARROW a, SIMT_NARROW b, SIMT_NARROW c) { return expression; }                      \
    __forceinline__ SIMT_PAIR name2(SIMT_PAIR a, SIMT_PAIR b, SIMT_PAIR c) {                                                  \
        return {name(a.x, b.x, c.x), name(a.y, b.y, c.y)};                                                                    \
    }
SIMT_UNARY(__habs, __habs2, SIMT_NARROW::from_bits(of.bits & 0x7fff))
SIMT_UNARY(__hneg, __hneg2, SIMT_NARROW::from_bits(of.bits ^ 0x8000))
SIMT_BINARY(__hadd, __hadd2, SIMT_NARROW::rounded(a.wide() + b.wide()))
SIMT_BINARY(__hsub, __hsub2, SIMT_NARROW::rounded(a.wide() - b.wide()))
SIMT_BINARY(__hmul, __hmul2, SIMT_NARROW::rounded(a.wide() * b.wide()))
SIMT_BINARY(__hdiv, __h2div, SIMT_NARROW::rounded(a.wide() / b.wide()))
SIMT_BINARY(__hadd_rn, __hadd2_rn, __hadd(a, b))
SIMT_BINARY(__hsub_rn, __hsub2_rn, __hsub(a, b))
SIMT_BINARY(__hmul_rn, __hmul2_rn, __hmul(a, b))
SIMT_TERNARY(__hfma, __hfma2, SIMT_NARROW::rounded(simt::odd_sum(a.wide() * b.wide(), c.wide())))
SIMT_BINARY(__hadd_sat, __hadd2_sat, simt::saturated(__hadd(a, b)))
SIMT_BINARY(__hsub_sat, __hsub2_sat, simt::saturated(__hsub(a, b)))
SIMT_BINARY(__hmul_sat, __hmul2_sat, simt::saturated(__hmul(a, b)))
SIMT_TERNARY(__hfma_sat, __hfma2_sat, simt::saturated(__hfma(a, b, c)))
SIMT_TERNARY(__hfma_relu, __hfma2_relu, simt::extreme(__hfma(a, b, c), SIMT_NARROW::from_bits(0), true, true))
SIMT_BINARY(__hmax, __hmax2, simt::extreme(a, b, true, false))
SIMT_BINARY(__hmax_nan, __hmax2_nan, simt::extreme(a, b, true, true))
SIMT_BINARY(__hmin, __hmin2, simt::extreme(a, b, false, false))
SIMT_BINARY(__hmin_nan, __hmin2_nan, simt::extreme(a, b, false, true))

// Functions.

#define SIMT_FUNCTION(name, expression)                                                                                       \
    __forceinline__ SIMT_NARROW h##name(SIMT_NARROW of) {                                                                     \
        const double x = of.wide();                                                                                      \
        return SIMT_NARROW::rounded(expression);                                                                                  \
    }                                                                                                                         \
    __forceinline__ SIMT_PAIR h2##name(SIMT_PAIR of) { return {h##name(of.x), h##name(of.y)}; }
SIMT_FUNCTION(sqrt, sqrt(x))
SIMT_FUNCTION(rsqrt, 1 / sqrt(x))
SIMT_FUNCTION(rcp, 1 / x)
SIMT_FUNCTION(exp, exp(x))
SIMT_FUNCTION(exp2, exp2(x))
SIMT_FUNCTION(exp10, pow(10, x))
SIMT_FUNCTION(log, log(x))
SIMT_FUNCTION(log2, log2(x))
SIMT_FUNCTION(log10, log10(x))
SIMT_FUNCTION(sin, sin(x))
SIMT_FUNCTION(cos, cos(x))
SIMT_FUNCTION(tanh, tanh(x))
SIMT_FUNCTION(tanh_approx, tanh(x))
SIMT_FUNCTION(ceil, ceil(x))
SIMT_FUNCTION(floor, floor(x))
SIMT_FUNCTION(trunc, trunc(x))
SIMT_FUNCTION(rint, rint(x))
#undef SIMT_FUNCTION

// Comparisons. Those whose names end in u hold where an operand is NaN.

#define SIMT_COMPARED(name, expression)                                                                                       \
    __forceinline__ bool __h##name(SIMT_NARROW a, SIMT_NARROW b) {                                                            \
        const double x = a.wide(), y = b.wide();                                                                    \
        return expression;                                                                                                    \
    }                                                                                                                         \
    __forceinline__ bool __hb##name##2(SIMT_PAIR a, SIMT_PAIR b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }       \
    __forceinline__ SIMT_PAIR __h##name##2(SIMT_PAIR a, SIMT_PAIR b) { return SIMT_PAIR(__h##name(a.x, b.x), __h##name(a.y, b.y)); } \
    __forceinline__ unsigned __h##name##2_mask(SIMT_PAIR a, SIMT_PAIR b) {                                                    \
        return (__h##name(a.x, b.x) ? 0xffffu : 0) | (__h##name(a.y, b.y) ? 0xffff0000u : 0);                                 \
    }
SIMT_COMPARED(eq, x == y)
SIMT_COMPARED(ne, x < y || x > y)
SIMT_COMPARED(lt, x < y)
SIMT_COMPARED(le, x <= y)
SIMT_COMPARED(gt, x > y)
SIMT_COMPARED(ge, x >= y)
SIMT_COMPARED(equ, !(x < y || x > y))
SIMT_COMPARED(neu, x != y)
SIMT_COMPARED(ltu, !(x >= y))
SIMT_COMPARED(leu, !(x > y))
SIMT_COMPARED(gtu, !(x <= y))
SIMT_COMPARED(geu, !(x < y))
#undef SIMT_COMPARED
__forceinline__ bool __hisnan(SIMT_NARROW x) { return x.wide() != x.wide(); }
__forceinline__ SIMT_PAIR __hisnan2(SIMT_PAIR pair) { return SIMT_PAIR(__hisnan(pair.x), __hisnan(pair.y)); }
__forceinline__ int __hisinf(SIMT_NARROW x) {
    return fabs(x.wide()) == HUGE_VAL ? (x.wide() < 0 ? -1 : 1) : 0;
}

// Operators.

#define SIMT_OPERATORS(Type, add, subtract, multiply, divide, negate, equal, unequal, less, at_most, greater, at_least)          \
    __forceinline__ Type operator+(const Type& a, const Type& b) { return add(a, b); }                                                 \
    __forceinline__ Type operator-(const Type& a, const Type& b) { return subtract(a, b); }                                            \
    __forceinline__ Type operator*(const Type& a, const Type& b) { return multiply(a, b); }                                            \
    __forceinline__ Type operator/(const Type& a, const Type& b) { return divide(a, b); }                                              \
    __forceinline__ Type operator+(const Type& a) { return a; }                                                                     \
    __forceinline__ Type operator-(const Type& a) { return negate(a); }                                                             \
    __forceinline__ Type& operator+=(Type& a, const Type& b) { return a = add(a, b); }                                                 \
    __forceinline__ Type& operator-=(Type& a, const Type& b) { return a = subtract(a, b); }                                            \
    __forceinline__ Type& operator*=(Type& a, const Type& b) { return a = multiply(a, b); }                                            \
    __forceinline__ Type& operator/=(Type& a, const Type& b) { return a = divide(a, b); }                                              \
    __forceinline__ Type& operator++(Type& a) { return a = add(a, simt::one(a)); }                                                  \
    __forceinline__ Type& operator--(Type& a) { return a = subtract(a, simt::one(a)); }                                             \
    __forceinline__ Type operator++(Type& a, int) {                                                                                 \
        const Type before = a;                                                                                                   \
        ++a;                                                                                                                  \
        return before;                                                                                                        \
    }                                                                                                                         \
    __forceinline__ Type operator--(Type& a, int) {                                                                                 \
        const Type before = a;                                                                                                   \
        --a;                                                                                                                  \
        return before;                                                                                                        \
    }                                                                                                                         \
    __forceinline__ bool operator==(const Type& a, const Type& b) { return equal(a, b); }                                           \
    __forceinline__ bool operator!=(const Type& a, const Type& b) { return unequal(a, b); }                                         \
    __forceinline__ bool operator<(const Type& a, const Type& b) { return less(a, b); }                                             \
    __forceinline__ bool operator<=(const Type& a, const Type& b) { return at_most(a, b); }                                         \
    __forceinline__ bool operator>(const Type& a, const Type& b) { return greater(a, b); }                                          \
    __forceinline__ bool operator>=(const Type& a, const Type& b) { return at_least(a, b); }                                        \
    __forceinline__ Type atomicAdd(Type* address, Type value) {                                                                        \
        return simt::update(address, [=](Type old) { return add(old, value); });                                                 \
    }

namespace simt {

__forceinline__ SIMT_NARROW one(SIMT_NARROW) { return 1.0; }
__forceinline__ SIMT_PAIR one(SIMT_PAIR) { return {1.0, 1.0}; }

}  // namespace simt

SIMT_OPERATORS(SIMT_NARROW, __hadd, __hsub, __hmul, __hdiv, __hneg, __heq, __hneu, __hlt, __hle, __hgt, __hge)
SIMT_OPERATORS(SIMT_PAIR, __hadd2, __hsub2, __hmul2, __h2div, __hneg2, __hbeq2, __hbneu2, __hblt2, __hble2, __hbgt2, __hbge2)
#undef SIMT_OPERATORS
#undef SIMT_UNARY
#undef SIMT_BINARY
#undef SIMT_TERNARY
