#include "block_runner.hpp"

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "cluster.hpp"
#include "faults.hpp"
#include "messages.hpp"
#include "stamp.hpp"

namespace simt {
namespace {

bool is_block_barrier(Operation operation) { return operation <= Operation::grid_sync; }

bool is_of_warpgroup(Operation operation) {
    return Operation::multiply_async <= operation && operation <= Operation::setmaxnreg_inc;
}

bool is_reduction(Operation operation) {
    return Operation::reduce_add <= operation && operation <= Operation::reduce_xor;
}

bool is_shuffle(Operation operation) {
    return Operation::shuffle <= operation && operation <= Operation::shuffle_xor;
}

unsigned bit(unsigned lane) { return 1u << lane; }

}  // namespace

bool same_location(const Call& a, const Call& b) {
    return a.operation == b.operation && a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// Backwards: steps of -1. Shuffled: steps that have no factor in common with the count, so that they meet all.
Order::Order(std::uint64_t schedule, std::uint64_t count) : count_(count) {
    if (schedule == 0 || count < 2) return;
    if (schedule == 1) {
        first_ = step_ = count - 1;
        return;
    }
    std::mt19937_64 random(schedule);
    first_ = random() % count;
    do {
        step_ = random() % count;
    } while (std::gcd(step_, count) != 1);
}

BlockRunner::BlockRunner() : stacks_(this) {}

void BlockRunner::prepare(const Launch& launch, const std::atomic<bool>& stop, Cluster& cluster, unsigned rank,
                          void* dynamic_shared) {
    stop_ = &stop;
    cluster_ = &cluster;
    launch_ = launch;
    observer_ = launch.observer;
    checker_ = observed() ? observer_->checker() : nullptr;
    static_shared_ = SharedSegment(reinterpret_cast<void*>(launch.call));

    block_.threads = launch.threads;
    block_.grid = launch.grid;
    block_.dynamic_shared = dynamic_shared;
    block_.rank = rank;
    block_.cluster = launch.cooperative ? 1 : unsigned(launch.cluster);

    const unsigned count = launch.threads.x * launch.threads.y * launch.threads.z;
    order_ = Order(launch.schedule, count);
    threads_.assign(count, GpuThread{});
    warps_.clear();
    for (unsigned first = 0; first < count; first += WARP_SIZE) {
        warps_.push_back({&threads_[first], first / WARP_SIZE});
    }
    warpgroups_.assign((count + WARPGROUP_SIZE - 1) / WARPGROUP_SIZE, {});
    for (unsigned first = 0; first < count; first += WARPGROUP_SIZE) {
        warpgroups_[first / WARPGROUP_SIZE].threads = &threads_[first];
        warpgroups_[first / WARPGROUP_SIZE].size = std::min(count - first, WARPGROUP_SIZE);
    }
    for (unsigned i = 0; i < count; ++i) {
        GpuThread& thread = threads_[i];
        thread.index = {i % launch.threads.x, i / launch.threads.x % launch.threads.y,
                        i / launch.threads.x / launch.threads.y};
        thread.lane = i % WARP_SIZE;
        thread.number = i;
        thread.actor = rank * ACTORS + i;
        thread.block = &block_;
        thread.runner = this;
        thread.warp = &warps_[i / WARP_SIZE];
    }
}

void BlockRunner::run_ready() {
    hand_over(main_);
    if (no_memory_) throw std::bad_alloc();
}

void BlockRunner::end(bool complete) {
    if (ended() && complete) {
        check_that_copies_arrived();
        end_stores();
        check_that_products_ended();
    } else if (!ended()) {
        abandon();
    }
    if (observed()) observer_->end_block(block_);
}

void BlockRunner::begin(std::uint64_t number, bool chosen) {
    const dim3& grid = launch_.grid;
    block_.index = {unsigned(number % grid.x), unsigned(number / grid.x % grid.y), unsigned(number / grid.x / grid.y)};
    block_.chosen = chosen;
    if (const std::size_t guards = static_shared_.guards; static_shared_.bytes != 0) {
        std::memset(static_cast<unsigned char*>(static_shared_.data) + guards, POISON, static_shared_.bytes - guards);
    }
    std::memset(block_.dynamic_shared, POISON, launch_.dynamic_shared_bytes);
    for (Warp& warp : warps_) {
        const auto lanes = std::min<std::size_t>(threads_.data() + threads_.size() - warp.threads, WARP_SIZE);
        warp.live = 0xffffffff >> (WARP_SIZE - lanes);
        warp.passed = 0;
    }
    for (Warpgroup& group : warpgroups_) group.begin_block(registers_of_thread(threads_.size()));
    free_registers_ = 0;
    increasing_.clear();
    begun_ = 0;
    returned_ = 0;
    passed_ = 0;
    polls_ = 0;
    mbarriers_.forget();
    named_barriers_ = {};
    error_.clear();
    if (observed()) observer_->begin_block(block_);
}

// The life of a fiber: it begins threads while there are any, and rests when others should go on.
void BlockRunner::run_threads() {
    Fiber* const self = entered_;
    try {
        run_threads_on(self);
    } catch (const std::bad_alloc&) {
        no_memory_ = true;
    }
    Context::switch_to(self->context, main_);
    __builtin_unreachable();
}

void BlockRunner::run_threads_on(Fiber* self) {
    for (;;) {
        while (can_begin() && ready_.empty() && !*stop_) {
            GpuThread& thread = threads_[order_[begun_++]];
            thread.fiber = self;
            thread.polled = thread.polls = thread.waits_at_barriers = thread.tests = 0;
            thread.tested = nullptr;
            thread.copies.forget();
            thread.stores.forget();
            current_ = &thread;
            launch_.call(launch_.arguments);
            ++returned_;
            if (observed()) observer_->thread_returned(thread);
            leave(*thread.warp, thread.lane);
            if (arrived_ != 0 && all_have_arrived()) open_barrier();
            if (cluster_->leave() && observed()) observer_->cluster_barrier(cluster_->barrier_call());
        }
        idle_.push_back(self);
        hand_over(self->context);
    }
}

// Goes on with a thread that is ready, else on a fiber that begins another, else in `run`.
void BlockRunner::hand_over(Context& from) {
    if (*stop_) {
        if (&from != &main_) Context::switch_to(from, main_);  // a launch may stop before `run_ready` has entered a fiber
    } else if (!ready_.empty()) {
        current_ = ready_.pop();
        if (!ready_.empty()) ready_.front()->fiber->context.prefetch();  // soon its turn
        Context::switch_to(from, current_->fiber->context);
    } else if (can_begin()) {
        if (idle_.empty()) {
            fibers_.push_back({{}, stacks_.end(fibers_.size())});
            fibers_.back().context.prepare(fibers_.back().stack_end, Stacks::SIZE, [] { runner()->run_threads(); });
            idle_.push_back(&fibers_.back());
        }
        entered_ = idle_.back();
        idle_.pop_back();
        Context::switch_to(from, entered_->context);
    } else {
        Context::switch_to(from, main_);
    }
}

void BlockRunner::suspend(GpuThread* self, const Call& call) {
    self->call = call;
    self->waits = true;
    hand_over(self->fiber->context);
    self->waits = false;
}

int BlockRunner::block_barrier(GpuThread* self, const Call& call, int predicate) {
    if (arrived_ == 0) barrier_call_ = call;
    // Threads that wait at different calls wait for ever: the barrier opens when all have arrived at the same.
    if (same_location(call, barrier_call_)) {
        predicates_ += predicate != 0;
        ++arrived_;
        if (all_have_arrived()) {
            open_barrier();
            return outcome_;
        }
        at_barrier_.push(self);
    }
    suspend(self, call);
    return outcome_;
}

void BlockRunner::open_barrier() {
    outcome_ = predicates_;
    predicates_ = 0;
    arrived_ = 0;
    ++passed_;
    ready_.take_all(at_barrier_);
    if (observed()) observer_->block_barrier(block_, barrier_call_);
}

// Blocks that run now count on, each on a thread of the host.
void BlockRunner::wait_for_count(GpuThread* self, const unsigned* count, unsigned least) {
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least) {
        if (*stop_) hand_over(self->fiber->context);
        if (launch_.takes_turns) {  // all blocks are on this thread
            ++polls_;
            yield(self);
        } else {
            std::this_thread::yield();
        }
    }
}

void BlockRunner::yield(GpuThread* self) {
    yielded_.push(self);
    hand_over(self->fiber->context);
}

bool BlockRunner::go_on_with_yielded() {
    ready_.take_all(yielded_);
    return !ready_.empty();
}

std::uint64_t BlockRunner::warp_exchange(GpuThread* self, const Call& call, unsigned mask, std::uint64_t value,
                                         unsigned source, SimtWarpWork work) {
    if (!(mask & bit(self->lane))) {
        fail(call, " with the mask " + hexadecimal(mask) + ", which leaves out its own lane " +
             std::to_string(self->lane));
    }
    self->mask = mask;
    self->value = value;
    self->source = source;
    self->work = work;
    if (call.operation == Operation::activemask) {
        suspend(self, call);
        return self->result;
    }
    Warp& warp = *self->warp;
    auto sync = std::find_if(warp.syncs.begin(), warp.syncs.end(), [&](const WarpSync& other) {
        return other.call.operation == call.operation && other.mask == mask &&
               (work == nullptr || same_location(other.call, call));
    });
    if (sync == warp.syncs.end()) sync = warp.syncs.insert(sync, {call, mask, 0});
    sync->arrived |= bit(self->lane);
    if (sync->arrived == (mask & warp.live)) {
        const WarpSync full = *sync;
        warp.syncs.erase(sync);
        complete(warp, full, self);
    } else {
        suspend(self, call);
    }
    return self->result;
}

namespace {

unsigned equal_lanes(const Warp& warp, const WarpSync& sync, std::uint64_t value) {
    unsigned equal = 0;
    for (unsigned lanes = sync.arrived; lanes != 0; lanes &= lanes - 1) {
        const unsigned lane = __builtin_ctz(lanes);
        if (warp.threads[lane].value == value) equal |= bit(lane);
    }
    return equal;
}

}  // namespace

// Gives every lane that came its result, and lets all but `self`, which runs, go on.
void BlockRunner::complete(Warp& warp, const WarpSync& sync, const GpuThread* self) {
    if (sync.call.operation == Operation::syncwarp) ++warp.passed;
    if (observed()) observer_->warp_exchange(warp, sync.arrived, sync.call);
    if (warp.threads[__builtin_ctz(sync.arrived)].work != nullptr) act_together(warp, sync);
    unsigned ballot = 0;
    for (unsigned lanes = sync.arrived; lanes != 0; lanes &= lanes - 1) {
        const unsigned lane = __builtin_ctz(lanes);
        if (warp.threads[lane].value != 0) ballot |= bit(lane);
    }
    const std::int64_t total = is_reduction(sync.call.operation) ? combined(warp, sync) : 0;
    for (unsigned lanes = sync.arrived; lanes != 0; lanes &= lanes - 1) {
        GpuThread& thread = warp.threads[__builtin_ctz(lanes)];
        switch (sync.call.operation) {
            case Operation::vote_all: thread.result = ballot == sync.arrived; break;
            case Operation::vote_any: thread.result = ballot != 0; break;
            case Operation::ballot: thread.result = ballot; break;
            case Operation::match_any: thread.result = equal_lanes(warp, sync, thread.value); break;
            case Operation::match_all: {
                const unsigned equal = equal_lanes(warp, sync, thread.value);
                thread.result = equal == sync.arrived ? equal : 0;
                break;
            }
            default:
                if (is_reduction(sync.call.operation)) {
                    thread.result = std::uint64_t(total);
                    break;
                }
                thread.result = shuffled(warp, sync, thread);
        }
        if (&thread != self) ready_.push(&thread);
    }
}

// What a thread gets by a shuffle, or by an operation without values.
std::uint64_t BlockRunner::shuffled(const Warp& warp, const WarpSync& sync, const GpuThread& thread) {
    if (sync.arrived & bit(thread.source)) return warp.threads[thread.source].value;
    if (is_shuffle(sync.call.operation) && observed()) observer_->lane_absent(thread, sync.call, thread.source);
    return launch_.absent_lanes;
}

// What a reduction makes of the values of the lanes that came.
std::int64_t BlockRunner::combined(const Warp& warp, const WarpSync& sync) {
    unsigned lanes = sync.arrived;
    auto total = std::int64_t(warp.threads[__builtin_ctz(lanes)].value);
    while ((lanes &= lanes - 1) != 0) {
        const auto value = std::int64_t(warp.threads[__builtin_ctz(lanes)].value);
        switch (sync.call.operation) {
            case Operation::reduce_min: total = std::min(total, value); break;
            case Operation::reduce_max: total = std::max(total, value); break;
            case Operation::reduce_and: total &= value; break;
            case Operation::reduce_or: total |= value; break;
            case Operation::reduce_xor: total ^= value; break;
            default: total += value;
        }
    }
    return total;
}

void BlockRunner::act_together(const Warp& warp, const WarpSync& sync) {
    if (sync.arrived != 0xffffffff) {
        fail(sync.call, ", which takes all 32 lanes of a warp, and the lanes " +
             hexadecimal(sync.arrived) + " have arrived: the others have returned or never were");
    }
    void* arguments[WARP_SIZE];
    for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
        arguments[lane] = reinterpret_cast<void*>(warp.threads[lane].value);
    }
    const char* const reason = warp.threads[0].work(arguments);
    if (reason != nullptr) fail(sync.call, std::string(" with ") + reason);
}

