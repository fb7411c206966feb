// Hints that memory will be read soon, which change nothing on the emulator.
#pragma once

__forceinline__ void prefetch_to_l2(const void*) {}
