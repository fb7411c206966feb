// What code compiled with -fsanitize=thread calls at every access of memory: in place of the sanitizer's library.
//
// A launch without an observer goes through them too if its kernel is so compiled; they then do nothing.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "block_runner.hpp"
#include "cluster.hpp"
#include "usual_access.hpp"

#define HOOK SIMT_EXPORT
#define SITE reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))

namespace simt {

// Whether it is in the block's own shared memory, and where.
inline __attribute__((always_inline)) bool BlockRunner::in_shared(std::uintptr_t address, Space& space, std::size_t& offset) const {
    space = Space::static_shared;
    offset = address - reinterpret_cast<std::uintptr_t>(static_shared_.data);
    if (offset < static_shared_.bytes) return true;
    space = Space::dynamic_shared;
    offset = address - reinterpret_cast<std::uintptr_t>(block_.dynamic_shared);
    return offset < launch_.dynamic_shared_bytes;
}

inline __attribute__((always_inline)) bool BlockRunner::is_usual_input(std::uintptr_t address, std::uint32_t bytes) const {
    return checker_ != nullptr && checker_->is_usual_input(current_->actor, address, bytes);
}

inline __attribute__((always_inline)) void BlockRunner::access_shared(std::uintptr_t address, std::uint32_t bytes, AccessKind kind,
                                                                      std::uintptr_t site, bool is_volatile, Space space,
                                                                      std::size_t offset) {
    if (space == Space::static_shared && offset < static_shared_.guards) return;
    if (is_usual(address, bytes, kind, site, is_volatile, space, offset)) return;
    observer_->access({*current_, site, address, bytes, kind, space, offset, block_, is_volatile});
    stop_if_refused();
}

inline __attribute__((always_inline)) bool BlockRunner::is_usual(std::uintptr_t address, std::uint32_t bytes, AccessKind kind,
                                                                 std::uintptr_t site, bool is_volatile, Space space,
                                                                 std::size_t offset) {
    if (checker_ == nullptr || is_atomic(kind) || is_volatile) return false;
    return checker_->access_usual(current_->actor, site, address, bytes, kind == AccessKind::read, space, offset);
}

// Of memory that is not the block's own shared memory.
void BlockRunner::access_elsewhere(std::uintptr_t address, std::uint32_t bytes, AccessKind kind, std::uintptr_t site,
                                   bool is_volatile) {
    if (const Cluster::Place place = cluster_->place(address); place.block != nullptr) {
        const Block& block = place.block->block();
        observer_->access({*current_, site, address, bytes, kind, place.space, place.offset, block, is_volatile});
    } else if (!is_own(address)) {
        if (is_usual(address, bytes, kind, site, is_volatile, Space::global, 0)) return;
        observer_->access({*current_, site, address, bytes, kind, Space::global, 0, block_, is_volatile});
    } else if (is_atomic(kind) || is_volatile) {
        observer_->relaxed_in_library(*current_, address, kind != AccessKind::read);
    }
    stop_if_refused();
}

// Whether it is in the objects behind threadIdx and its like, or a constant in the kernel's library.
inline bool BlockRunner::is_own(std::uintptr_t address) const {
    const auto within = [&](const void* begin, std::size_t size) {
        return address - reinterpret_cast<std::uintptr_t>(begin) < size;
    };
    return within(threads_.data(), threads_.size() * sizeof(GpuThread)) || within(this, sizeof *this) ||
           address - static_shared_.library < static_shared_.library_bytes;
}

void BlockRunner::fragment(const GpuThread& self, const Call& call, const FragmentAccess& access) {
    if (!observed() || Stacks::hold_here(access.address)) return;
    observer_->fragment(*self.warp, call, access);
    stop_if_refused();
}

void BlockRunner::fence(const GpuThread& self) {
    if (observed()) observer_->fence(self);
}

void BlockRunner::grid_dependency_wait(const GpuThread& self) {
    if (observed()) observer_->grid_dependency_waited(self);
}

// Looks at memory, which has not changed since the thread's last look: what it waits for, others may do meanwhile.
void BlockRunner::poll(std::uintptr_t address, std::uintptr_t site) {
    GpuThread& self = *current_;
    self.polls = self.polled == address ? self.polls + 1 : 0;
    self.polled = address;
    self.poll_site = site;
    ++polls_;
    if (self.polls >= PATIENCE) yield(&self);
}

void BlockRunner::stop_if_refused() {
    if (__builtin_expect(!observer_->refusal.empty(), 0)) {
        error_ = observer_->refusal;
        Context::switch_to(current_->fiber->context, main_);
        __builtin_unreachable();
    }
}

namespace {

using simt::number;

// Of a size that is known, or another (0) that is given.
template <std::size_t BYTES, AccessKind KIND, bool VOLATILE>
__attribute__((noinline)) void observe_shared(std::uintptr_t address, std::size_t bytes, std::uintptr_t site, Space space,
                                              std::size_t offset) {
    runner()->access_shared(address, BYTES ? BYTES : bytes, KIND, site, VOLATILE, space, offset);
}

template <std::size_t BYTES, AccessKind KIND, bool VOLATILE>
__attribute__((noinline)) void observe_elsewhere(std::uintptr_t address, std::size_t bytes, std::uintptr_t site) {
    runner()->access_elsewhere(address, BYTES ? BYTES : bytes, KIND, site, VOLATILE);
}

// What takes more registers is in functions of their own, so that none need be saved for reads of inputs.
template <std::size_t BYTES, AccessKind KIND, bool VOLATILE>
__attribute__((noinline)) void observe(std::uintptr_t address, std::size_t bytes, std::uintptr_t site) {
    Space space;
    std::size_t offset;
    if (runner()->in_shared(address, space, offset)) {
        return observe_shared<BYTES, KIND, VOLATILE>(address, bytes, site, space, offset);
    }
    if (KIND == AccessKind::read && !VOLATILE && runner()->is_usual_input(address, BYTES ? BYTES : bytes)) return;
    observe_elsewhere<BYTES, KIND, VOLATILE>(address, bytes, site);
}

// What all kernels go through, observed or not: the rest is out of line, so that no registers need be saved here.
template <std::size_t BYTES, AccessKind KIND, bool VOLATILE = false>
inline __attribute__((always_inline)) void access(const void* address, std::uintptr_t site, std::size_t bytes = BYTES) {
    if (Stacks::hold_here(number(address))) return;
    BlockRunner* const here = runner();
    if (is_atomic(KIND)) here->take_turn();
    if (KIND == AccessKind::write) here->has_written();
    if (__builtin_expect(here->observed(), 0)) observe<BYTES, KIND, VOLATILE>(number(address), bytes, site);
}

template <std::size_t BYTES>
inline __attribute__((always_inline)) void volatile_read(const void* address, std::uintptr_t site) {
    runner()->poll(number(address), site);
    access<BYTES, AccessKind::read, true>(address, site);
}

// An atomic operation has been carried out.
inline void updated(const volatile void* address, bool changed, std::uintptr_t site) {
    if (!changed) return runner()->poll(number(address), site);
    if (!Stacks::hold_here(number(address))) runner()->has_written();
}

template <typename T>
bool compare_exchange(volatile T* address, T* expected, T value, std::uintptr_t site) {
    access<sizeof(T), AccessKind::atomic>(const_cast<T*>(address), site);
    const T before = *expected;
    const bool equal = __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    updated(address, equal && value != before, site);
    return equal;
}

}  // namespace
}  // namespace simt

