// What terms cannot hold (stage_products.cuh), noticed while factors are split, with no wait on the host:
//
//     relayout         sees every element, and adds to what is known of A and of B
//     product          every block looks at it, and does nothing where terms do not hold the factors
//     product in float32, launched behind it: does nothing where they do
//
// Terms hold an element that the last of them reaches to its last bit, and that does not round to infinity. Products must
// neither overflow where those of float32 do not, nor lose bits to underflow.
#pragma once

#include <relaxed_load.cuh>

#include "term_scales.cuh"

// Of the elements of a factor; where they are scaled, of the largest of those that share a scale. 0: none has been seen.
struct Range {
    unsigned largest;   // bits of the largest, without its sign
    unsigned smallest;  // NONE less those of the smallest that is not 0
    unsigned lost;      // 1: an element is too small for its scale

    static constexpr unsigned NONE = 0x7fffffff;
    // The least exponents: of an element, whose last term's last bit is 2^-133 or more; of a product, of which no part is to
    // be less than 2^-126, nor its scales.
    static constexpr int FIRST = SCALED ? -126 : 8 * TERMS - 134, FIRST_PRODUCT = SCALED ? -87 : -100;

    __device__ __forceinline__ void see(unsigned bits) {
        bits &= NONE;
        largest = max(largest, bits);
        if (bits != 0) smallest = max(smallest, NONE - bits);
    }

    // An element after it was scaled: a float16 of its own from 2^-14 on.
    __device__ __forceinline__ void see_scaled(unsigned bits) {
        if ((bits & NONE) - 1 < 0x38800000u - 1) lost = 1;
    }

    __device__ __forceinline__ Range of_warp() const {
        Range all = *this;
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
            all.largest = max(all.largest, __shfl_xor_sync(0xffffffff, all.largest, lanes));
            all.smallest = max(all.smallest, __shfl_xor_sync(0xffffffff, all.smallest, lanes));
            if (SCALED) all.lost |= __shfl_xor_sync(0xffffffff, all.lost, lanes);
        }
        return all;
    }

    // Most blocks see nothing new. `known`: what was known some time ago.
    __device__ __forceinline__ void add_to(Range* all, const Range& known) const {
        if (largest > known.largest) atomicMax(&all->largest, largest);
        if (smallest > known.smallest) atomicMax(&all->smallest, smallest);
        if (lost > known.lost) atomicMax(&all->lost, lost);
    }

    __device__ __forceinline__ int most() const { return static_cast<int>(largest >> 23) - 127; }
    __device__ __forceinline__ int least() const { return static_cast<int>((NONE - smallest) >> 23) - 127; }
    __device__ __forceinline__ bool fits() const { return most() < 127 && least() >= FIRST && lost == 0; }
};

// Of both factors. Its words are 0 before a product's launches and after them.
struct Seen {
    Range a, b;
    unsigned blocks;  // that have looked
};

struct TermCheck {
    Seen* seen;      // null: terms are taken to hold the factors
    unsigned* fits;  // for the launch behind: 1 where they do

    // Whether terms hold the factors, for sums of k products. Every thread of every block calls it, once.
    __device__ __forceinline__ bool passes(int k) const {
        if (seen == nullptr) return true;
        const Range a = seen->a, b = seen->b;
        const bool sums_fit = a.most() + b.most() + 2 + (32 - __clz(k)) < 127;
        const bool held = a.fits() && b.fits() && sums_fit && a.least() + b.least() >= Range::FIRST_PRODUCT;
        __syncthreads();  // all have read
        if (threadIdx.x == 0) {
            __threadfence();
            if (atomicInc(&seen->blocks, gridDim.x - 1) == gridDim.x - 1) {  // so have all blocks
                *fits = held;
                *seen = {};
            }
        }
        return held;
    }
};
