// Named barriers on the emulator: the runtime counts the threads that come to each.
#pragma once

template <int THREADS>
__forceinline__ void sync_named(int barrier, SIMT_PLACE) {
    static_assert(THREADS > 0 && THREADS % 32 == 0, "whole warps come to a barrier");
    simt_named_barrier(simt_thread(), {simt::Operation::sync_named, file, line}, barrier, THREADS, true);
}

template <int THREADS>
__forceinline__ void arrive_named(int barrier, SIMT_PLACE) {
    static_assert(THREADS > 0 && THREADS % 32 == 0, "whole warps come to a barrier");
    simt_named_barrier(simt_thread(), {simt::Operation::arrive_named, file, line}, barrier, THREADS, false);
}
