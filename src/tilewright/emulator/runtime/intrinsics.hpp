// CUDA's arithmetic functions that C++ does not have, as in the CUDA Math API. Approximate ones are exact here.
//
// Where `float` is a class that counts (counted_float.hpp), simt::HostFloat is still the host's own float.
#pragma once

namespace simt {

template <typename To, typename From>
__forceinline__ auto bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(To));
    return to;
}

// An integer of the source, which may know more than its value (index.hpp).
template <typename T>
constexpr T plain(const T& value) {
    return value;
}

// A value that the compiler takes for one it knows nothing of: it makes no FMA of a product and what is done with it.
template <typename T>
__forceinline__ auto rounded(T value) {
    if constexpr (std::is_floating_point_v<T>) asm("" : "+m"(value));
    return value;
}

// As the GPU converts: what is too large becomes the largest number, and NaN 0; with 64 bits the one of which only the first is set.
template <typename To, typename From>
__forceinline__ auto integer(From value) {
    constexpr std::make_unsigned_t<To> all = ~std::make_unsigned_t<To>{0};
    constexpr To most = std::is_signed_v<To> ? all / 2 : all, least = std::is_signed_v<To> ? -most - 1 : 0;
    if (value != value) return sizeof(To) == 8 ? To(1ull << 63) : To(0);
    if (value <= From(least)) return To(least);
    return value >= From(most) ? most : To(value);
}

}  // namespace simt

// The same bits as another type.

__forceinline__ float __uint_as_float(unsigned bits) { return simt::bit_cast<float>(bits); }
__forceinline__ unsigned __float_as_uint(float value) { return simt::bit_cast<unsigned>(value); }
__forceinline__ float __int_as_float(int bits) { return simt::bit_cast<float>(bits); }
__forceinline__ int __float_as_int(float value) { return simt::bit_cast<int>(value); }
__forceinline__ double __longlong_as_double(long long bits) { return simt::bit_cast<double>(bits); }
__forceinline__ long long __double_as_longlong(double value) { return simt::bit_cast<long long>(value); }

__forceinline__ int __double2hiint(double value) { return int(__double_as_longlong(value) >> 32); }
__forceinline__ int __double2loint(double value) { return int(__double_as_longlong(value)); }
__forceinline__ double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(high) << 32 | unsigned(low));
}

// Conversions: rn rounds to the nearest, ties to even, rz toward 0, ru up, rd down.

#define SIMT_FLOAT_TO(name, T)                                                                             \
    __forceinline__ T name##_rn(float x) { return simt::integer<T>(rintf(simt::HostFloat(x))); }           \
    __forceinline__ T name##_rz(float x) { return simt::integer<T>(truncf(simt::HostFloat(x))); }          \
    __forceinline__ T name##_ru(float x) { return simt::integer<T>(ceilf(simt::HostFloat(x))); }           \
    __forceinline__ T name##_rd(float x) { return simt::integer<T>(floorf(simt::HostFloat(x))); }
SIMT_FLOAT_TO(__float2int, int)
SIMT_FLOAT_TO(__float2uint, unsigned)
SIMT_FLOAT_TO(__float2ll, long long)
SIMT_FLOAT_TO(__float2ull, unsigned long long)
#undef SIMT_FLOAT_TO
__forceinline__ float __int2float_rn(int x) { return simt::HostFloat(x); }
__forceinline__ float __uint2float_rn(unsigned x) { return simt::HostFloat(x); }
__forceinline__ float __ll2float_rn(long long x) { return simt::HostFloat(x); }
__forceinline__ float __double2float_rn(double x) { return simt::HostFloat(x); }
__forceinline__ float __ull2float_rn(unsigned long long x) { return simt::HostFloat(x); }
__forceinline__ double __int2double_rn(int x) { return x; }
__forceinline__ double __uint2double_rn(unsigned x) { return x; }
__forceinline__ int __double2int_rn(double x) { return simt::integer<int>(rint(x)); }
__forceinline__ int __double2int_rz(double x) { return simt::integer<int>(trunc(x)); }

// Functions of floats.

#define SIMT_FLOAT_FUNCTION(name, expression)                                                              \
    __forceinline__ float name(float argument) {                                                           \
        const simt::HostFloat x(argument);                                                                 \
        return simt::HostFloat(expression);                                                                \
    }
