// A float that counts what is done with it, for kernels compiled with this ahead of all else: `float` then means it.
//
// A product is not rounded until it is used. Added to something it is a fused multiply-add, as the GPU's compiler makes of
// it (-fmad=true); used otherwise it was a multiplication. The first of two products that are added is one too.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>
#include <limits>  // of the host's float: a kernel may include it too
#include <type_traits>
#include <utility>

#include "abi.hpp"

namespace simt {

struct OperationCounts {
    std::uint64_t ffma = 0, fmul = 0, fadd = 0;
};
inline OperationCounts operation_counts;  // of one thread of the host: launches that count run on one

class Float;

// Of two floats; or a float, where `?:` has that on its other side.
class Product {
  public:
    Product(float a, float b) : a_(a), b_(b) {}
    Product(float value) : a_(value), b_(1.0f), made_(false) {}
    inline operator Float() const;
    float plus(float c) const {
        ++(made_ ? operation_counts.ffma : operation_counts.fadd);
        return fmaf(a_, b_, c);
    }

  private:
    float a_, b_;
    bool made_ = true;
};

// Of functions that take a product alone, and nothing that could become one.
template <typename T>
using IfProduct = std::enable_if_t<std::is_same_v<T, Product>>;

// Of functions that take a Float alone.
template <typename T>
using IfFloat = std::enable_if_t<std::is_same_v<T, Float>>;

class Float {
  public:
    Float() = default;
    constexpr Float(float value) : value_(value) {}
    constexpr float value() const { return value_; }

    // To and from volatile memory; as templates, which are no copies: a Float is trivially copyable.
    template <typename F, typename = IfFloat<F>>
    Float(const volatile F& other) : value_(other.value_) {}
    template <typename T>
    Float& operator=(const T& other) {
        return *this = Float(other);
    }
    template <typename T>
    void operator=(const T& other) volatile {
        value_ = Float(other).value_;
    }
    void operator+=(Float other) volatile { *this = Float(*this) + other; }
    template <typename P, typename = IfProduct<P>>
    void operator+=(const P& product) volatile {
        *this = product.plus(value_);
    }

    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    explicit constexpr operator T() const {
        return T(value_);
    }

    template <typename P, typename = IfProduct<P>>
    Float& operator+=(const P& product) {
        return *this = product.plus(value_);
    }
    Float& operator+=(Float other) {
        ++operation_counts.fadd;
        return *this = value_ + other.value_;
    }
    Float& operator*=(Float other) {
        ++operation_counts.fmul;
        return *this = value_ * other.value_;
    }

    Float& operator-=(Float other) { return *this += -other; }
    Float& operator/=(Float other) { return *this = Float(value_ / other.value_); }

    friend Product operator*(Float a, Float b) { return {a.value_, b.value_}; }
    friend Float operator+(Float a, Float b) { return a += b; }
    template <typename P, typename = IfProduct<P>>
    friend Float operator+(Float a, const P& b) {
        return b.plus(a.value_);
    }
    template <typename P, typename = IfProduct<P>>
    friend Float operator+(const P& a, Float b) {
        return a.plus(b.value_);
    }
    friend Float operator-(Float a) { return -a.value_; }
    friend Float operator-(Float a, Float b) { return a += -b; }
    friend Float operator/(Float a, Float b) { return a.value_ / b.value_; }  // many instructions: none of those counted
    friend constexpr bool operator==(Float a, Float b) { return a.value_ == b.value_; }
    friend constexpr bool operator!=(Float a, Float b) { return a.value_ != b.value_; }
    friend constexpr bool operator<=(Float a, Float b) { return a.value_ <= b.value_; }
    friend constexpr bool operator>=(Float a, Float b) { return a.value_ >= b.value_; }
    friend constexpr bool operator<(Float a, Float b) { return a.value_ < b.value_; }
    friend constexpr bool operator>(Float a, Float b) { return a.value_ > b.value_; }

  private:
    float value_;
};
static_assert(sizeof(Float) == sizeof(float) && std::is_trivially_copyable_v<Float>, "it takes the place of float");

Product::operator Float() const {
    operation_counts.fmul += made_;
    return a_ * b_;
}

template <typename P, typename = IfProduct<P>>
Float operator+(const P& a, const P& b) {
    return b.plus(Float(a).value());
}

}  // namespace simt

// Of many instructions too, or of none of those counted.
#define SIMT_COUNTED_1(name, of_float) \
    inline simt::Float name(simt::Float x) { return of_float(x.value()); }
#define SIMT_COUNTED_2(name, of_floats) \
    inline simt::Float name(simt::Float x, simt::Float y) { return of_floats(x.value(), y.value()); }
SIMT_COUNTED_1(expf, expf) SIMT_COUNTED_1(exp2f, exp2f) SIMT_COUNTED_1(expm1f, expm1f) SIMT_COUNTED_1(logf, logf)
SIMT_COUNTED_1(log2f, log2f) SIMT_COUNTED_1(log10f, log10f) SIMT_COUNTED_1(log1pf, log1pf) SIMT_COUNTED_1(sqrtf, sqrtf)
SIMT_COUNTED_1(sinf, sinf) SIMT_COUNTED_1(cosf, cosf) SIMT_COUNTED_1(tanf, tanf) SIMT_COUNTED_1(tanhf, tanhf)
SIMT_COUNTED_1(erff, erff) SIMT_COUNTED_1(fabsf, fabsf) SIMT_COUNTED_1(floorf, floorf) SIMT_COUNTED_1(ceilf, ceilf)
SIMT_COUNTED_1(roundf, roundf) SIMT_COUNTED_1(rintf, rintf) SIMT_COUNTED_1(truncf, truncf)
SIMT_COUNTED_1(exp, expf) SIMT_COUNTED_1(log, logf) SIMT_COUNTED_1(sqrt, sqrtf) SIMT_COUNTED_1(fabs, fabsf)
SIMT_COUNTED_1(tanh, tanhf) SIMT_COUNTED_1(sin, sinf) SIMT_COUNTED_1(cos, cosf)
SIMT_COUNTED_2(fmaxf, fmaxf) SIMT_COUNTED_2(fminf, fminf) SIMT_COUNTED_2(powf, powf) SIMT_COUNTED_2(fmodf, fmodf)
SIMT_COUNTED_2(atan2f, atan2f) SIMT_COUNTED_2(pow, powf)
#undef SIMT_COUNTED_1
#undef SIMT_COUNTED_2

inline simt::Float fmaf(simt::Float a, simt::Float b, simt::Float c) { return a * b + c; }

SIMT_EXPORT inline __attribute__((used)) simt::OperationCounts* simt_operation_counts() {
    return &simt::operation_counts;
}

#define float simt::Float
