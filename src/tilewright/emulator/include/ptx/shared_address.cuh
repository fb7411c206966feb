// Addresses in shared memory on the emulator: its block has a window of its own, as on a GPU, whose addresses are as
// far past multiples of 1024 as the host's.
#pragma once

__forceinline__ unsigned shared_address(const void* shared) { return simt_shared_address(simt_thread(), shared); }