void simt_fragment(const simt::Thread* self, simt::Call call, const void* address, std::size_t lines,
                   std::size_t line_bytes, std::size_t stride, unsigned element_bytes, unsigned lane_bytes, int writes) {
    const auto& thread = static_cast<const simt::GpuThread&>(*self);
    const std::uintptr_t first = simt::number(address);
    simt::Space space;
    std::size_t offset;
    if (!thread.runner->in_shared(first, space, offset)) space = simt::Space::global;
    thread.runner->fragment(thread, call,
                            {first, lines, line_bytes, std::ptrdiff_t(stride), element_bytes, lane_bytes,
                             writes ? simt::AccessKind::write : simt::AccessKind::read, space});
}

void simt_grid_dependency_wait(const simt::Thread* self) {
    const auto& thread = static_cast<const simt::GpuThread&>(*self);
    thread.runner->grid_dependency_wait(thread);
}

// The names are the sanitizer's.

HOOK void __tsan_init() {}
HOOK void __tsan_func_entry(void*) {}
HOOK void __tsan_func_exit() {}
HOOK void __tsan_vptr_update(void**, void*) {}
HOOK void __tsan_vptr_read(void**) {}

#define SIMT_ACCESSES(bytes)                                                                                        \
    HOOK void __tsan_read##bytes(const void* p) { simt::access<bytes, simt::AccessKind::read>(p, SITE); }           \
    HOOK void __tsan_write##bytes(void* p) { simt::access<bytes, simt::AccessKind::write>(p, SITE); }               \
    HOOK void __tsan_unaligned_read##bytes(const void* p) { simt::access<bytes, simt::AccessKind::read>(p, SITE); } \
    HOOK void __tsan_unaligned_write##bytes(void* p) { simt::access<bytes, simt::AccessKind::write>(p, SITE); }     \
    HOOK void __tsan_volatile_read##bytes(const void* p) { simt::volatile_read<bytes>(p, SITE); }                   \
    HOOK void __tsan_volatile_write##bytes(void* p) { simt::access<bytes, simt::AccessKind::write, true>(p, SITE); }\
    HOOK void __tsan_read_write##bytes(void* p) {                                                                   \
        simt::access<bytes, simt::AccessKind::read>(p, SITE);                                                       \
        simt::access<bytes, simt::AccessKind::write>(p, SITE);                                                      \
    }                                                                                                               \
    HOOK void __tsan_unaligned_read_write##bytes(void* p) {                                                         \
        simt::access<bytes, simt::AccessKind::read>(p, SITE);                                                       \
        simt::access<bytes, simt::AccessKind::write>(p, SITE);                                                      \
    }