SIMT_FLOAT_FUNCTION(__expf, expf(x))
SIMT_FLOAT_FUNCTION(__exp10f, powf(10, x))
SIMT_FLOAT_FUNCTION(__logf, logf(x))
SIMT_FLOAT_FUNCTION(__log2f, log2f(x))
SIMT_FLOAT_FUNCTION(__log10f, log10f(x))
SIMT_FLOAT_FUNCTION(__sinf, sinf(x))
SIMT_FLOAT_FUNCTION(__cosf, cosf(x))
SIMT_FLOAT_FUNCTION(__tanf, tanf(x))
SIMT_FLOAT_FUNCTION(__frcp_rn, 1 / x)
SIMT_FLOAT_FUNCTION(__fsqrt_rn, sqrtf(x))
SIMT_FLOAT_FUNCTION(__frsqrt_rn, 1 / sqrt(double(x)))
SIMT_FLOAT_FUNCTION(rsqrtf, 1 / sqrt(double(x)))
SIMT_FLOAT_FUNCTION(rcbrtf, 1 / cbrt(double(x)))
SIMT_FLOAT_FUNCTION(sinpif, sin(M_PI * remainder(double(x), 2)))
SIMT_FLOAT_FUNCTION(cospif, cos(M_PI * remainder(double(x), 2)))
SIMT_FLOAT_FUNCTION(erfinvf, simt_erf_inverse(x))
SIMT_FLOAT_FUNCTION(erfcinvf, simt_erfc_inverse(x))
SIMT_FLOAT_FUNCTION(normcdfinvf, -M_SQRT2 * simt_erfc_inverse(2 * double(x)))
SIMT_FLOAT_FUNCTION(normcdff, erfc(-double(x) * M_SQRT1_2) / 2)
SIMT_FLOAT_FUNCTION(__saturatef, x > 0 ? (x < 1 ? x : 1) : 0)  // NaN becomes 0
#undef SIMT_FLOAT_FUNCTION
__forceinline__ double rsqrt(double x) { return 1 / sqrt(x); }
__forceinline__ double sinpi(double x) { return sin(M_PI * remainder(x, 2)); }
__forceinline__ double cospi(double x) { return cos(M_PI * remainder(x, 2)); }
__forceinline__ double erfinv(double x) { return simt_erf_inverse(x); }
__forceinline__ double erfcinv(double x) { return simt_erfc_inverse(x); }
__forceinline__ double normcdfinv(double x) { return -M_SQRT2 * simt_erfc_inverse(2 * x); }
__forceinline__ double normcdf(double x) { return erfc(-x * M_SQRT1_2) / 2; }
__forceinline__ float norm3df(float a, float b, float c) {
    const double x = simt::HostFloat(a), y = simt::HostFloat(b), z = simt::HostFloat(c);
    return simt::HostFloat(sqrt(x * x + y * y + z * z));
}
__forceinline__ float rnorm3df(float a, float b, float c) { return simt::HostFloat(1 / simt::HostFloat(norm3df(a, b, c))); }
__forceinline__ float rhypotf(float a, float b) { return rnorm3df(a, b, 0.0f); }
__forceinline__ float __powf(float x, float y) { return powf(simt::HostFloat(x), simt::HostFloat(y)); }
__forceinline__ float __fdividef(float x, float y) { return x / y; }
__forceinline__ float fdividef(float x, float y) { return x / y; }
__forceinline__ float __fdiv_rn(float x, float y) { return x / y; }

// Those that end in _rn stay what they are: the compiler makes no FMA of an __fmul_rn and an addition.

__forceinline__ float __fadd_rn(float a, float b) { return simt::rounded(a) + simt::rounded(b); }
__forceinline__ float __fsub_rn(float a, float b) { return simt::rounded(a) - simt::rounded(b); }
__forceinline__ float __fmul_rn(float a, float b) { return simt::rounded(float(a * b)); }
__forceinline__ double __dadd_rn(double a, double b) { return simt::rounded(a) + simt::rounded(b); }
__forceinline__ double __dmul_rn(double a, double b) { return simt::rounded(a * b); }
__forceinline__ float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
__forceinline__ double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

// Integers.

__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ int __ffsll(long long x) { return __builtin_ffsll(x); }
__forceinline__ int __clz(int x) { return x == 0 ? 32 : __builtin_clz(x); }
__forceinline__ int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }
__forceinline__ unsigned long long __brevll(unsigned long long x) {
    unsigned long long reversed = 0;
    for (int bit = 0; bit < 64; ++bit) reversed |= (x >> bit & 1) << (63 - bit);
    return reversed;
}
__forceinline__ unsigned __brev(unsigned x) { return unsigned(__brevll(x) >> 32); }

