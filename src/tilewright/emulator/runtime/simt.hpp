// CUDA C++ for a host compiler: what a kernel source may use without including anything.
//
// Included ahead of every kernel. Operations at which threads wait for one another go to the runtime, with the place of the
// call; all else is plain C++. Semantics as in the CUDA C++ Programming Guide, section "C++ Language Extensions", and for
// what lies beyond a shuffle's width, the PTX manual's shfl.sync.
//
// Templates that functions of the prelude call return `auto`: GCC has to instantiate these where they are called, which is in the
// precompiled header. All others that are called it instantiates at the end of every kernel, used or not.
#pragma once

#include <cstdint>

#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // no GPU has them, and libstdc++'s take longer to parse than all else here
#include <math.h>

#include <cstring>
#include <type_traits>
#include <limits>
#include <utility>

#include "../include/assert.h"
#include "abi.hpp"

// The names are the host's, which its headers declare again; the functions are the runtime's.
extern "C" int printf(const char* format, ...) __asm__("simt_printf") __attribute__((format(printf, 1, 2)));
extern "C" long clock() noexcept __asm__("simt_clock");
#ifndef __clang__  // GCC calls these by itself, by the same names: most kernels need none of C's library then (compiler.py)
extern "C" void* memcpy(void* to, const void* from, std::size_t bytes) noexcept __asm__("simt_memcpy");
extern "C" void* memmove(void* to, const void* from, std::size_t bytes) noexcept __asm__("simt_memmove");
extern "C" void* memset(void* to, int value, std::size_t bytes) noexcept __asm__("simt_memset");
extern "C" int memcmp(const void* one, const void* other, std::size_t bytes) noexcept __asm__("simt_memcmp");
#endif

#define __global__
#define __device__
#define __host__
#define __constant__
// The threads of a block run on one thread of the host, so its thread-local storage is the block's shared memory. Used: else a
// compiler takes what nobody writes for zeros, and observers are not told that it is read. As on a GPU, variables lie there in the
// order of their declarations, from a multiple of 1024 bytes on. (Clang has them in that order.)
#ifdef __clang__
#define __shared__ __attribute__((used)) thread_local
#else
#define __shared__ __attribute__((used, no_reorder)) thread_local
#endif
#define __managed__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)  // see SIMT_LAUNCH_BOUNDS
#define __grid_constant__
#define __builtin_assume(condition) ((void)0)
#define __cluster_dims__(...)  // the launch says how many blocks a cluster has

#define threadIdx (simt_thread()->index)
#define blockIdx (simt_thread()->block->index)
#define blockDim (simt_thread()->block->threads)
#define gridDim (simt_thread()->block->grid)

constexpr int warpSize = simt::WARP_SIZE;

#include "vector_types.hpp"

using CUtensorMap = simt::TensorMap;  // the host's cuda.h has it

// What dynamic_shared.py makes of `extern __shared__ T name[];`.

namespace simt {

template <typename T>
__forceinline__ T* dynamic_shared() {
    return static_cast<T*>(simt_thread()->block->dynamic_shared);
}

}  // namespace simt

// Barriers. A default argument is evaluated where the call is written, so it knows the call's file and line. (Stand-ins of
// headers use it too.)

#define SIMT_LOCATION const char *file = __builtin_FILE(), int line = __builtin_LINE()

__forceinline__ void __syncthreads(SIMT_LOCATION) {
    simt_block_barrier(simt_thread(), {simt::Operation::syncthreads, file, line}, 0);
}

__forceinline__ int __syncthreads_count(int predicate, SIMT_LOCATION) {
    return simt_block_barrier(simt_thread(), {simt::Operation::syncthreads_count, file, line}, predicate);
}

__forceinline__ int __syncthreads_and(int predicate, SIMT_LOCATION) {
    return simt_block_barrier(simt_thread(), {simt::Operation::syncthreads_and, file, line}, !predicate) == 0;
}

__forceinline__ int __syncthreads_or(int predicate, SIMT_LOCATION) {
    return simt_block_barrier(simt_thread(), {simt::Operation::syncthreads_or, file, line}, predicate) != 0;
}

