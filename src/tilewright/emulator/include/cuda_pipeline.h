// The pipeline primitives on the emulator, which are copies by cp.async (CUDA C++ Programming Guide, "Pipeline Primitives
// Interface").
#pragma once

__forceinline__ void __pipeline_memcpy_async(void* shared, const void* global, std::size_t bytes, std::size_t zeros = 0, SIMT_LOCATION) {
    simt_copy_async(simt_thread(), {simt::Operation::copy_async, file, line}, shared, global, unsigned(bytes), unsigned(bytes - zeros));
}

__forceinline__ void __pipeline_commit() { simt_commit_copies(simt_thread()); }

__forceinline__ void __pipeline_wait_prior(std::size_t pending) { simt_wait_copies(simt_thread(), unsigned(pending)); }
