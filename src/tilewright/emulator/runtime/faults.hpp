// Stops a kernel that is checked where the processor faults in it, or where it is told to end and does not: with a finding that names the
// thread and the line, in the place of a process that ends.
#pragma once

#include <csignal>
#include <memory>

namespace simt {

class BlockRunner;

// On a thread of the host, while this lives: what the blocks that it runs do wrong ends their launch.
class FaultGuard {
  public:
    static constexpr int END = SIGUSR2;  // tells such a thread to stop, where the kernel's own code is running

    FaultGuard();
    ~FaultGuard();
    FaultGuard(const FaultGuard&) = delete;
    FaultGuard& operator=(const FaultGuard&) = delete;

    // Which block the calling thread runs from now on.
    static void runs(BlockRunner* block);

  private:
    static constexpr std::size_t STACK_BYTES = 64 * 1024;

    std::unique_ptr<char[]> stack_;  // of the handlers: a fiber's own may have overflowed
    stack_t before_;
};

}  // namespace simt