// A lane that has returned is waited for no longer.
void BlockRunner::leave(Warp& warp, unsigned lane) {
    warp.live &= ~bit(lane);
    for (std::size_t i = 0; i < warp.syncs.size();) {
        const WarpSync sync = warp.syncs[i];
        if (sync.arrived == (sync.mask & warp.live)) {
            warp.syncs.erase(warp.syncs.begin() + i);
            complete(warp, sync, nullptr);
        } else {
            ++i;
        }
    }
}

// When no thread can go on, lanes of a warp at the same __activemask have arrived together as far as they ever will.
bool BlockRunner::resolve_active_masks() {
    const auto asks = [](const GpuThread& thread) {
        return thread.waits && thread.call.operation == Operation::activemask;
    };
    for (GpuThread& thread : threads_) {
        if (!asks(thread)) continue;
        thread.result = 0;
        for (unsigned lanes = thread.warp->live; lanes != 0; lanes &= lanes - 1) {
            const GpuThread& other = thread.warp->threads[__builtin_ctz(lanes)];
            if (asks(other) && same_location(thread.call, other.call)) thread.result |= bit(other.lane);
        }
        ready_.push(&thread);
    }
    return !ready_.empty();
}

// The block cannot go on, because of what the running thread called for.
void BlockRunner::fail(const Call& call, const std::string& how) {
    stop_block(Stop::misuse, 0, call, "calls " + describe(call) + how);
}

