#pragma once

__forceinline__ unsigned thread_index() { return threadIdx.x; }
__forceinline__ unsigned block_index() { return blockIdx.x; }
__forceinline__ unsigned block_count() { return gridDim.x; }