__forceinline__ void __syncwarp(unsigned mask = 0xffffffff, SIMT_LOCATION) {
    simt_warp_exchange(simt_thread(), {simt::Operation::syncwarp, file, line}, mask, 0, 0);
}

// Warp votes.

__forceinline__ int __all_sync(unsigned mask, int predicate, SIMT_LOCATION) {
    return simt_warp_exchange(simt_thread(), {simt::Operation::vote_all, file, line}, mask, predicate != 0, 0);
}

__forceinline__ int __any_sync(unsigned mask, int predicate, SIMT_LOCATION) {
    return simt_warp_exchange(simt_thread(), {simt::Operation::vote_any, file, line}, mask, predicate != 0, 0);
}

__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate, SIMT_LOCATION) {
    return simt_warp_exchange(simt_thread(), {simt::Operation::ballot, file, line}, mask, predicate != 0, 0);
}

__forceinline__ unsigned __activemask(SIMT_LOCATION) {
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
__forceinline__ T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, SIMT_LOCATION) {
    const unsigned first = simt_thread()->lane & ~(width - 1);
    return simt::shuffle({simt::Operation::shuffle, file, line}, mask, value, first + (source & (width - 1)));
}

template <typename T>
__forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, SIMT_LOCATION) {
    const unsigned lane = simt_thread()->lane;
    const unsigned position = lane & (width - 1);
    const unsigned distance = delta % warpSize <= position ? delta % warpSize : 0;
    return simt::shuffle({simt::Operation::shuffle_up, file, line}, mask, value, lane - distance);
}

template <typename T>
__forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, SIMT_LOCATION) {
    const unsigned lane = simt_thread()->lane;
    const unsigned position = lane & (width - 1);
    const unsigned distance = position + delta % warpSize < unsigned(width) ? delta % warpSize : 0;
    return simt::shuffle({simt::Operation::shuffle_down, file, line}, mask, value, lane + distance);
}

template <typename T>
__forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize, SIMT_LOCATION) {
    const unsigned lane = simt_thread()->lane;
    const unsigned last = lane | (width - 1);
    const unsigned source = lane ^ (lane_mask & (warpSize - 1));
    return simt::shuffle({simt::Operation::shuffle_xor, file, line}, mask, value, source <= last ? source : lane);
}

#include "atomics.hpp"
#include "warp_values.hpp"

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

#include "intrinsics.hpp"
#include "directed_rounding.hpp"
#include "packed_integers.hpp"

// Other threads of the block go on meanwhile. It sleeps no time of the host's.
__forceinline__ void __nanosleep(unsigned) { simt_yield(simt_thread()); }

__forceinline__ long long clock64() { return simt_clock(); }

__forceinline__ void __trap(SIMT_LOCATION) { simt_trap("__trap()", file, line); }

#define __CUDA_ARCH__ 900  // sources ask for it where they have other code for older GPUs, or for the host

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

// Of no bytes: makes static shared memory begin at a multiple of 1024.
extern "C" {
__shared__ __align__(1024) char simt_shared_begin[0];
}

// Where a variable of the source is, for Program.fill, and how many bytes it has.
#define SIMT_FILLED(name)                                                 \
    SIMT_EXPORT SIMT_UNSEEN std::size_t simt_bytes_of_##name(void** at) { \
        *at = const_cast<void*>(static_cast<const void*>(&name));         \
        return sizeof name;                                               \
    }

// The constant that launch_bounds.py makes of the kernel's __launch_bounds__, which may be one of a template: a name with commas.
#define SIMT_LAUNCH_BOUNDS(...) \
    SIMT_EXPORT const unsigned* simt_launch_bounds() { return __VA_ARGS__; }

// The kernel may be one of a template: a name with commas.
#define SIMT_ENTRY(...)                                                                                     \
    SIMT_EXPORT SIMT_UNSEEN void simt_call(void** arguments) { simt::Entry<__VA_ARGS__>::call(arguments); } \
    SIMT_EXPORT const std::uint32_t* simt_parameters() { return simt::Entry<__VA_ARGS__>::sizes; }