void BlockRunner::trap(const char* expression, const char* file, int line) {
    stop_block(Stop::misuse, 0, {Operation::none, file, line},
               std::string("stops at ") + expression + " (" + place(file, line) + ")");
}

void BlockRunner::misaligned(const MisalignedAccess& access, std::uintptr_t address) {
    stop_block(Stop::misaligned, address, {Operation::none, access.file, int(access.line)},
               "uses the address " + hexadecimal(address) + " for " + access.type->name +
                   ", which must be at a multiple of " + std::to_string(1 << access.log_alignment) + " bytes (" +
                   place(access.file, access.line) + ")");
}

void BlockRunner::overrun(const Overrun& access, std::intptr_t index) {
    stop_block(Stop::overrun, 0, {Operation::none, access.file, int(access.line)},
               "uses index " + std::to_string(index) + " of " + access.array + ", which is " + access.type->name + " (" +
                   place(access.file, access.line) + ")");
}

void BlockRunner::divided_by_zero(const CheckedLocation& at) {
    stop_block(Stop::division, 0, {Operation::none, at.file, int(at.line)},
               "divides by zero (" + place(at.file, at.line) + ")");
}

void BlockRunner::overflowed(const CheckedLocation& at, const char* before, std::uintptr_t first, const char* between,
                             std::uintptr_t second) {
    if (!observed()) return;
    const unsigned unused = 64 - (1u << (at.type->info >> 1));  // of a value's bits
    const auto text = [&](std::uintptr_t value) { return std::to_string(std::int64_t(value << unused) >> unused); };
    std::string type = at.type->name;
    type.erase(std::remove(type.begin(), type.end(), '\''), type.end());
    const std::string operation = before + text(first) + (*between != 0 ? between + text(second) : "");
    observer_->overflowed(*current_, {Operation::none, at.file, int(at.line)}, operation + " beyond the range of " + type);
}

