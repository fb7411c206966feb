// libcu++'s barriers in shared memory on the emulator, with copies that they wait for: as in the CUDA C++ Programming Guide,
// "Asynchronous Barrier" and "Tensor Memory Access". Copies of cuda::memcpy_async come when their thread arrives, and not before.
#pragma once

#include <utility>

#include "cuda_memcpy_async.hpp"
#include "inline_ptx.hpp"

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <thread_scope Scope>
class barrier {
  public:
    using arrival_token = unsigned long long;  // the parity of the phase

    [[nodiscard]] arrival_token arrive(std::ptrdiff_t count = 1, SIMT_LOCATION) { return arrive_with(count, 0, file, line); }
    void wait(arrival_token&& token, SIMT_LOCATION) const { wait_parity(token, file, line); }
    void wait_parity(bool parity, SIMT_LOCATION) const {
        simt_barrier_wait(simt_thread(), {simt::Operation::barrier_wait, file, line}, &state_, parity);
    }
    bool try_wait_parity(bool parity, SIMT_LOCATION) const {
        return simt_barrier_test(simt_thread(), {simt::Operation::barrier_wait, file, line}, &state_, parity);
    }
    bool try_wait(arrival_token&& token, SIMT_LOCATION) const { return try_wait_parity(token, file, line); }
    void arrive_and_wait(SIMT_LOCATION) { wait(arrive(1, file, line), file, line); }
    static constexpr std::ptrdiff_t max() { return (1 << 20) - 1; }

    friend void init(barrier* self, std::ptrdiff_t expected, SIMT_LOCATION) {
        simt_barrier_init(simt_thread(), {simt::Operation::barrier_init, file, line}, &self->state_, unsigned(expected));
    }

    // No part of CUDA's class.
    arrival_token arrive_with(std::ptrdiff_t count, unsigned bytes, const char* file, int line) {
        simt_wait_copies_at(simt_thread(), &state_);
        const unsigned address = simt_shared_address(simt_thread(), &state_);
        return simt_barrier_arrive_by(simt_thread(), {simt::Operation::barrier_arrive, file, line}, address, unsigned(count), bytes);
    }
    unsigned long long* state() { return &state_; }

  private:
    mutable unsigned long long state_;
};

template <thread_scope Scope>
void memcpy_async(void* to, const void* from, std::size_t bytes, barrier<Scope>& at, SIMT_LOCATION) {
    simt::copy_together(to, from, bytes, 0, 1, {simt::Operation::copy_async, file, line}, at.state());
}

template <typename Group, thread_scope Scope>
void memcpy_async(const Group& group, void* to, const void* from, std::size_t bytes, barrier<Scope>& at, SIMT_LOCATION) {
    simt::copy_together(to, from, bytes, group.thread_rank(), group.size(), {simt::Operation::copy_async, file, line}, at.state());
}

namespace device {

using block_barrier = barrier<thread_scope_block>;

inline unsigned long long* barrier_native_handle(block_barrier& of) { return of.state(); }

[[nodiscard]] inline block_barrier::arrival_token barrier_arrive_tx(block_barrier& at, std::ptrdiff_t count, std::ptrdiff_t bytes,
                                                                    SIMT_LOCATION) {
    return at.arrive_with(count, unsigned(bytes), file, line);
}

inline void barrier_expect_tx(block_barrier& at, std::ptrdiff_t bytes, SIMT_LOCATION) { (void)barrier_arrive_tx(at, 0, bytes, file, line); }

template <typename Size>
void memcpy_async_tx(void* to, const void* from, Size bytes, block_barrier& at, SIMT_LOCATION) {
    simt_load_bytes(simt_thread(), {simt::Operation::load_tile, file, line, "cp.async.bulk"}, to, from, unsigned(bytes), at.state());
}

namespace experimental {

inline void fence_proxy_async_shared_cta() { simt_fence_async_shared(simt_thread()); }
inline void cp_async_bulk_commit_group() { simt_commit_tiles(simt_thread()); }
template <int PENDING>
void cp_async_bulk_wait_group_read() {
    simt_wait_tiles(simt_thread(), PENDING, false);
}
inline void cp_async_bulk_global_to_shared(void* to, const void* from, unsigned bytes, block_barrier& at, SIMT_LOCATION) {
    simt_load_bytes(simt_thread(), {simt::Operation::load_tile, file, line, "cp.async.bulk"}, to, from, bytes, at.state());
}
inline void cp_async_bulk_shared_to_global(void* to, const void* from, unsigned bytes, SIMT_LOCATION) {
    simt_store_bytes(simt_thread(), {simt::Operation::store_tile_async, file, line, "cp.async.bulk"}, to, from, bytes);
}

#define SIMT_TILES(name, parameters, ...)                                                                                       \
    inline void cp_async_bulk_tensor_##name##_global_to_shared(void* to, const CUtensorMap* map, parameters, block_barrier& at, \
                                                               SIMT_LOCATION) {                                                    \
        const simt::Call call = {simt::Operation::load_tile, file, line, "cp.async.bulk.tensor." #name};                        \
        simt_load_tile(simt_thread(), call, to, simt::ptx::in_map(call, (unsigned long long)map, __VA_ARGS__), at.state());     \
    }                                                                                                                           \
    inline void cp_async_bulk_tensor_##name##_shared_to_global(const CUtensorMap* map, parameters, const void* from, SIMT_LOCATION) { \
        const simt::Call call = {simt::Operation::store_tile_async, file, line, "cp.async.bulk.tensor." #name};                 \
        simt_store_tile(simt_thread(), call, simt::ptx::in_map(call, (unsigned long long)map, __VA_ARGS__), from);              \
    }
#define SIMT_COMMA ,
SIMT_TILES(1d, int a, a)
SIMT_TILES(2d, int a SIMT_COMMA int b, a, b)
SIMT_TILES(3d, int a SIMT_COMMA int b SIMT_COMMA int c, a, b, c)
SIMT_TILES(4d, int a SIMT_COMMA int b SIMT_COMMA int c SIMT_COMMA int d, a, b, c, d)
SIMT_TILES(5d, int a SIMT_COMMA int b SIMT_COMMA int c SIMT_COMMA int d SIMT_COMMA int e, a, b, c, d, e)
#undef SIMT_COMMA
#undef SIMT_TILES

}  // namespace experimental
}  // namespace device
}  // namespace cuda
