// Waiting for other blocks on the emulator: those that run are on other threads of the host.
#pragma once

__forceinline__ void wait_for_count(const unsigned* count, unsigned least, SIMT_LOCATION) {
    simt_wait_for_count(simt_thread(), {simt::Operation::wait_for_count, file, line}, count, least);
    atomicAdd(const_cast<unsigned*>(count), 0);  // it orders what other blocks did before, as an atomic operation does
}