SIMT_ACCESSES(1)
SIMT_ACCESSES(2)
SIMT_ACCESSES(4)
SIMT_ACCESSES(8)
SIMT_ACCESSES(16)
#undef SIMT_ACCESSES

HOOK void __tsan_read_range(void* p, std::size_t bytes) { simt::access<0, simt::AccessKind::read>(p, SITE, bytes); }
HOOK void __tsan_write_range(void* p, std::size_t bytes) { simt::access<0, simt::AccessKind::write>(p, SITE, bytes); }

HOOK void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
    simt::access<0, simt::AccessKind::read>(from, SITE, bytes);
    simt::access<0, simt::AccessKind::write>(to, SITE, bytes);
    return std::memcpy(to, from, bytes);
}

HOOK void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
    simt::access<0, simt::AccessKind::read>(from, SITE, bytes);
    simt::access<0, simt::AccessKind::write>(to, SITE, bytes);
    return std::memmove(to, from, bytes);
}

HOOK void* __tsan_memset(void* to, int value, std::size_t bytes) {
    simt::access<0, simt::AccessKind::write>(to, SITE, bytes);
    return std::memset(to, value, bytes);
}

// Of the atomic operations, those that atomics.hpp is made of. A load is the begin of one that a compare-exchange ends.

#define SIMT_UPDATE(bits, T, name, function, kind)                                                                   \
    HOOK T __tsan_atomic##bits##_##name(volatile T* p, T value, int) {                                               \
        simt::access<sizeof(T), simt::AccessKind::kind>(const_cast<T*>(p), SITE);                                    \
        const T old = function(p, value, __ATOMIC_SEQ_CST);                                                          \
        simt::updated(p, *p != old, SITE);                                                                           \
        return old;                                                                                                  \
    }
#define SIMT_ATOMICS(bits, T)                                                                                        \
    HOOK T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }     \
    SIMT_UPDATE(bits, T, exchange, __atomic_exchange_n, exchange)                                                    \
    SIMT_UPDATE(bits, T, fetch_add, __atomic_fetch_add, atomic)                                                      \
    SIMT_UPDATE(bits, T, fetch_sub, __atomic_fetch_sub, atomic)                                                      \
    SIMT_UPDATE(bits, T, fetch_and, __atomic_fetch_and, atomic)                                                      \
    SIMT_UPDATE(bits, T, fetch_or, __atomic_fetch_or, atomic)                                                        \
    SIMT_UPDATE(bits, T, fetch_xor, __atomic_fetch_xor, atomic)                                                      \
    HOOK T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T value, int, int) {                \
        simt::compare_exchange(p, &expected, value, SITE);                                                           \
        return expected;                                                                                             \
    }                                                                                                                \
    HOOK int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T value, int, int) {          \
        return simt::compare_exchange(p, expected, value, SITE);                                                     \
    }                                                                                                                \
    HOOK int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T value, int, int) {            \
        return simt::compare_exchange(p, expected, value, SITE);                                                     \
    }
SIMT_ATOMICS(16, std::uint16_t)
SIMT_ATOMICS(32, std::uint32_t)
SIMT_ATOMICS(64, std::uint64_t)
#undef SIMT_ATOMICS
#undef SIMT_UPDATE

HOOK void __tsan_atomic_signal_fence(int) {}
HOOK void __tsan_atomic_thread_fence(int) {
    simt::BlockRunner* const here = simt::runner();
    const auto* const self = static_cast<const simt::GpuThread*>(here->current());
    here->fence(*self);
    here->poll(self->polled, SITE);  // a loop may read plain memory, and fence so that it is read again
    here->take_turn();
}
