#pragma once

__forceinline__ unsigned thread_index() { return threadIdx.x; }
