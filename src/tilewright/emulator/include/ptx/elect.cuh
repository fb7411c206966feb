#pragma once

// Lanes come together, but nothing that they have stored is ordered by that.
__forceinline__ bool elect_one() {
    const unsigned lane = threadIdx.x % 32;
    return __shfl_sync(0xffffffff, lane, 0) == lane;
}