// The position of a set bit: the offset-th from `base` on, upward, or downward where it is negative; with 0 `base` itself. All
// ones where there is none (PTX manual, "fns").
__forceinline__ unsigned __fns(unsigned mask, unsigned base, int offset) {
    int left = offset < 0 ? -offset : offset;
    for (int at = int(base); at >= 0 && at < 32; at += offset < 0 ? -1 : 1) {
        left -= mask >> at & 1;
        if (left <= 0 && mask >> at & 1) return unsigned(at);
        if (offset == 0) break;
    }
    return 0xffffffff;
}

// Each of the selector's four low digits names a byte of y:x; its bit 3 asks for 8 copies of that byte's sign.
__forceinline__ unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const std::uint64_t bytes = std::uint64_t(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned digit = selector >> 4 * i & 15;
        const unsigned byte = bytes >> 8 * (digit & 7) & 255;
        result |= (digit & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return result;
}

__forceinline__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned bits) {
    return ((std::uint64_t(high) << 32 | low) << bits % 32) >> 32;
}
__forceinline__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
    return (std::uint64_t(high) << 32 | low) >> bits % 32;
}
__forceinline__ unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned bits) {
    return bits >= 32 ? low : __funnelshift_l(low, high, bits);
}
__forceinline__ unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned bits) {
    return bits >= 32 ? high : __funnelshift_r(low, high, bits);
}

__forceinline__ int __mul24(int x, int y) { return int(unsigned(x << 8 >> 8) * unsigned(y << 8 >> 8)); }
__forceinline__ unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
__forceinline__ int __mulhi(int x, int y) { return std::int64_t(x) * y >> 32; }
__forceinline__ unsigned __umulhi(unsigned x, unsigned y) { return std::uint64_t(x) * y >> 32; }
__forceinline__ long long __mul64hi(long long x, long long y) { return static_cast<__int128>(x) * y >> 64; }
__forceinline__ unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned __int128>(x) * y >> 64;
}
__forceinline__ unsigned __sad(int x, int y, unsigned z) { return (x < y ? unsigned(y) - x : unsigned(x) - y) + z; }
__forceinline__ unsigned __usad(unsigned x, unsigned y, unsigned z) { return (x < y ? y - x : x - y) + z; }

__forceinline__ int __hadd(int x, int y) { return (std::int64_t(x) + y) >> 1; }
__forceinline__ int __rhadd(int x, int y) { return (std::int64_t(x) + y + 1) >> 1; }
__forceinline__ unsigned __uhadd(unsigned x, unsigned y) { return (std::uint64_t(x) + y) >> 1; }
__forceinline__ unsigned __urhadd(unsigned x, unsigned y) { return (std::uint64_t(x) + y + 1) >> 1; }

// For profilers.
__forceinline__ void __prof_trigger(int) {}

// Loads and stores with a hint for the caches.

#define SIMT_LOAD(name)                     \
    template <typename T>                   \
    __forceinline__ T name(const T* from) { \
        return *from;                       \
    }
#define SIMT_STORE(name)                                          \
    template <typename T>                                         \
    __forceinline__ void name(T* to, const simt::Same<T>& value) { \
        *to = value;                                              \
    }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwb)
SIMT_STORE(__stwt)
#undef SIMT_LOAD
#undef SIMT_STORE

// Each reads anew, so that loops may wait for others by it.
template <typename T>
__forceinline__ T __ldcv(const T* from) {
    if constexpr (std::is_arithmetic_v<T>) return *static_cast<const volatile T*>(from);
    return *from;
}

// Addresses: what they are of, and in shared memory as numbers.

__forceinline__ unsigned __isShared(const void* address) { return simt_is_shared(simt_thread(), address); }

__forceinline__ unsigned __isLocal(const void* address) { return simt_is_local(address); }
__forceinline__ unsigned __isGlobal(const void* address) { return !__isShared(address) && !__isLocal(address); }

__forceinline__ std::size_t __cvta_generic_to_shared(const void* shared) { return simt_shared_address(simt_thread(), shared); }

__forceinline__ void* __cvta_shared_to_generic(std::size_t address, SIMT_LOCATION) {
    return simt_at_shared(simt_thread(), {simt::Operation::shared_memory, file, line, "__cvta_shared_to_generic"}, unsigned(address));
}

__forceinline__ std::size_t __cvta_generic_to_global(const void* global) { return reinterpret_cast<std::size_t>(global); }
__forceinline__ void* __cvta_global_to_generic(std::size_t address) { return reinterpret_cast<void*>(address); }
