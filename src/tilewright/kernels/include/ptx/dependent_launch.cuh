// A launch that may begin while the one before it still runs (programmatic dependent launch; sm_90 and newer).
//
// Its blocks start up on what the grid before leaves free, and wait there until that grid has ended. On older GPUs
// grids run one after the other, and there is nothing to say.
//
// Blocks wait before they touch memory, so a launch depends on whatever ran before it, of this package or not, as any launch does. Only
// kernels whose blocks need a multiprocessor for themselves (gemm_sm90, grouped_sm90, small_m), and relayout, let the next launch
// start at once: where other kernels did, its blocks collected on the multiprocessors that were free first, and small products took
// longer. For the same reason a launch of a kernel with relayouts asks for enough shared memory a block that no multiprocessor holds
// more than its part of the grid, where all blocks run at once.
#pragma once

// Waits until the grid that this one depends on has ended and all that it wrote is there, for any thread of this grid.
// Returns at once where the launch depends on none. Every grid so launched calls it in some block that does its work:
// what is launched after it, and knows only of its end, counts on the end of the grid before too.
__device__ __forceinline__ void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the grid that depends on this one start, as soon as every block of this one has called this or has ended. It
// promises nothing of what was written: the other grid waits for that.
__device__ __forceinline__ void grid_dependency_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