void BlockRunner::wrapped(const std::string& operation, std::uintptr_t site) {
    if (observed()) observer_->wrapped(*current_, site, operation + " beyond the range of unsigned for an index");
}

void BlockRunner::stop_block(Stop reason, std::uintptr_t address, const Call& call, const std::string& what) {
    error_ = "in block " + describe(block_.index) + " thread " + describe(current_->index) + " " + what;
    if (observed()) observer_->stopped(reason, *current_, address, call, error_);
    Context::switch_to(current_->fiber->context, main_);
    __builtin_unreachable();
}

void BlockRunner::stop_if_in_kernel(int signal, std::uintptr_t code, std::uintptr_t stack) {
    const auto in_kernel = [&](std::uintptr_t address) {
        return address - static_shared_.library < static_shared_.library_bytes;
    };
    if (current_ == nullptr || !stacks_.hold(stack) || (signal == FaultGuard::END && !in_kernel(code))) return;
    // In a function that the kernel has called, the place is the call's: the first address of the kernel's code on the stack.
    std::uintptr_t site = code + 1;
    if (!in_kernel(code)) {
        constexpr std::size_t MOST = 512;
        const auto* word = reinterpret_cast<const std::uintptr_t*>(stack / sizeof(void*) * sizeof(void*));
        const auto* const end = std::min(word + MOST, reinterpret_cast<const std::uintptr_t*>(current_->fiber->stack_end));
        word = std::find_if(word, end, in_kernel);
        if (word == end) return;
        site = *word;
    }
    const bool overflowed = stack < reinterpret_cast<std::uintptr_t>(current_->fiber->stack_end) - Stacks::SIZE;
    stacks_.mend(this);
    error_ = "in block " + describe(block_.index) + " thread " + describe(current_->index) +
             (signal == FaultGuard::END ? " does not end" : overflowed ? " overflows its stack" : " crashes");
    observer_->ended(signal == FaultGuard::END, overflowed, *current_, site);
    Context::switch_to(current_->fiber->context, main_);
}

