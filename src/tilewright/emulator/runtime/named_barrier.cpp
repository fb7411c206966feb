// What a block's named barriers do: see named_barrier.hpp.

#include <string>

#include "block_runner.hpp"

namespace simt {

void BlockRunner::named_barrier(GpuThread* self, const Call& call, int number, unsigned threads, bool waits) {
    if (number < 1 || number >= NamedBarrier::COUNT) {
        fail(call, " with the number " + std::to_string(number) + ", which must be 1 to " +
             std::to_string(NamedBarrier::COUNT - 1) + ": 0 is that of __syncthreads");
    }
    NamedBarrier& barrier = named_barriers_[number];
    if (barrier.arrived == 0) barrier.threads = threads;
    if (barrier.threads != threads) {
        fail(call, " for " + std::to_string(threads) + " threads at barrier " + std::to_string(number) + ", to which " +
             std::to_string(barrier.arrived) + " have come for " + std::to_string(barrier.threads));
    }
    if (observed()) observer_->named_arrived(*self, &barrier);
    ++barrier.arrived;
    if (waits) barrier.waiting.push_back(self);
    if (barrier.arrived < threads) {
        self->value = number;
        if (waits) suspend(self, call);
        return;
    }
    barrier.arrived = 0;
    if (barrier.waiting.size() == threads_.size()) ++passed_;  // the whole block has synced
    if (observed()) observer_->phase_ended(&barrier);
    for (GpuThread* thread : barrier.waiting) {
        if (observed()) observer_->barrier_passed(*thread, call, &barrier);
        if (thread != self) ready_.push(thread);
    }
    barrier.waiting.clear();
}

std::string BlockRunner::missing_at_named(const GpuThread& thread) const {
    const NamedBarrier& barrier = named_barriers_[thread.value];
    return ", where " + std::to_string(barrier.arrived) + " of " + std::to_string(barrier.threads) +
           " threads have come to barrier " + std::to_string(thread.value);
}

}  // namespace simt

// What named_barrier.cuh's PTX becomes: see abi.hpp.

void simt_named_barrier(const simt::Thread* self, simt::Call call, int number, unsigned threads, bool waits) {
    simt::GpuThread* const thread = static_cast<simt::GpuThread*>(const_cast<simt::Thread*>(self));
    thread->runner->named_barrier(thread, call, number, threads, waits);
}
