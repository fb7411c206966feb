// What terms cannot hold (stage_products.cuh), noticed on the device, with no wait on the host: who splits the factors sees every
// element, and adds to what is known of A and of B. The product looks at it, and computes in float32 where terms do not hold them.
//
// Terms hold an element that the last of them reaches to its last bit, and that does not round to infinity. Products must
// neither overflow where those of float32 do not, nor lose bits to underflow. Where terms are scaled, an element far below
// the largest of its square loses bits: that shows in sums that are as small, and only these are looked at.
#pragma once

#include <relaxed_load.cuh>

#include "term_scales.cuh"

// Of the elements of a factor; where they are scaled, of the largest of each square. 0: none has been seen.
struct Range {
    unsigned largest;   // bits of the largest, without its sign
    unsigned smallest;  // NONE less those of the smallest that is not 0
    unsigned lost;      // how many elements that are not 0 are too small for their scale to keep all bits

    static constexpr unsigned NONE = 0x7fffffff;
    // The least exponents: of an element, whose last term's last bit is 2^-133 or more; of a product, of which no part is to
    // be less than 2^-126, nor its scales.
    static constexpr int FIRST = SCALED ? -126 : 8 * TERMS - 134, FIRST_PRODUCT = SCALED ? -87 : -100;

    __device__ __forceinline__ void see(unsigned bits) {
        bits &= NONE;
        largest = max(largest, bits);
        if (bits != 0) smallest = max(smallest, NONE - bits);
    }

    // An element before it was scaled, and after: a float16 keeps 11 bits from 2^-14 on.
    __device__ __forceinline__ void see_scaled(unsigned before, unsigned after) {
        lost += (before & NONE) != 0 && (after & NONE) < 0x38800000u;
    }

    __device__ __forceinline__ void see(const Range& other) {
        largest = max(largest, other.largest);
        smallest = max(smallest, other.smallest);
        lost += other.lost;
    }

    // For all lanes of a warp.
    __device__ __forceinline__ Range of_warp() const {
        Range all = *this;
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
            all.largest = max(all.largest, __shfl_xor_sync(0xffffffff, all.largest, lanes));
            all.smallest = max(all.smallest, __shfl_xor_sync(0xffffffff, all.smallest, lanes));
            if (SCALED) all.lost += __shfl_xor_sync(0xffffffff, all.lost, lanes);
        }
        return all;
    }

    // By a warp, of which all lanes have the same. Most see nothing new: the words are updated by few. `known`: some time ago, by
    // `known_of`.
    __device__ __forceinline__ void add_to(Range* all, const Range& known) const {
        if (threadIdx.x % 32 != 0) return;
        const auto raise = [](unsigned* word, unsigned to, unsigned before) {
            if (to > before && to > load_relaxed(word)) atomicMax(word, to);
        };
        raise(&all->largest, largest, known.largest);
        raise(&all->smallest, smallest, known.smallest);
        if (lost > 0) atomicAdd(&all->lost, lost);
    }

    __device__ __forceinline__ int most() const { return static_cast<int>(largest >> 23) - 127; }
    __device__ __forceinline__ int least() const { return static_cast<int>((NONE - smallest) >> 23) - 127; }
    __device__ __forceinline__ bool fits() const { return most() < 127 && least() >= FIRST; }
};

__device__ __forceinline__ Range known_of(const Range* all) {
    return {load_relaxed(&all->largest), load_relaxed(&all->smallest), load_relaxed(&all->lost)};
}

// What is known of factors before they are multiplied.
struct TermCheck {
    bool hold = true;     // whether terms hold the factors, for all that is known before products are summed
    float least = 0.0f;  // sums smaller than this may have lost too much: 2^-22 of themselves. 0 where none may

    TermCheck() = default;

    // Of sums of k products. What an element loses that is too small is 2^-50 of its square's largest. adds_c: whether C is read,
    // where results may go: sums that lose too much would be found when it is no longer there, so there may be none.
    __device__ __forceinline__ TermCheck(const Range& a, const Range& b, int k, bool adds_c) {
        const bool sums_fit = a.most() + b.most() + 2 + (32 - __clz(k)) < 127;
        hold = a.fits() && b.fits() && sums_fit && a.least() + b.least() >= Range::FIRST_PRODUCT;
        const float lost = a.lost + b.lost;
        least = lost == 0.0f ? 0.0f : lost * 0x1p-28f * __uint_as_float(a.largest) * __uint_as_float(b.largest);
        hold &= !adds_c || least == 0.0f;
    }

    // Of sums that are made of these and of others.
    __device__ __forceinline__ void add(const TermCheck& others) {
        hold &= others.hold;
        least += others.least;
    }
};

// Whether one of a lane's sums (mma.cuh) is smaller than `least`, as they lie from an element of D on that has `rows` and `cols` up
// to the last.
template <int COUNT>
__device__ __forceinline__ bool terms_lose(const float (&sums)[COUNT], float least, int lane, int rows, int cols) {
    if (least == 0.0f) return false;
    const int row = lane / 4, col = lane % 4 * 2;
    bool small = false;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const bool inside = row + i % 4 / 2 * 8 < rows && col + i / 4 * 8 + i % 2 < cols;
        small |= inside && !(fabsf(sums[i]) >= least);
    }
    return small;
}
