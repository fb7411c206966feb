// Float32 elements split in registers, two at a time, into the parts that tensor cores take; and what is seen of them on the way
// (part_range.cuh).
//
//     x = x0 + x1 + x2      x0: x rounded      x1: what is left of x, rounded      x2: what is left then
//
// Three bfloat16 parts, or where SCALED is 1 two float16 parts of scaled elements, the second 2^11 times as large as it counts.
#pragma once

#include "elements.cuh"
#include "float32_parts/part_range.cuh"

// Bits of x in the lower half, those of y in the upper one; and back.
template <bool OF_FLOAT16>
struct PartPair {
    using PartType = __nv_bfloat16;
    static __device__ __forceinline__ unsigned rounded(float x, float y) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
        return *reinterpret_cast<const unsigned*>(&pair);
    }
    static __device__ __forceinline__ float first(unsigned pair) { return __uint_as_float(pair << 16); }
    static __device__ __forceinline__ float second(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
};
template <>
struct PartPair<true> {
    using PartType = __half;
    static __device__ __forceinline__ unsigned rounded(float x, float y) {
        const __half2 pair = __floats2half2_rn(x, y);
        return *reinterpret_cast<const unsigned*>(&pair);
    }
    static __device__ __forceinline__ float first(unsigned pair) { return __low2float(*reinterpret_cast<const __half2*>(&pair)); }
    static __device__ __forceinline__ float second(unsigned pair) { return __high2float(*reinterpret_cast<const __half2*>(&pair)); }
};
using Pair = PartPair<SCALED>;

// parts[t]: part t of x in the lower half, that of y in the upper one.
__device__ __forceinline__ void split_pair(float x, float y, unsigned (&parts)[SPLIT_PARTS]) {
#pragma unroll
    for (int t = 0; t < SPLIT_PARTS; ++t) {
        parts[t] = Pair::rounded(x, y);
        x = (x - Pair::first(parts[t])) * PART_STEP;
        y = (y - Pair::second(parts[t])) * PART_STEP;
    }
}

// Of the elements that a thread splits. Bits are shifted up by one, so that they have no sign.
class SeenRange {
    unsigned largest = 0, smallest = 0;  // the latter negated, so that 0 is smaller than any
    unsigned lost = 0;

  public:
    // Some of its elements. Where SCALED is 1 all lanes of a warp have some, and scale them by one power of two, so that the largest
    // comes to lie between 2^14 and 2^15. Returns what products of them are multiplied by.
    template <int COUNT>
    __device__ __forceinline__ float see(float (&elements)[COUNT]) {
        if constexpr (!SCALED) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) see(elements[i]);
            return 1.0f;
        } else {
            float most = fabsf(elements[0]), least = most;  // what is no number shows in the results, as it does in float32
#pragma unroll
            for (int i = 1; i < COUNT; ++i) {
                most = fmaxf(most, fabsf(elements[i]));
                least = fminf(least, fabsf(elements[i]));
            }
            const unsigned of_warp = __reduce_max_sync(0xffffffff, __float_as_uint(most));
            see(__uint_as_float(of_warp));
            const unsigned exponent = min(268 - (of_warp >> 23), 253u);
            const float held = __uint_as_float(max(240 - static_cast<int>(exponent), 1) << 23);  // scaled, it is 2^-14
            if (__any_sync(0xffffffff, least < held)) {
#pragma unroll
                for (int i = 0; i < COUNT; ++i) lost += elements[i] != 0 && fabsf(elements[i]) < held;
            }
#pragma unroll
            for (int i = 0; i < COUNT; ++i) elements[i] *= __uint_as_float(exponent << 23);
            return __uint_as_float((254 - exponent) << 23);
        }
    }

    // By a warp, which adds what its lanes have seen to a range in shared memory.
    __device__ __forceinline__ void add_to(Range& all) const {
        Range seen = {largest >> 1, smallest == 0 ? 0 : Range::NONE - ((0u - smallest) >> 1), lost};
        seen = seen.of_warp();
        if (threadIdx.x % 32 != 0) return;
        atomicMax(&all.largest, seen.largest);
        atomicMax(&all.smallest, seen.smallest);
        if (seen.lost > 0) atomicAdd(&all.lost, seen.lost);
    }

  private:
    __device__ __forceinline__ void see(float x) {
        const unsigned bits = __float_as_uint(x) << 1;
        largest = max(largest, bits);
        smallest = max(smallest, 0u - bits);
    }
};
