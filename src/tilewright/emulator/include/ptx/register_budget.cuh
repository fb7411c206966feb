// Moving registers between warpgroups on the emulator: each block has the registers that it has on a GPU, and the runtime counts them.
#pragma once

template <int N>
__forceinline__ void give_registers(SIMT_PLACE) {
    static_assert(N % 8 == 0 && 24 <= N && N <= 256, "a register count is a multiple of 8 from 24 to 256");
    simt_give_registers(simt_thread(), {simt::Operation::give_registers, file, line}, N);
}

template <int N>
__forceinline__ void take_registers(SIMT_PLACE) {
    static_assert(N % 8 == 0 && 24 <= N && N <= 256, "a register count is a multiple of 8 from 24 to 256");
    simt_take_registers(simt_thread(), {simt::Operation::take_registers, file, line}, N);
}
