// Waiting for work that other blocks of the grid have begun, and count when it is done. Only for what running blocks do: one
// that has not begun may have no place to run on before those that wait have ended.
#pragma once

// Returns when the count is as large; what was written before it was counted (writes, __threadfence, atomicAdd) is there then
// for this thread.
__device__ __forceinline__ void wait_for_count(const unsigned* count, unsigned least) {
    unsigned now;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
    } while (now < least);
}
