#pragma once

__forceinline__ bool elect_one() {
    __syncwarp();
    return threadIdx.x % 32 == 0;
}
