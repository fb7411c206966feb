// One thread of a warp, elected by it (elect.sync; sm_90 and newer).
//
// What follows is then known to be one thread's: numbers that are the same in all of the warp stay in its uniform registers, where
// the copy engine takes them from. After `if (threadIdx.x == 0)` they do not, and each load becomes a loop over the threads.
#pragma once

// True in one thread of a warp, the same every time. All 32 call it together.
__device__ __forceinline__ bool elect_one() {
    unsigned elected;
    asm volatile(
        "{\n"
        ".reg .pred elected;\n"
        "elect.sync _|elected, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, elected;\n"
        "}"
        : "=r"(elected));
    return elected != 0;
}
