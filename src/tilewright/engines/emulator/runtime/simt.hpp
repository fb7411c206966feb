// CUDA C++ for a host compiler: what a kernel source may use without including anything.
//
// Included ahead of every kernel. Operations at which threads wait for one another go to the runtime, with the place of the
// call; all else is plain C++. Semantics as in the CUDA C++ Programming Guide, section "C++ Language Extensions", and for
// what lies beyond a shuffle's width, the PTX manual's shfl.sync.
#pragma once

#include <cstdint>

#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // no GPU has them, and libstdc++'s take longer to parse than all else here
#include <math.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "abi.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
// The threads of a block run on one thread of the host, so its thread-local storage is the block's shared memory.
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)  // the launch says how many blocks a cluster has

#define threadIdx (simt_thread()->index)
#define blockIdx (simt_thread()->block->index)
#define blockDim (simt_thread()->block->threads)
#define gridDim (simt_thread()->block->grid)

constexpr int warpSize = simt::WARP_SIZE;

// Vector types, aligned as on the GPU. uint3 is in abi.hpp.
#define SIMT_VECTOR2(name, T, alignment)    \
    struct alignas(alignment) name {        \
        T x, y;                             \
    };                                      \
    __forceinline__ name make_##name(T x, T y) { return {x, y}; }
#define SIMT_VECTOR3(name, T)               \
    struct name {                           \
        T x, y, z;                          \
    };                                      \
    __forceinline__ name make_##name(T x, T y, T z) { return {x, y, z}; }
#define SIMT_VECTOR4(name, T)               \
    struct alignas(16) name {               \
        T x, y, z, w;                       \
    };                                      \
    __forceinline__ name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }
SIMT_VECTOR2(float2, float, 8)
SIMT_VECTOR3(float3, float)
SIMT_VECTOR4(float4, float)
SIMT_VECTOR2(int2, int, 8)
SIMT_VECTOR3(int3, int)
SIMT_VECTOR4(int4, int)
SIMT_VECTOR2(uint2, unsigned, 8)
SIMT_VECTOR4(uint4, unsigned)
SIMT_VECTOR2(double2, double, 16)
SIMT_VECTOR3(double3, double)
SIMT_VECTOR4(double4, double)
#undef SIMT_VECTOR2
#undef SIMT_VECTOR3
#undef SIMT_VECTOR4

__forceinline__ uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

// Barriers. A default argument is evaluated where the call is written, so it knows the call's file and line. (Stand-ins of
// headers use it too.)

#define SIMT_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

__forceinline__ void __syncthreads(SIMT_PLACE) {
    simt_block_barrier(simt_thread(), {simt::Operation::syncthreads, file, line}, 0);
}

__forceinline__ int __syncthreads_count(int predicate, SIMT_PLACE) {
    return simt_block_barrier(simt_thread(), {simt::Operation::syncthreads_count, file, line}, predicate);
}

__forceinline__ int __syncthreads_and(int predicate, SIMT_PLACE) {
    return simt_block_barrier(simt_thread(), {simt::Operation::syncthreads_and, file, line}, !predicate) == 0;
}

__forceinline__ int __syncthreads_or(int predicate, SIMT_PLACE) {
    return simt_block_barrier(simt_thread(), {simt::Operation::syncthreads_or, file, line}, predicate) != 0;
}

__forceinline__ void __syncwarp(unsigned mask = 0xffffffff, SIMT_PLACE) {
    simt_warp_exchange(simt_thread(), {simt::Operation::syncwarp, file, line}, mask, 0, 0);
}

// Warp votes.

__forceinline__ int __all_sync(unsigned mask, int predicate, SIMT_PLACE) {
    return simt_warp_exchange(simt_thread(), {simt::Operation::vote_all, file, line}, mask, predicate != 0, 0);
}

__forceinline__ int __any_sync(unsigned mask, int predicate, SIMT_PLACE) {
    return simt_warp_exchange(simt_thread(), {simt::Operation::vote_any, file, line}, mask, predicate != 0, 0);
}

__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate, SIMT_PLACE) {
    return simt_warp_exchange(simt_thread(), {simt::Operation::ballot, file, line}, mask, predicate != 0, 0);
}

__forceinline__ unsigned __activemask(SIMT_PLACE) {
    return simt_warp_exchange(simt_thread(), {simt::Operation::activemask, file, line}, 0xffffffff, 0, 0);
}

// Warp shuffles. `width` cuts the warp into segments; a lane whose source lies beyond its segment gets its own value.

