#include "faults.hpp"

#include <ucontext.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "block_runner.hpp"

namespace simt {
namespace {

thread_local BlockRunner* running = nullptr;

std::mutex mutex;  // of what follows
unsigned guards = 0;
std::map<int, struct sigaction> before;  // what signals did

// Where the interrupted code was, and its stack pointer.
std::pair<std::uintptr_t, std::uintptr_t> interrupted(const void* context) {
    const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return {std::uintptr_t(machine.gregs[REG_RIP]), std::uintptr_t(machine.gregs[REG_RSP])};
#elif defined(__aarch64__)
    return {machine.pc, machine.sp};
#else
    return {};
#endif
}

void handle(int signal, siginfo_t*, void* context) {
    const auto [code, stack] = interrupted(context);
    if (running != nullptr) running->stop_if_in_kernel(signal, code, stack);
    if (signal != FaultGuard::END) sigaction(signal, &before[signal], nullptr);  // it happens again, and has its usual effect
}

}  // namespace

FaultGuard::FaultGuard() : stack_(new char[STACK_BYTES]) {
    stack_t stack{};
    stack.ss_sp = stack_.get();
    stack.ss_size = STACK_BYTES;
    sigaltstack(&stack, &before_);
    {
        std::lock_guard<std::mutex> lock(mutex);
        if (guards++ == 0) {
            struct sigaction action{};
            action.sa_sigaction = handle;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
            sigemptyset(&action.sa_mask);
            for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, END}) sigaction(signal, &action, &before[signal]);
        }
    }
    // Only now: this thread may have been told to end before it had begun.
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, END);
    pthread_sigmask(SIG_UNBLOCK, &end, nullptr);
}

FaultGuard::~FaultGuard() {
    {
        std::lock_guard<std::mutex> lock(mutex);
        if (--guards == 0) {
            for (const auto& [signal, action] : before) {
                if (signal != END) sigaction(signal, &action, nullptr);  // of END some may be in flight
            }
        }
    }
    running = nullptr;
    sigaltstack(&before_, nullptr);
}

void FaultGuard::runs(BlockRunner* block) { running = block; }

}  // namespace simt
