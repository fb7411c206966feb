// Integers of a source that is compiled to find unsigned ones that wrap on their way to an address (../wrapped_indices.py):
// each knows its exact value too. What wraps and comes back (`i - 1u + j`), or goes through a mask, a shift to the right, a
// quotient or a remainder (hashes), has wrapped for no index.
//
// None is a copy of bytes, so that the compiler refuses it where a source looks at an integer's bits.
#pragma once

#include "abi.hpp"

// The address is about to be computed of such an index. `before`, `a`, `between`, `b`: what has wrapped.
SIMT_EXPORT void simt_wrapped(const char* before, long long a, const char* between, long long b);

namespace simt {

#define SIMT_CONSTANT constexpr __attribute__((always_inline))

template <typename T>
class Index {
  public:
    Index() : operation_(0) {}
    SIMT_CONSTANT Index(const Index& other)
        : value_(other.value_), exact_(other.exact_), a_(other.a_), b_(other.b_), operation_(other.operation_) {}
    template <typename U>
    SIMT_CONSTANT explicit Index(const U& other) : value_((T)other), exact_((long long)value_) {}
    template <typename U>
    SIMT_CONSTANT Index(const Index<U>& other)
        : value_(T(other.value_)), exact_(other.exact_), a_(other.a_), b_(other.b_), operation_(other.operation_) {
        if (exact_ == (long long)value_) operation_ = 0;
        if (operation_ == 0 && exact_ != (long long)value_) a_ = exact_, operation_ = '(';
    }
    // Of an operation of two whose values are known.
    SIMT_CONSTANT Index(T value, long long exact, char operation, long long a, long long b)
        : value_(value), exact_(exact), a_(a), b_(b), operation_(operation) {}

    SIMT_CONSTANT operator T() const { return value_; }

    SIMT_CONSTANT T at() const {
        if (__builtin_expect(operation_ != 0, 0)) {
            simt_wrapped(operation_ == '(' ? "unsigned(" : "", a_, operation_ == '(' ? ")" : between(), b_);
        }
        return value_;
    }

    SIMT_CONSTANT Index& operator=(const Index& other) {
        value_ = other.value_, exact_ = other.exact_, a_ = other.a_, b_ = other.b_, operation_ = other.operation_;
        return *this;
    }
    template <typename U>
    SIMT_CONSTANT Index& operator=(const U& other) {
        return *this = Index(other);
    }
    SIMT_CONSTANT Index& operator++() { return *this += 1; }
    SIMT_CONSTANT Index& operator--() { return *this -= 1; }
    SIMT_CONSTANT Index operator++(int) {
        const Index before = *this;
        *this += 1;
        return before;
    }
    SIMT_CONSTANT Index operator--(int) {
        const Index before = *this;
        *this -= 1;
        return before;
    }

    SIMT_CONSTANT long long exact() const { return exact_; }
    SIMT_CONSTANT bool has_wrapped() const { return operation_ != 0; }

    // The result of this type has wrapped in the same operation.
    template <typename R>
    SIMT_CONSTANT Index<R> passed_on(R value, long long exact) const {
        return {value, exact, operation_, a_, b_};
    }

  private:
    template <typename>
    friend class Index;

    SIMT_CONSTANT const char* between() const {
        return operation_ == '+' ? " + " : operation_ == '-' ? " - " : operation_ == '*' ? " * " : " << ";
    }