namespace simt {

template <typename T>
__forceinline__ T shuffle(Call call, unsigned mask, T value, unsigned source) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = simt_warp_exchange(simt_thread(), call, mask, bits, source);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

}  // namespace simt

template <typename T>
__forceinline__ T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, SIMT_PLACE) {
    const unsigned first = simt_thread()->lane & ~(width - 1);
    return simt::shuffle({simt::Operation::shuffle, file, line}, mask, value, first + (source & (width - 1)));
}

template <typename T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, SIMT_PLACE) {
    const unsigned lane = simt_thread()->lane;
    const unsigned position = lane & (width - 1);
    const unsigned distance = delta % warpSize <= position ? delta % warpSize : 0;
    return simt::shuffle({simt::Operation::shuffle_up, file, line}, mask, value, lane - distance);
}

template <typename T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, SIMT_PLACE) {
    const unsigned lane = simt_thread()->lane;
    const unsigned position = lane & (width - 1);
    const unsigned distance = position + delta % warpSize < unsigned(width) ? delta % warpSize : 0;
    return simt::shuffle({simt::Operation::shuffle_down, file, line}, mask, value, lane + distance);
}

template <typename T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize, SIMT_PLACE) {
    const unsigned lane = simt_thread()->lane;
    const unsigned last = lane | (width - 1);
    const unsigned source = lane ^ (lane_mask & (warpSize - 1));
    return simt::shuffle({simt::Operation::shuffle_xor, file, line}, mask, value, source <= last ? source : lane);
}

// The same bits as another type.

__forceinline__ float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

__forceinline__ unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Atomics: blocks run at the same time, on several threads of the host.

__forceinline__ int atomicAdd(int* address, int value) { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); }

__forceinline__ unsigned atomicAdd(unsigned* address, unsigned value) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

__forceinline__ float atomicAdd(float* address, float value) {
    float old, sum;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do {
        sum = old + value;
    } while (!__atomic_compare_exchange(address, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

__forceinline__ unsigned atomicMax(unsigned* address, unsigned value) {
    unsigned old = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(address, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

__forceinline__ unsigned atomicCAS(unsigned* address, unsigned expected, unsigned value) {
    unsigned old = expected;
    __atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}

__forceinline__ unsigned atomicInc(unsigned* address, unsigned limit) {
    unsigned old = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(address, &old, old >= limit ? 0 : old + 1, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    return old;
}

__forceinline__ void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Arithmetic.

template <typename T, typename U>
__forceinline__ std::common_type_t<T, U> min(T a, U b) {
    using C = std::common_type_t<T, U>;
    if constexpr (std::is_floating_point_v<C>) return fmin(C(a), C(b));
    return C(b) < C(a) ? C(b) : C(a);
}

template <typename T, typename U>
__forceinline__ std::common_type_t<T, U> max(T a, U b) {
    using C = std::common_type_t<T, U>;
    if constexpr (std::is_floating_point_v<C>) return fmax(C(a), C(b));
    return C(a) < C(b) ? C(b) : C(a);
}

__forceinline__ float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ int __clz(int x) { return x == 0 ? 32 : __builtin_clz(x); }
__forceinline__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned bits) {
    return ((std::uint64_t(high) << 32 | low) << bits % 32) >> 32;
}

template <typename T>
__forceinline__ T __ldg(const T* address) {
    return *address;
}

// What the runtime calls: the kernel, with its parameters taken from an array of pointers to them, as cudaLaunchKernel
// does. Their sizes, ended by a 0, let a launch be checked.

namespace simt {

template <auto kernel>
class Entry;

template <typename... P, void (*kernel)(P...)>
class Entry<kernel> {
  public:
    static constexpr std::uint32_t sizes[] = {sizeof(P)..., 0};

    static __forceinline__ void call(void** arguments) { call(arguments, std::index_sequence_for<P...>{}); }

  private:
    template <std::size_t... I>
    static __forceinline__ void call(void** arguments, std::index_sequence<I...>) {
        kernel(*static_cast<P*>(arguments[I])...);
    }
};

}  // namespace simt

// A kernel's name may have template arguments, with commas.
#define SIMT_ENTRY(...)                                                                                       \
    SIMT_EXPORT SIMT_UNSEEN void simt_call(void** arguments) { simt::Entry<__VA_ARGS__>::call(arguments); }   \
    SIMT_EXPORT const std::uint32_t* simt_parameters() { return simt::Entry<__VA_ARGS__>::sizes; }
