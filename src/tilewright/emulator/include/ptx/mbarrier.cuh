// Barriers in shared memory on the emulator: the runtime keeps their counts, exactly, and `state` says which it is.
#pragma once

struct Barrier {
    unsigned long long state;
};

__forceinline__ void barrier_init(Barrier* barrier, unsigned count, SIMT_PLACE) {
    simt_barrier_init(simt_thread(), {simt::Operation::barrier_init, file, line}, &barrier->state, count);
}

__forceinline__ void fence_barrier_init() { simt_fence_barriers(simt_thread()); }

__forceinline__ void barrier_arrive(Barrier* barrier, SIMT_PLACE) {
    simt_barrier_arrive(simt_thread(), {simt::Operation::barrier_arrive, file, line}, &barrier->state, 0);
}

__forceinline__ void barrier_expect_bytes(Barrier* barrier, unsigned bytes, SIMT_PLACE) {
    simt_barrier_arrive(simt_thread(), {simt::Operation::barrier_expect_bytes, file, line}, &barrier->state, bytes);
}

__forceinline__ void barrier_wait(Barrier* barrier, unsigned parity, SIMT_PLACE) {
    simt_barrier_wait(simt_thread(), {simt::Operation::barrier_wait, file, line}, &barrier->state, parity);
}