    T value_;
    long long exact_ = 0;
    long long a_ = 0, b_ = 0;
    char operation_ = 0;  // the first that has wrapped, and its operands
};

// Of the source's own types.

template <typename T>
inline constexpr bool is_index = false;
template <typename T>
inline constexpr bool is_index<Index<T>> = true;
template <typename T>
inline constexpr bool is_operand = is_index<T> || std::is_integral_v<T>;
template <typename A, typename B>
using IfIndices = std::enable_if_t<(is_index<A> || is_index<B>) && is_operand<A> && is_operand<B>>;

template <typename T>
SIMT_CONSTANT T plain(const Index<T>& value) {
    return value;
}
template <typename T>
SIMT_CONSTANT Index<T> known(const T& value) {
    return Index<T>(value);
}
template <typename T>
SIMT_CONSTANT Index<T> known(const Index<T>& value) {
    return value;
}

template <char OPERATION, typename A, typename B>
SIMT_CONSTANT auto combined(const A& first, const B& second) {
    using Result = std::conditional_t<OPERATION == '<', decltype(+plain(first)), decltype(plain(first) + plain(second))>;
    using Word = unsigned long long;
    const auto a = known(first);
    const auto b = known(second);
    const auto apply = [](Word x, Word y) {
        return OPERATION == '+' ? x + y : OPERATION == '-' ? x - y : OPERATION == '*' ? x * y : x << (y & 63);
    };
    const auto value = Result(apply(Word(plain(first)), Word(plain(second))));
    const auto exact = (long long)apply(Word(a.exact()), Word(b.exact()));
    if (exact == (long long)value) return Index<Result>(value);
    if (a.has_wrapped()) return a.passed_on(value, exact);
    if (b.has_wrapped()) return b.passed_on(value, exact);
    return Index<Result>(value, exact, OPERATION, a.exact(), b.exact());
}

#define SIMT_OPERATOR(sign, result)                                             \
    template <typename A, typename B, typename = IfIndices<A, B>>               \
    SIMT_CONSTANT auto operator sign(const A& a, const B& b) {                  \
        return result;                                                          \
    }                                                                           \
    template <typename T, typename U, typename = std::enable_if_t<is_operand<U>>> \
    SIMT_CONSTANT Index<T>& operator sign##=(Index<T>& a, const U& b) {         \
        return a = a sign b;                                                    \
    }
SIMT_OPERATOR(+, combined<'+'>(a, b))
SIMT_OPERATOR(-, combined<'-'>(a, b))
SIMT_OPERATOR(*, combined<'*'>(a, b))
SIMT_OPERATOR(<<, combined<'<'>(a, b))
SIMT_OPERATOR(/, known(plain(a) / plain(b)))
SIMT_OPERATOR(%, known(plain(a) % plain(b)))
SIMT_OPERATOR(>>, known(plain(a) >> plain(b)))
SIMT_OPERATOR(&, known(plain(a) & plain(b)))
SIMT_OPERATOR(|, known(plain(a) | plain(b)))
SIMT_OPERATOR(^, known(plain(a) ^ plain(b)))
#undef SIMT_OPERATOR

// Addresses.

template <typename P, typename T>
SIMT_CONSTANT P* operator+(P* pointer, const Index<T>& offset) {
    return pointer + offset.at();
}
template <typename P, typename T>
SIMT_CONSTANT P* operator+(const Index<T>& offset, P* pointer) {
    return pointer + offset.at();
}
template <typename P, typename T>
SIMT_CONSTANT P* operator-(P* pointer, const Index<T>& offset) {
    return pointer - offset.at();
}
template <typename P, typename T>
SIMT_CONSTANT P*& operator+=(P*& pointer, const Index<T>& offset) {
    return pointer += offset.at();
}
template <typename P, typename T>
SIMT_CONSTANT P*& operator-=(P*& pointer, const Index<T>& offset) {
    return pointer -= offset.at();
}

// What is in the brackets of a subscript.
template <typename T>
SIMT_CONSTANT const T& subscript(const T& value) {
    return value;
}
template <typename T>
SIMT_CONSTANT T subscript(const Index<T>& value) {
    return value.at();
}

// `Index<T> name = Start<T>() = value;` makes one of any value, which a conditional expression's branches do not become.
template <typename T>
struct Start {
    template <typename U>
    SIMT_CONSTANT Index<T> operator=(const U& value) const {
        return Index<T>(value);
    }
};

}  // namespace simt
