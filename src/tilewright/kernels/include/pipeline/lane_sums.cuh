// Sums of a warp's lanes, added by exchanges of halves.
#pragma once

// How many of COUNT sums a lane keeps when lanes 16 down to NEAREST apart have added theirs: two lanes exchange halves of what
// they have while it can be halved.
//
//     lanes 16 apart    0: sums 0-7        16: sums 8-15
//            8 apart    0: sums 0-3         8: sums 4-7         16: sums 8-11     24: sums 12-15
//            4 apart    ...
template <int COUNT, int NEAREST>
__host__ __device__ constexpr int kept_sums() {
    int count = COUNT;
    for (int stride = 16; stride >= NEAREST; stride /= 2) count /= count % 2 == 0 ? 2 : 1;
    return count;
}

// Adds the sums of a warp's lanes STRIDE and less from each other, down to NEAREST. At the end a lane has kept_sums of them;
// where they cannot be halved both lanes have all.
template <int STRIDE, int NEAREST, int COUNT, typename T>
__device__ __forceinline__ void add_lanes(T* sums) {
    if constexpr (STRIDE >= NEAREST) {
        constexpr bool HALVES = COUNT % 2 == 0;
        constexpr int LEFT = HALVES ? COUNT / 2 : COUNT;
        const bool upper = HALVES && threadIdx.x & STRIDE;
#pragma unroll
        for (int i = 0; i < LEFT; ++i) {
            const T own = upper ? sums[i + COUNT - LEFT] : sums[i];
            const T other = upper ? sums[i] : sums[i + COUNT - LEFT];
            sums[i] = own + __shfl_xor_sync(0xffffffff, other, STRIDE);
        }
        add_lanes<STRIDE / 2, NEAREST, LEFT>(sums);
    }
}

// The number of the first sum that a lane keeps, or -1 where it keeps the same ones as another lane.
template <int COUNT, int NEAREST>
__device__ __forceinline__ int first_kept(int lane) {
    int first = 0, count = COUNT;
#pragma unroll
    for (int stride = 16; stride >= NEAREST; stride /= 2) {
        const bool upper = lane & stride;
        if (count % 2 == 0) {
            count /= 2;
            if (upper) first += count;
        } else if (upper) {
            return -1;
        }
    }
    return first;
}
