// Numbers of threads and blocks along x, read anew where they are asked for: what follows from them takes no register before.
#pragma once

// threadIdx.x
__device__ __forceinline__ unsigned thread_index() {
    unsigned index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

// blockIdx.x
__device__ __forceinline__ unsigned block_index() {
    unsigned index;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
    return index;
}

// gridDim.x
__device__ __forceinline__ unsigned block_count() {
    unsigned count;
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(count));
    return count;
}
