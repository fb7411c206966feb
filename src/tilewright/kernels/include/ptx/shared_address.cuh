// Addresses in shared memory as PTX instructions take them: 32 bits, counted from the start of the block's own memory.
#pragma once

__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
