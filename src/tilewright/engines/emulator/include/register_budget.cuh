// Moving registers between warps: on the emulator every thread has all that its code needs.
#pragma once

template <int N>
__forceinline__ void give_registers() {
    static_assert(N % 8 == 0 && 24 <= N && N <= 256, "a register count is a multiple of 8 from 24 to 256");
}

template <int N>
__forceinline__ void take_registers() {
    static_assert(N % 8 == 0 && 24 <= N && N <= 256, "a register count is a multiple of 8 from 24 to 256");
}