std::string BlockRunner::deadlock() const {
    std::map<std::pair<int, std::string>, std::size_t> waiting;  // by line
    for (const GpuThread& thread : threads_) {
        if (!thread.waits) continue;
        std::string where = describe(thread.call);
        if (thread.call.operation == Operation::barrier_wait) {
            where += ", where " + thread.barrier->missing();
        } else if (thread.call.operation == Operation::setmaxnreg_inc) {
            where += missing_registers(thread);
        } else if (thread.call.operation == Operation::sync_named) {
            where += missing_at_named(thread);
        } else if (!is_block_barrier(thread.call.operation) && !is_of_warpgroup(thread.call.operation)) {
            where += " with the mask " + hexadecimal(thread.mask);
        }
        ++waiting[{thread.call.line, where}];
    }
    std::string message = "in block " + describe(block_.index) + " threads wait for others that never come: ";
    for (const auto& [place, count] : waiting) {
        message += count_of_threads(count) + (count == 1 ? " waits at " : " wait at ") + place.second + ", ";
    }
    return message + count_of_threads(returned_) + (returned_ == 1 ? " has returned" : " have returned");
}

// alone: whether other blocks have not begun, which may be what it waits for.
void BlockRunner::report_polling(bool alone) {
    const GpuThread& first = *yielded_.front();
    error_ = "in block " + describe(block_.index) + " thread " + describe(first.index) + " waits for memory to change, " +
             (alone ? "and blocks run one after the other" : "and nobody changes it");
    if (observed() && !alone) observer_->polls_for_ever(first);
}

void BlockRunner::report_deadlock(const std::string& message) {
    error_ = message;
    const auto first = std::find_if(threads_.begin(), threads_.end(), [](const GpuThread& one) { return one.waits; });
    if (observed() && first != threads_.end()) observer_->stopped(Stop::deadlock, *first, 0, first->call, error_);
}

// Forgets the threads that have not returned.
void BlockRunner::abandon() {
    ready_.clear();
    yielded_.clear();
    at_barrier_.clear();
    at_cluster_barrier_.clear();
    arrived_ = 0;
    predicates_ = 0;
    for (GpuThread& thread : threads_) thread.waits = false;
    for (Warp& warp : warps_) warp.syncs.clear();
    idle_.clear();
    for (Fiber& fiber : fibers_) {
        fiber.context.prepare(fiber.stack_end, Stacks::SIZE, [] { runner()->run_threads(); });
        idle_.push_back(&fiber);
    }
}

}  // namespace simt

// What kernels call: see abi.hpp.

const simt::Thread* simt_thread() { return simt::runner()->current(); }

