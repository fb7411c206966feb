// A launch whose work another may have done: it looks when it begins, so that the host need not know.
#pragma once

#include <dependent_launch.cuh>

// Whether there is nothing to do, as a launch before has found. skip: null where there always is.
// Every thread calls it before anything else.
__device__ __forceinline__ bool is_skipped(const unsigned* skip) {
    if (skip == nullptr) return false;
    wait_for_grid_before();
    return *skip != 0;
}
