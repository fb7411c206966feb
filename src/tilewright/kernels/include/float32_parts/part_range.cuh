// What is out of the parts' range (stage_products.cuh), detected on the GPU, with no wait on the host: who splits the factors sees every
// element, and adds to what is known of A and of B. The product looks at it, and computes in float32 where parts do not represent them.
//
// Parts represent an element that the last of them reaches to its last bit, and that does not round to infinity; and products must not
// overflow where those of float32 do not. Elements far below the largest of their square where parts are scaled, others so small that
// the last part ends above their last bit, and products so small that they underflow lose bits: that shows in sums that are as
// small, and only these are looked at. Infinities and NaN are put on a list (non_finite.cuh).
//
// Where elements lost bits, finished sums are compared with the least that the loss can have harmed, and a block with a smaller sum computes
// its tiles in float32 at the end; where no sum can be that large, or beta is not 0 (C may be D), from the start.
#pragma once

#include "float32_parts/part_scales.cuh"
#include "ptx/relaxed_load.cuh"

// An infinite element or a NaN of a factor: of which of its matrices, of which row of A or column of B, and where along k.
struct NonFinite {
    int matrix, side, k;

    static constexpr unsigned MOST = 4096;        // on the list of a factor
    static constexpr unsigned FIRST = 0x7f800000;  // bits, without the sign

    // As another block has written it.
    __device__ __forceinline__ NonFinite now() const {
        const auto load = [](const int& word) { return static_cast<int>(load_relaxed(reinterpret_cast<const unsigned*>(&word))); };
        return {load(matrix), load(side), load(k)};
    }
};

// Of the elements of a factor; where they are scaled, of the largest of each square. 0: none has been seen.
struct Range {
    unsigned largest;   // bits of the largest, without its sign
    unsigned smallest;  // NONE less those of the smallest that is not 0
    unsigned lost;      // how many elements that are not 0 are too small for their scale to keep all bits
    unsigned listed;    // how many are on the list of those that are not finite

    static constexpr unsigned NONE = 0x7fffffff;
    // The least exponents: of an element, whose last part's last bit is 2^-133 or more, or whose scale is no less than 2^-126; of a
    // product, of which no part is to be less than 2^-126, nor its scales.
    static constexpr int FIRST = SCALED ? -126 : 8 * SPLIT_PARTS - 134, FIRST_PRODUCT = SCALED ? -87 : -100;

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
    __device__ __forceinline__ bool fits() const { return most() < 127 && (!SCALED || least() >= FIRST); }
};

__device__ __forceinline__ Range known_of(const Range* all) {
    return {load_relaxed(&all->largest), load_relaxed(&all->smallest), load_relaxed(&all->lost), load_relaxed(&all->listed)};
}

// Of that, what says whether a factor fits so far.
__device__ __forceinline__ Range extent_of(const Range* all) {
    return {load_relaxed(&all->largest), SCALED ? load_relaxed(&all->smallest) : 0};
}

// What is known of factors before they are multiplied.
struct RangeCheck {
    bool in_range = true;     // whether parts represent the factors, for all that is known before products are summed
    float least = 0.0f;  // sums smaller than this may have lost too much: 2^-22 of themselves. 0 where none may

    RangeCheck() = default;

    // Of sums of k products. What an element loses that is too small is 2^-50 of its square's largest, or without scales 2^-134; six
    // parts of a product that underflow, less than 2^-123. adds_c: whether C is read, where results may go: sums that lose too
    // much, or are not finite, would be found when it is no longer there, so there may be none.
    __device__ __forceinline__ RangeCheck(const Range& a, const Range& b, int k, bool adds_c) {
        const bool sums_fit = a.most() + b.most() + 2 + (32 - __clz(k)) < 127;
        const bool underflows = a.least() + b.least() < Range::FIRST_PRODUCT;
        const float most_of_a = __uint_as_float(a.largest), most_of_b = __uint_as_float(b.largest);
        in_range = a.fits() && b.fits() && sums_fit;
        if constexpr (SCALED) {
            const float lost = a.lost + b.lost;
            in_range &= !underflows;
            least = lost == 0.0f ? 0.0f : lost * 0x1p-28f * most_of_a * most_of_b;
        } else {
            const float lost = (a.least() < Range::FIRST ? most_of_b : 0.0f) + (b.least() < Range::FIRST ? most_of_a : 0.0f);
            least = k * (lost * 0x1p-112f + (underflows ? 0x1p-101f : 0.0f));
        }
        in_range &= k * most_of_a * most_of_b >= least;  // else all sums are too small
        in_range &= !adds_c || (least == 0.0f && a.listed + b.listed == 0);
    }

    // Of sums that are made of these and of others.
    __device__ __forceinline__ void add(const RangeCheck& others) {
        in_range &= others.in_range;
        least += others.least;
    }
};

// Whether one of a lane's sums (mma.cuh) is smaller than `least`, as they lie from an element of D on that has `rows` and `cols` up
// to the last.
template <typename Sum_, int COUNT>
__device__ __forceinline__ bool sums_too_small(const Sum_ (&sums)[COUNT], float least, int lane, int rows, int cols) {
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
