// A word with the compiler.
#pragma once

// Has the compiler keep a value in a register: what it can compute again it else does, at every step of a loop.
__device__ __forceinline__ void keep(int& value) { asm volatile("" : "+r"(value)); }
