// What inline PTX becomes (../ptx): functions of registers, which are numbers of 16, 32 or 64 bits or floats, and of
// addresses. Those in shared memory have 32 bits: see simt_shared_address.
#pragma once

#include <cstdio>
#include <initializer_list>

#include "load_matrices.hpp"

// Of an operation: an instruction in the source, or a function of a header of ours, which the source calls.
#define SIMT_PTX_CALL(operation, instruction) (simt::Call{simt::Operation::operation, __FILE__, __LINE__, instruction})
#define SIMT_FUNCTION_CALL(operation) (simt::Call{simt::Operation::operation, file, line, __func__})

namespace simt::ptx {

// Whether text says the same: an operand of this type, an array, whose end may be that of the text, or a pointer to one.
template <typename Operand, std::size_t OTHER>
constexpr bool is_text(const char* text, const char (&other)[OTHER]) {
    constexpr std::size_t most = std::extent_v<std::remove_reference_t<Operand>>;
    for (std::size_t i = 0; i < OTHER; ++i) {
        if ((most && i == most ? 0 : text[i]) != other[i]) return false;
        if (other[i] == 0) break;
    }
    return true;
}

// Registers. A wider one is read in part, a narrower one is extended by its sign, if it has one.

template <typename To, typename From>
__forceinline__ To get(const From& from) {
    if constexpr (std::is_same_v<To, bool> || (std::is_integral_v<To> && std::is_integral_v<From>)) {
        return static_cast<To>(from);
    } else {
        static_assert(sizeof(To) == sizeof(From), "a register has as many bits as the instruction's type");
        return bit_cast<To>(from);
    }
}

template <typename To, typename From>
__forceinline__ void set(To& to, const From& from) {
    if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
        to = static_cast<To>(from);
    } else {
        static_assert(sizeof(To) == sizeof(From), "a register has as many bits as the instruction's type");
        to = bit_cast<To>(from);
    }
}

// A value as the register that its letter asks for.
template <char LETTER, typename Given>
__forceinline__ auto input(Given given) {
    const auto value = plain(given);
    using T = std::remove_const_t<decltype(value)>;
    if constexpr (LETTER == 'f') {
        return float(value);
    } else if constexpr (LETTER == 'd') {
        return double(value);
    } else if constexpr (LETTER == 'n') {
        return static_cast<long long>(value);
    } else {
        using Register = std::conditional_t<LETTER == 'h', unsigned short,
                                            std::conditional_t<LETTER == 'r', unsigned, unsigned long long>>;
        if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
            return static_cast<Register>(value);
        } else {
            return bit_cast<Register>(value);
        }
    }
}

template <typename Part, typename Whole>
__forceinline__ Part part(Whole whole, int bit) {
    return static_cast<Part>(whole >> bit);
}

__forceinline__ unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }

__forceinline__ unsigned warp() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / WARP_SIZE;
}

// Arithmetic. Integers wrap around.

template <typename T>
using Wrapping =
    typename std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::make_unsigned<T>, Itself<T>>::type;
template <typename T>
using Wider = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int, unsigned>,
                                 std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>>;

#define SIMT_PTX_FUNCTION(name, parameters, expression)    \
    template <typename T>                                  \
    __forceinline__ T name parameters {                    \
        using W [[maybe_unused]] = Wrapping<T>;            \
        constexpr unsigned BITS [[maybe_unused]] = 8 * sizeof(T); \
        return static_cast<T>(expression);                 \
    }
SIMT_PTX_FUNCTION(neg, (T a), -W(a))
SIMT_PTX_FUNCTION(add, (T a, T b), W(a) + W(b))
SIMT_PTX_FUNCTION(sub, (T a, T b), W(a) - W(b))
SIMT_PTX_FUNCTION(mul, (T a, T b), W(a) * W(b))
SIMT_PTX_FUNCTION(mul_lo, (T a, T b), W(a) * W(b))
SIMT_PTX_FUNCTION(mad_lo, (T a, T b, T c), W(a) * W(b) + W(c))
SIMT_PTX_FUNCTION(mul_hi, (T a, T b), static_cast<__int128>(a) * b >> BITS)
SIMT_PTX_FUNCTION(mad_hi, (T a, T b, T c), W(static_cast<__int128>(a) * b >> BITS) + W(c))
SIMT_PTX_FUNCTION(div, (T a, T b), a / b)
SIMT_PTX_FUNCTION(rem, (T a, T b), a % b)
SIMT_PTX_FUNCTION(sad, (T a, T b, T c), (a < b ? W(b) - W(a) : W(a) - W(b)) + W(c))
SIMT_PTX_FUNCTION(bit_and, (T a, T b), a & b)
SIMT_PTX_FUNCTION(bit_or, (T a, T b), a | b)
SIMT_PTX_FUNCTION(bit_xor, (T a, T b), a ^ b)
SIMT_PTX_FUNCTION(bit_not, (T a), ~a)
SIMT_PTX_FUNCTION(shl, (T a, unsigned bits), bits >= BITS ? W(0) : W(a) << bits)
SIMT_PTX_FUNCTION(shr, (T a, unsigned bits), bits >= BITS ? (a < 0 ? -1 : 0) : a >> bits)
SIMT_PTX_FUNCTION(popc, (T a), __popcll(W(a)))
SIMT_PTX_FUNCTION(clz, (T a), __clzll(W(a)) - (64 - int(BITS)))
SIMT_PTX_FUNCTION(brev, (T a), __brevll(W(a)) >> (64 - BITS))
SIMT_PTX_FUNCTION(prmt, (T a, T b, T selector), __byte_perm(a, b, selector))

