// A warp's products of fragments on the emulator: computed when all lanes have arrived, for all of them at once.
#pragma once

#include "ptx/float8.cuh"
#include "ptx/half.cuh"

template <typename T, typename U = T, typename Sum, int ROWS, int COLS, int COUNT>
__forceinline__ void multiply_fragments(Sum (&sums)[ROWS][COUNT], const unsigned (&a)[ROWS][4],
                                        const unsigned (&b)[COLS][2], SIMT_LOCATION) {
    static_assert(COUNT == 4 * COLS, "a lane has four sums of a product");
    simt::Fragments own = {reinterpret_cast<simt::HostFloat*>(&sums[0][0]), &a[0][0], &b[0][0], ROWS, COLS, FACTOR_TYPE<T>, FACTOR_TYPE<U>};
    simt_warp_together(simt_thread(), {simt::Operation::multiply_fragments, file, line}, &own, simt_multiply_fragments);
}

__forceinline__ unsigned round_to_tf32(unsigned bits) { return simt::rounded_to_tf32(bits); }
