// Asynchronous copies on the emulator: data come when their thread waits for them, and not before.
#pragma once

template <int BYTES>
__forceinline__ void copy_async(void* shared, const void* global, bool inside, SIMT_PLACE) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
    simt_copy_async(simt_thread(), {simt::Operation::copy_async, file, line}, shared, global, BYTES,
                    inside ? BYTES : 0);
}

__forceinline__ void copy_async_first(void* shared, const void* global, int bytes, SIMT_PLACE) {
    simt_copy_async(simt_thread(), {simt::Operation::copy_async_first, file, line}, shared, global, 16, bytes);
}

__forceinline__ void commit_copies() { simt_commit_copies(simt_thread()); }

template <int PENDING>
__forceinline__ void wait_copies() {
    simt_wait_copies(simt_thread(), PENDING);
}
