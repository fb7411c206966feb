// Moving registers from some warps of a block to others (setmaxnreg; sm_90a). All warps of a warp group, four in a row,
// call it together. A block starts with equal shares: those who compute can only take what those who copy have given.
#pragma once

// From now on this thread uses at most N registers.
template <int N>
__device__ __forceinline__ void setmaxnreg_dec() {
    static_assert(N % 8 == 0 && 24 <= N && N <= 256, "a register count is a multiple of 8 from 24 to 256");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// From now on this thread may use N registers; waits until they are free.
template <int N>
__device__ __forceinline__ void setmaxnreg_inc() {
    static_assert(N % 8 == 0 && 24 <= N && N <= 256, "a register count is a multiple of 8 from 24 to 256");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
