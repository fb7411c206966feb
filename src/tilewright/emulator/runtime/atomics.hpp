// CUDA's atomic functions and fences. Blocks run at the same time, on several threads of the host.
//
// Each is one atomic access to observers: a load that begins it, which hooks.cpp does not announce, and the compare-exchange
// that ends it. The forms for a block and for the whole system do the same as those for the device.
#pragma once

namespace simt {

template <typename T, typename... Allowed>
using OneOf = std::enable_if_t<(std::is_same_v<T, Allowed> || ...), T>;

// T, in a parameter that does not decide what T is.
template <typename T>
struct Itself {
    using type = T;
};
template <typename T>
using Same = typename Itself<T>::type;

template <typename T, typename Change>
__forceinline__ auto update(T* address, Change change) {
    T old, next;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do {
        next = change(old);
    } while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

template <typename T>
__forceinline__ T add(T* address, T value) {
    if constexpr (std::is_integral_v<T>) {
        return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
    } else {
        return update(address, [=](T old) { return T(old + value); });
    }
}

template <typename T>
__forceinline__ T exchange(T* address, T value) {
    T old;
    __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
    return old;
}

template <typename T>
__forceinline__ T compare_exchange(T* address, T expected, T value) {
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

}  // namespace simt

#define SIMT_ATOMIC_OF(name, expression, ...)                                                                        \
    template <typename T>                                                                                            \
    __forceinline__ simt::OneOf<T, __VA_ARGS__> name(T* address, simt::Same<T> value) {                              \
        return expression;                                                                                           \
    }
#define SIMT_ATOMIC(name, expression, ...)                                                                           \
    SIMT_ATOMIC_OF(name, expression, __VA_ARGS__)                                                                    \
    SIMT_ATOMIC_OF(name##_block, expression, __VA_ARGS__)                                                            \
    SIMT_ATOMIC_OF(name##_system, expression, __VA_ARGS__)
#define SIMT_INTEGERS int, unsigned, unsigned long long

SIMT_ATOMIC(atomicAdd, simt::add(address, value), SIMT_INTEGERS, float, double)
SIMT_ATOMIC(atomicSub, __atomic_fetch_sub(address, value, __ATOMIC_RELAXED), int, unsigned)
SIMT_ATOMIC(atomicExch, simt::exchange(address, value), SIMT_INTEGERS, float)
SIMT_ATOMIC(atomicMin, simt::update(address, [=](T old) { return value < old ? value : old; }), SIMT_INTEGERS, long long)
SIMT_ATOMIC(atomicMax, simt::update(address, [=](T old) { return value > old ? value : old; }), SIMT_INTEGERS, long long)
SIMT_ATOMIC(atomicAnd, __atomic_fetch_and(address, value, __ATOMIC_RELAXED), SIMT_INTEGERS)
SIMT_ATOMIC(atomicOr, __atomic_fetch_or(address, value, __ATOMIC_RELAXED), SIMT_INTEGERS)
SIMT_ATOMIC(atomicXor, __atomic_fetch_xor(address, value, __ATOMIC_RELAXED), SIMT_INTEGERS)
SIMT_ATOMIC(atomicInc, simt::update(address, [=](T old) { return old >= value ? 0 : old + 1; }), unsigned)
SIMT_ATOMIC(atomicDec, simt::update(address, [=](T old) { return old == 0 || old > value ? value : old - 1; }), unsigned)

// Of vectors each element is added by itself.
__forceinline__ float2 atomicAdd(float2* address, float2 value) {
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
__forceinline__ float4 atomicAdd(float4* address, float4 value) {
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
            atomicAdd(&address->w, value.w)};
}

#define SIMT_ATOMIC_CAS(name)                                                                                        \
    template <typename T>                                                                                            \
    __forceinline__ simt::OneOf<T, SIMT_INTEGERS, unsigned short> name(T* address, simt::Same<T> expected,           \
                                                                       simt::Same<T> value) {                        \
        return simt::compare_exchange(address, expected, value);                                                     \
    }
SIMT_ATOMIC_CAS(atomicCAS)
SIMT_ATOMIC_CAS(atomicCAS_block)
SIMT_ATOMIC_CAS(atomicCAS_system)

#undef SIMT_ATOMIC
#undef SIMT_ATOMIC_OF
#undef SIMT_ATOMIC_CAS
#undef SIMT_INTEGERS

__forceinline__ void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
__forceinline__ void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
// Orders nothing between blocks, so observers are not told. A block's threads run on one thread of the host.
__forceinline__ void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
