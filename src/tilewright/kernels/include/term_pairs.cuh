// Float32 elements split into three bfloat16 terms in registers, two at a time, as tensor cores take them; and what is seen of them
// on the way (term_range.cuh).
//
//     x = x0 + x1 + x2      x0: x rounded      x1: what is left of x, rounded      x2: what is left then
#pragma once

#include "elements.cuh"
#include "term_range.cuh"

// Of the elements that a thread splits. Bits are shifted up by one, so that they have no sign.
struct TermWatch {
    unsigned largest = 0, smallest = 0;  // the latter negated, so that 0 is smaller than any

    __device__ __forceinline__ void see(float x) {
        const unsigned bits = __float_as_uint(x) << 1;
        largest = max(largest, bits);
        smallest = max(smallest, 0u - bits);
    }

    // By a warp, which adds what its lanes have seen to a range in shared memory.
    __device__ __forceinline__ void add_to(Range& all) const {
        Range seen = {largest >> 1, smallest == 0 ? 0 : Range::NONE - ((0u - smallest) >> 1), 0};
        seen = seen.of_warp();
        if (threadIdx.x % 32 != 0) return;
        atomicMax(&all.largest, seen.largest);
        atomicMax(&all.smallest, seen.smallest);
    }
};

// terms[t]: term t of x in the lower half, that of y in the upper one.
__device__ __forceinline__ void split_pair(float x, float y, unsigned (&terms)[TERMS]) {
#pragma unroll
    for (int t = 0; t < TERMS; ++t) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
        terms[t] = *reinterpret_cast<const unsigned*>(&pair);
        x -= __uint_as_float(terms[t] << 16);
        y -= __uint_as_float(terms[t] & 0xffff0000u);
    }
}
