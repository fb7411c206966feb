// Fibers: functions that run on stacks of their own and hand the processor to one another.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

// Switching in assembly takes half as long as in C, and kernels with many barriers spend most of their time switching.
#if defined(__x86_64__) && !defined(SIMT_PORTABLE_FIBERS)
#define SIMT_ASSEMBLY_FIBERS
#else
#include <setjmp.h>
#include <ucontext.h>
#endif

namespace simt {

// Where a fiber, or the host's thread itself, stopped running.
class Context {
  public:
    // Makes the next switch to this context call `entry`, which never returns, on the stack that ends at `end`.
    void prepare(char* end, std::size_t size, void (*entry)());

    static void switch_to(Context& from, Context& to);

    // Loads what the next switch to this context reads into the cache.
    void prefetch() const;

  private:
#ifdef SIMT_ASSEMBLY_FIBERS
    void* stack_pointer_ = nullptr;
#else
    ucontext_t fresh_;
    jmp_buf stopped_;
    bool started_ = true;
#endif
};

#ifdef SIMT_ASSEMBLY_FIBERS

// Saves what the calling convention has a function preserve, and the place it returns to.
extern "C" void simt_switch_stacks(void** from, void* to);
asm(R"(
    .text
    .type simt_switch_stacks, @function
simt_switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size simt_switch_stacks, . - simt_switch_stacks
)");

inline void Context::prepare(char* end, std::size_t, void (*entry)()) {
    constexpr int SAVED_REGISTERS = 6;
    void** top = reinterpret_cast<void**>(reinterpret_cast<std::size_t>(end) & ~std::size_t{15});
    *--top = nullptr;  // the return address of entry, so that it finds its stack aligned as after a call
    *--top = reinterpret_cast<void*>(entry);
    stack_pointer_ = top - SAVED_REGISTERS;
}

inline void Context::switch_to(Context& from, Context& to) {
    simt_switch_stacks(&from.stack_pointer_, to.stack_pointer_);
}

inline void Context::prefetch() const {
    __builtin_prefetch(stack_pointer_);
    __builtin_prefetch(static_cast<char*>(stack_pointer_) + 64);
}

#else

inline void Context::prepare(char* end, std::size_t size, void (*entry)()) {
    getcontext(&fresh_);
    fresh_.uc_stack.ss_sp = end - size;
    fresh_.uc_stack.ss_size = size;
    fresh_.uc_link = nullptr;
    makecontext(&fresh_, entry, 0);
    started_ = false;
}

// setcontext makes a system call, so it only enters fibers; _setjmp and _longjmp do not.
inline void Context::switch_to(Context& from, Context& to) {
    if (_setjmp(from.stopped_)) return;
    if (to.started_) _longjmp(to.stopped_, 1);
    to.started_ = true;
    setcontext(&to.fresh_);
}

inline void Context::prefetch() const { __builtin_prefetch(&stopped_); }

#endif

// Stacks for the threads of one block. Memory is reserved for all, and used as each is first needed.
//
// It begins at a multiple of its size, and first in it is a pointer to its owner. So code that runs on one of the stacks knows the
// owner by its stack pointer, for less than a thread-local variable costs.
class Stacks {
  public:
    static constexpr std::size_t SIZE = 64 * 1024;
    static constexpr std::size_t MOST = 1024;

    explicit Stacks(void* owner) {
        void* const memory =
            mmap(nullptr, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "no memory for stacks");
        char* const begin = static_cast<char*>(memory);
        memory_ = begin + (-reinterpret_cast<std::size_t>(begin) & (BYTES - 1));
        if (memory_ != begin) munmap(begin, memory_ - begin);
        munmap(memory_ + BYTES, begin + BYTES - memory_);
#ifdef MADV_NOHUGEPAGE
        madvise(memory_, BYTES, MADV_NOHUGEPAGE);  // a huge page would make every stack cost its full size
#endif
        *reinterpret_cast<void**>(memory_) = owner;
    }
    ~Stacks() { munmap(memory_, BYTES); }
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;

    // Of the stacks of which the caller runs on one: their owner; whether an address is in them.
    static void* owner_here() { return *reinterpret_cast<void**>(begin_here()); }
    static bool hold_here(std::size_t address) { return address - begin_here() < BYTES; }

    // Whether this is a stack pointer of one of them, or of one that has overflowed by not much; then the owner may be overwritten.
    bool hold(std::size_t address) const { return address - (number() - SIZE) < BYTES + SIZE; }
    void mend(void* owner) { *reinterpret_cast<void**>(memory_) = owner; }

    // Where a stack, which grows down, begins.
    char* end(std::size_t index) const { return memory_ + FIRST + index * STRIDE + SIZE; }

  private:
    // Not a power of two: the parts of the stacks that are in use fall into different sets of the caches.
    static constexpr std::size_t STRIDE = SIZE + 4096 + 5 * 64;
    static constexpr std::size_t FIRST = 4096;
    static constexpr std::size_t BYTES = std::size_t{1} << 27;
    static_assert(FIRST + MOST * STRIDE <= BYTES);

    std::size_t number() const { return reinterpret_cast<std::size_t>(memory_); }
    static std::size_t begin_here() {
        std::size_t here;
#ifdef __x86_64__
        asm("movq %%rsp, %0" : "=r"(here));
#else
        here = reinterpret_cast<std::size_t>(__builtin_frame_address(0));
#endif
        return here & ~(BYTES - 1);
    }

    char* memory_;
};

}  // namespace simt