// mad and fma: one that rounds once.
template <typename T>
__forceinline__ T fma(T a, T b, T c) {
    if constexpr (std::is_same_v<T, double>) return ::fma(a, b, c);
    else return fmaf(a, b, c);
}
template <typename T>
__forceinline__ T mad(T a, T b, T c) {
    return ptx::fma(a, b, c);
}

template <typename T>
__forceinline__ Wider<T> mul_wide(T a, T b) {
    return Wider<T>(a) * b;
}
template <typename T>
__forceinline__ Wider<T> mad_wide(T a, T b, Wider<T> c) {
    return add<Wider<T>>(mul_wide(a, b), c);
}

template <typename T>
__forceinline__ T abs(T a) {
    if constexpr (std::is_integral_v<T>) return a < T(0) ? neg(a) : a;
    else return fabs(a);
}
template <typename T>
__forceinline__ T min(T a, T b) {
    return ::min(a, b);
}
template <typename T>
__forceinline__ T max(T a, T b) {
    return ::max(a, b);
}

// Bits from `first` on, `count` of them: of a, extended by the sign; into b.
template <typename T>
__forceinline__ T bfe(T a, unsigned first, unsigned count) {
    constexpr unsigned BITS = 8 * sizeof(T);
    first &= 255, count &= 255;
    T bits = 0;
    for (unsigned i = 0; i < BITS; ++i) {
        const unsigned from = i < count ? first + i : first + count - 1;
        const bool is_sign = i >= count || from >= BITS;
        if (is_sign && (!std::is_signed_v<T> || count == 0)) continue;
        bits |= T(a >> (from < BITS ? from : BITS - 1) & 1) << i;
    }
    return bits;
}
template <typename T>
__forceinline__ T bfi(T a, T b, unsigned first, unsigned count) {
    first &= 255, count &= 255;
    const T mask = shl<T>(count >= 8 * sizeof(T) ? T(-1) : T((T(1) << count) - 1), first);
    return (b & ~mask) | (shl<T>(a, first) & mask);
}

// Any function of three bits, by its table.
template <typename T>
__forceinline__ T lop3(T a, T b, T c, T table) {
    T bits = 0;
    for (unsigned row = 0; row < 8; ++row) {
        if (table >> row & 1) bits |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    }
    return bits;
}

// Approximate functions, exact here to a unit in the last place. They are no operations that are counted.
#define SIMT_PTX_OF_FLOATS(name, of_float, of_double)                                          \
    template <typename T>                                                                      \
    __forceinline__ T name(T a) {                                                              \
        if constexpr (std::is_same_v<T, double>) { const double x = a; return of_double; }     \
        else { const HostFloat x(a); return T(of_float); }                                     \
    }
SIMT_PTX_OF_FLOATS(ex2, ::exp2f(x), ::exp2(x))
SIMT_PTX_OF_FLOATS(lg2, ::log2f(x), ::log2(x))
SIMT_PTX_OF_FLOATS(rcp, 1 / x, 1 / x)
SIMT_PTX_OF_FLOATS(sqrt, ::sqrtf(x), ::sqrt(x))
SIMT_PTX_OF_FLOATS(rsqrt, HostFloat(1 / ::sqrt(double(x))), 1 / ::sqrt(x))
SIMT_PTX_OF_FLOATS(sin, ::sinf(x), ::sin(x))
SIMT_PTX_OF_FLOATS(cos, ::cosf(x), ::cos(x))
SIMT_PTX_OF_FLOATS(tanh, ::tanhf(x), ::tanh(x))
#undef SIMT_PTX_OF_FLOATS
#undef SIMT_PTX_FUNCTION

// .ftz: 0 for a subnormal result.
__forceinline__ float flushed(float value) {
    const HostFloat x(value);
    return x > -1.17549435e-38f && x < 1.17549435e-38f ? float(x * HostFloat(0)) : value;
}

// .sat
template <typename T>
__forceinline__ T clamped(T value) {
    return value > T(0) ? (value < T(1) ? value : T(1)) : T(0);
}

// Addresses.

__forceinline__ char* at(unsigned long long address) { return reinterpret_cast<char*>(address); }

template <typename T, int COUNT>
struct alignas(COUNT * sizeof(T)) Vector {
    T parts[COUNT];
};

