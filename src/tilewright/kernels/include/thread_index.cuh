// threadIdx.x, read anew where it is asked for: what follows from it takes no register before.
#pragma once

__device__ __forceinline__ unsigned thread_index() {
    unsigned index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}
