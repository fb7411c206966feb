// A warpgroup's products on the emulator: computed when the threads wait for them, from what shared memory holds then.
// Until then the sums are NaN. A that is in registers must be there unchanged.
#pragma once

#include "ptx/float8.cuh"
#include "ptx/half.cuh"
#include "load_matrices.hpp"
#include "ptx/matrix_descriptor.cuh"

// For the GPU's compiler.
template <typename Sums>
__forceinline__ void pin(Sums&) {}

template <typename Sums>
__forceinline__ void fence_sums(Sums&) {
    simt_fence_sums(simt_thread());
}

template <typename Sums, typename Registers>
__forceinline__ void fence_sums(Sums&, Registers&) {
    simt_fence_sums(simt_thread());
}

template <Major A, Major B, typename T, typename U = T, typename Sum, int COUNT>
__forceinline__ void multiply_async(Sum (&sums)[COUNT], MatrixDescriptor a, MatrixDescriptor b, bool adds = true,
                                    SIMT_LOCATION) {
    static_assert(COUNT % 4 == 0 && 4 <= COUNT && COUNT <= 128, "B has a multiple of 8 columns, from 8 to 256");
    static_assert(MAY_CROSS_K<T> || (A == Major::along_k && B == Major::along_k), "lines of TF32 and of 8 bits lie along k");
    const simt::WgmmaFactor of_a = {a.bits, A == Major::across_k, FACTOR_TYPE<T>};
    const simt::WgmmaFactor of_b = {b.bits, B == Major::across_k, FACTOR_TYPE<U>};
    const simt::WgmmaArguments arguments = {reinterpret_cast<simt::HostFloat*>(sums), nullptr, 2 * COUNT, of_a, of_b, adds};
    simt_multiply_async(simt_thread(), {simt::Operation::multiply_async, file, line}, arguments);
}

template <typename T, typename U = T, typename Sum, int COUNT>
__forceinline__ void multiply_async(Sum (&sums)[COUNT], const unsigned (&a)[4], MatrixDescriptor b, bool adds = true,
                                    SIMT_LOCATION) {
    static_assert(COUNT % 4 == 0 && 4 <= COUNT && COUNT <= 128, "B has a multiple of 8 columns, from 8 to 256");
    const simt::WgmmaFactor of_a = {0, false, FACTOR_TYPE<T>}, of_b = {b.bits, false, FACTOR_TYPE<U>};
    const simt::WgmmaArguments arguments = {reinterpret_cast<simt::HostFloat*>(sums), a, 2 * COUNT, of_a, of_b, adds};
    simt_multiply_async(simt_thread(), {simt::Operation::multiply_async, file, line}, arguments);
}

__forceinline__ void commit_products(SIMT_LOCATION) {
    simt_commit_products(simt_thread(), {simt::Operation::commit_products, file, line});
}

template <int PENDING, typename Sums>
__forceinline__ void wait_products(Sums&, SIMT_LOCATION) {
    simt_wait_products(simt_thread(), {simt::Operation::wait_products, file, line}, PENDING);
}

template <int PENDING, typename Sums, typename Registers>
__forceinline__ void wait_products(Sums& sums, Registers&, SIMT_LOCATION) {
    wait_products<PENDING>(sums, file, line);
}

__forceinline__ void load_factor(unsigned& first, unsigned& second, const void* shared, int) {
    const uint2 pair = *static_cast<const uint2*>(shared);
    first = pair.x;
    second = pair.y;
}

__forceinline__ void load_factor(unsigned (&to)[4], const void* shared, unsigned order, int, SIMT_LOCATION) {
    unsigned words[4];
    simt::load_matrices<true>(words, static_cast<const unsigned*>(shared), {simt::Operation::load_matrices, file, line});
    for (unsigned i = 0; i < 4; ++i) to[i] = __byte_perm(words[i / 2 * 2], words[i / 2 * 2 + 1], order + i % 2 * 0x1111u);
}