int simt_block_barrier(const simt::Thread* self, simt::Call call, int predicate) {
    auto* thread = static_cast<simt::GpuThread*>(const_cast<simt::Thread*>(self));
    return thread->runner->block_barrier(thread, call, predicate);
}

void simt_wait_for_count(const simt::Thread* self, simt::Call, const unsigned* count, unsigned least) {
    auto* thread = static_cast<simt::GpuThread*>(const_cast<simt::Thread*>(self));
    thread->runner->wait_for_count(thread, count, least);
}

std::uint64_t simt_warp_exchange(const simt::Thread* self, simt::Call call, unsigned mask, std::uint64_t value,
                                 unsigned source) {
    auto* thread = static_cast<simt::GpuThread*>(const_cast<simt::Thread*>(self));
    return thread->runner->warp_exchange(thread, call, mask, value, source);
}

void simt_warp_together(const simt::Thread* self, simt::Call call, void* argument, SimtWarpWork work) {
    auto* thread = static_cast<simt::GpuThread*>(const_cast<simt::Thread*>(self));
    thread->runner->warp_exchange(thread, call, 0xffffffff, reinterpret_cast<std::uintptr_t>(argument), 0, work);
}

void simt_yield(const simt::Thread* self) {
    auto* thread = static_cast<simt::GpuThread*>(const_cast<simt::Thread*>(self));
    thread->runner->yield(thread);
}

void simt_trap(const char* expression, const char* file, int line) { simt::runner()->trap(expression, file, line); }

int simt_printf(const char* format, ...) {
    va_list values;
    va_start(values, format);
    const int written = std::vprintf(format, values);
    va_end(values);
    return written;
}

long simt_clock() noexcept {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void* simt_memcpy(void* to, const void* from, std::size_t bytes) noexcept { return std::memcpy(to, from, bytes); }
void* simt_memmove(void* to, const void* from, std::size_t bytes) noexcept { return std::memmove(to, from, bytes); }
void* simt_memset(void* to, int value, std::size_t bytes) noexcept { return std::memset(to, value, bytes); }
int simt_memcmp(const void* one, const void* other, std::size_t bytes) noexcept { return std::memcmp(one, other, bytes); }

// Called by code compiled with -fsanitize=alignment, in place of the sanitizer's own library, before a misaligned access.
SIMT_EXPORT void __ubsan_handle_type_mismatch_v1_abort(const simt::MisalignedAccess* access, std::uintptr_t address) {
    simt::runner()->misaligned(*access, address);
}

// The same of -fsanitize=bounds. It returns where the checker knows the memory, and sees the access itself.
SIMT_EXPORT void __ubsan_handle_out_of_bounds(const simt::Overrun* access, std::intptr_t index) {
    if (access->array != nullptr) simt::runner()->overrun(*access, index);
}

// The same of -fsanitize=integer-divide-by-zero, and of quotients that -fsanitize=signed-integer-overflow finds.
SIMT_EXPORT void __ubsan_handle_divrem_overflow(const simt::CheckedLocation* at, std::uintptr_t a, std::uintptr_t b) {
    if (b == 0) simt::runner()->divided_by_zero(*at);
    simt::runner()->overflowed(*at, "", a, " / ", b);
}

// The same of the other operations. They return, and the code goes on with the low bits of the result.
SIMT_EXPORT void __ubsan_handle_add_overflow(const simt::CheckedLocation* at, std::uintptr_t a, std::uintptr_t b) {
    simt::runner()->overflowed(*at, "", a, " + ", b);
}
SIMT_EXPORT void __ubsan_handle_sub_overflow(const simt::CheckedLocation* at, std::uintptr_t a, std::uintptr_t b) {
    simt::runner()->overflowed(*at, "", a, " - ", b);
}
SIMT_EXPORT void __ubsan_handle_mul_overflow(const simt::CheckedLocation* at, std::uintptr_t a, std::uintptr_t b) {
    simt::runner()->overflowed(*at, "", a, " * ", b);
}
SIMT_EXPORT void __ubsan_handle_negate_overflow(const simt::CheckedLocation* at, std::uintptr_t value) {
    simt::runner()->overflowed(*at, "-", value, "", 0);
}

// Called by code that is compiled with index.hpp.
SIMT_EXPORT void simt_wrapped(const char* before, long long a, const char* between, long long b) {
    const std::string second = *between == ')' ? "" : std::to_string(b);
    simt::runner()->wrapped(before + std::to_string(a) + between + second,
                            reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
}