template <typename T>
__forceinline__ T load(const void* from) {
    return *static_cast<const T*>(from);
}
template <typename T>
__forceinline__ void store(void* to, T value) {
    *static_cast<T*>(to) = value;
}
// Anew, as loops that wait for others need it.
template <typename T>
__forceinline__ T load_now(const void* from) {
    if constexpr (std::is_arithmetic_v<T>) return *static_cast<const volatile T*>(from);
    else return *static_cast<const T*>(from);
}
template <typename T>
__forceinline__ void store_now(void* to, T value) {
    if constexpr (std::is_arithmetic_v<T>) *static_cast<volatile T*>(to) = value;
    else *static_cast<T*>(to) = value;
}

// Barriers and lanes.

__forceinline__ void barrier_sync(Call call, unsigned number, unsigned threads) {
    if (number == 0 && threads == block_threads()) {
        call.operation = Operation::syncthreads;
        simt_block_barrier(simt_thread(), call, 0);
    } else {
        simt_named_barrier(simt_thread(), call, number, threads, true);
    }
}

// Lanes come together, but nothing that they have stored is ordered by that.
__forceinline__ bool elected(Call call, unsigned mask) {
    const unsigned lane = simt_thread()->lane;
    return shuffle(call, mask, lane, __builtin_ctz(mask)) == lane;
}

// Asynchronous copies.

__forceinline__ unsigned long long* as_barrier(void* barrier) { return static_cast<unsigned long long*>(barrier); }

// A box of a tensor map, with as many coordinates as the instruction has.
template <typename... Int>
__forceinline__ TilePosition in_map(Call call, unsigned long long address, Int... at) {
    auto* const map = reinterpret_cast<const TensorMap*>(address);
    char words[64];
    const bool is_map = address % alignof(TensorMap) == 0 && map->mark == TensorMap::MARK;
    const int dimensions = is_map ? map->dimensions : 0;
    if (dimensions != sizeof...(at)) {
        std::snprintf(words, sizeof words, dimensions ? "a tile of %d dimensions of a tensor map of %d" : "a tile of %d dimensions of no tensor map",
                      int(sizeof...(at)), dimensions);
        simt_trap(words, call.file, call.line);
    }
    return {map, {at...}};
}

// Matrices.

// Sums are floats or int32. Where `float` is a class that counts: what the tensor cores do with sums is not counted.
template <typename Sum>
__forceinline__ HostFloat* as_host(Sum* sums) { return reinterpret_cast<HostFloat*>(sums); }

// Rows that are not read need no address that is one.
__forceinline__ void* row_at(Call call, int count, unsigned row) {
    call.operation = Operation::shared_memory;
    return int(simt_thread()->lane) < 8 * count ? simt_at_shared(simt_thread(), call, row) : nullptr;
}

template <bool TRANSPOSED, int COUNT>
__forceinline__ void load_matrices(Call call, unsigned (&words)[COUNT], unsigned row) {
    simt::load_matrices<TRANSPOSED>(words, static_cast<const unsigned*>(row_at(call, COUNT, row)), call);
}

template <bool TRANSPOSED, int COUNT>
__forceinline__ void store_matrices(Call call, const unsigned (&words)[COUNT], unsigned row) {
    simt::store_matrices<TRANSPOSED>(words, static_cast<unsigned*>(row_at(call, COUNT, row)), call);
}

template <typename Sum>
__forceinline__ void multiply_fragments(Call call, Sum (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                        FactorType of_a, FactorType of_b) {
    Fragments own = {as_host(sums), a, b, 1, 1, of_a, of_b};
    simt_warp_together(simt_thread(), call, &own, simt_multiply_fragments);
}

// Of half the depth: the rest of k is zeros.
template <typename Sum>
__forceinline__ void multiply_fragments(Call call, Sum (&sums)[4], const unsigned (&a)[2], const unsigned (&b)[1],
                                        FactorType of_a, FactorType of_b) {
    const unsigned whole_a[4] = {a[0], a[1]}, whole_b[2] = {b[0]};
    multiply_fragments(call, sums, whole_a, whole_b, of_a, of_b);
}

// Registers that the tensor cores use until they are waited for: they must be neighbours in a thread's array.
template <typename T>
__forceinline__ T* together(Call call, std::initializer_list<const void*> registers) {
    auto* const first = const_cast<T*>(static_cast<const T*>(*registers.begin()));
    T* next = first;
    for (const void* one : registers) {
        if (one != next++) simt_trap("wgmma with registers that are no neighbours in an array", call.file, call.line);
    }
    return first;
}

template <typename Sum>
__forceinline__ void multiply_async(Call call, Sum* sums, unsigned columns, const unsigned* a_registers, WgmmaFactor a,
                                    WgmmaFactor b, bool adds, std::initializer_list<int> signs) {
    for (const int sign : signs) {
        if (sign != 1) simt_trap("wgmma of negated factors, which the emulator has not", call.file, call.line);
    }
    simt_multiply_async(simt_thread(), call, {as_host(sums), a_registers, columns, a, b, adds});
}

}  // namespace simt::ptx
