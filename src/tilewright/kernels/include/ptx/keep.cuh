// Hints to the compiler, which change no result.
#pragma once

// Has the compiler keep a value in a register: what it can compute again it else does, at every step of a loop.
__device__ __forceinline__ void keep(int& value) { asm volatile("" : "+r"(value)); }
__device__ __forceinline__ void keep(unsigned& value) { asm volatile("" : "+r"(value)); }
template <typename T>
__device__ __forceinline__ void keep(const T*& pointer) {
    asm volatile("" : "+l"(pointer));
}

// Tells the compiler that the lanes of a warp are together again after branches of their own, as at the edges of a matrix:
// else it compiles what follows, the next tile's loop, for lanes that are apart, with more instructions and registers.
__device__ __forceinline__ void reconverge() { __syncwarp(); }
