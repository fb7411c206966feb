// Runs one block at a time, its threads as fibers on one thread of the host; with others of its cluster in turns (cluster.hpp).
//
// The runner begins thread after thread. One that must wait, at a barrier or for other lanes of its warp, hands over to a
// thread that can go on, or, if there is none, to a fiber that begins the next thread; one that returns lets its fiber
// begin the next. So a kernel without barriers runs as a plain loop over its threads. When no thread can go on and some
// have not returned, they wait for something that never comes: that is reported, and the block abandoned.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "abi.hpp"
#include "async_copies.hpp"
#include "fiber.hpp"
#include "mbarriers.hpp"
#include "named_barrier.hpp"
#include "observer.hpp"
#include "shared_segment.hpp"
#include "tensor_cores.hpp"
#include "wgmma.hpp"

namespace simt {

// What to run; Python has the same struct.
struct Launch {
    void (*call)(void** arguments);
    void** arguments;
    dim3 grid;
    dim3 threads;
    std::uint64_t dynamic_shared_bytes;
    Observer* observer;  // or null; with one, a single worker runs all blocks
    std::uint64_t schedule;  // 0: threads and blocks in their order, 1: backwards, else shuffled by this seed
    const std::uint64_t* chosen;  // numbers of the blocks to run, or null: all
    std::uint64_t chosen_count;
    std::uint64_t cluster;  // blocks of one, in a row along x; grid.x is a multiple of it
    std::uint64_t cooperative;  // whether these are all of the grid, which run together, and no cluster
    std::uint64_t takes_turns;  // whether threads let others go on before each atomic operation, and behind each fence
    std::uint64_t absent_lanes;  // what shuffles get from lanes that take no part, of which GPUs say nothing
};

// The order in which things begin that have no order, as a schedule has it.
class Order {
  public:
    Order(std::uint64_t schedule, std::uint64_t count);

    std::uint64_t operator[](std::uint64_t turn) const { return (first_ + turn * step_) % count_; }

  private:
    std::uint64_t count_, first_ = 0, step_ = 1;
};

class BlockRunner;
class Cluster;
struct Warp;

struct Fiber {
    Context context;
    char* stack_end;
};

struct GpuThread : Thread {
    unsigned number;  // in its block
    unsigned actor;   // the same for observers of a cluster: see stamp.hpp
    BlockRunner* runner;
    Warp* warp;
    Fiber* fiber;     // on which it was begun
    GpuThread* next;  // in a Queue
    bool waits;
    Call call;  // at which it waits; what follows belongs to it where it is a warp operation
    unsigned mask;
    unsigned source;
    SimtWarpWork work;  // null but for an operation that a warp does together
    std::uint64_t value;
    std::uint64_t result;
    AsyncCopies copies;
    TileStores stores;
    const Mbarrier* barrier;  // at which it waits, where it does so in barrier_wait
    const Mbarrier* tested;   // at which it has found last that a phase had not ended, which was ...
    std::uint64_t tested_phase;
    std::uint64_t tests;      // of that kind, since it has waited for one
    std::uint64_t cluster_phase;  // of the cluster, which it waits for, where it does so in cluster_sync
    std::uint64_t waits_at_barriers;  // calls of barrier_wait since its warp synced, which was when ...
    std::array<std::uint64_t, 3> synced;  // ... its block, warp and cluster had passed this many barriers
    std::uintptr_t polled, poll_site;  // what it has looked at last, and from where: 0 where `call` says it
    std::uint64_t polls;               // times that it has found the same there, one after the other
};

// Threads in order of arrival. A thread is in one queue at most.
class Queue {
  public:
    Queue() = default;
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    bool empty() const { return first_ == nullptr; }
    const GpuThread* front() const { return first_; }

    void push(GpuThread* thread) {
        thread->next = nullptr;
        *last_ = thread;
        last_ = &thread->next;
    }

    GpuThread* pop() {
        GpuThread* thread = first_;
        first_ = thread->next;
        if (first_ == nullptr) last_ = &first_;
        return thread;
    }

    // Moves all of another queue to the end of this one.
    void take_all(Queue& other) {
        if (other.empty()) return;
        *last_ = other.first_;
        last_ = other.last_;
        other.clear();
    }

    void clear() {
        first_ = nullptr;
        last_ = &first_;
    }

  private:
    GpuThread* first_ = nullptr;
    GpuThread** last_ = &first_;
};

// Lanes of a warp that have arrived at one operation with one mask; to one call, where they are to act together.
struct WarpSync {
    Call call;
    unsigned mask;
    unsigned arrived;
};

struct Warp {
    GpuThread* threads;  // lane 0 and those after it
    unsigned number;     // in its block
    unsigned live = 0;   // lanes that have not returned
    std::vector<WarpSync> syncs = {};
    std::uint64_t passed = 0;  // __syncwarps
};

// Whether two calls are the same one in the source.
bool same_location(const Call& a, const Call& b);

// What the compiler says of what -fsanitize checks; the layout is the sanitizer's.
struct CheckedLocation {
    const char* file;
    std::uint32_t line, column;
    const struct {
        std::uint16_t kind, info;
        char name[64];  // in quotes
    }* type;
};
struct MisalignedAccess : CheckedLocation {
    unsigned char log_alignment;
};
struct Overrun : CheckedLocation {
    const char* array;  // of which an element is taken, as the source has it; null: not of this check (subscripts.py)
};

class BlockRunner {
  public:
    BlockRunner();
    BlockRunner(const BlockRunner&) = delete;
    BlockRunner& operator=(const BlockRunner&) = delete;

    // To be called on the thread of the host that is to run the blocks: the kernel's static shared memory is its own.
    void prepare(const Launch& launch, const std::atomic<bool>& stop, Cluster& cluster, unsigned rank, void* dynamic_shared);

    // Runs the block of this number, counted along x first: begin, then run_ready whenever there is something to do, until it
    // has ended, something went wrong, or nothing comes any more (`wake`), then end.
    void begin(std::uint64_t number, bool chosen);
    void run_ready();
    bool has_work() const { return !ready_.empty() || can_begin(); }
    bool wake() { return resolve_active_masks() || complete_loads(); }
    bool ended() const { return returned_ == threads_.size(); }

    // Threads that have let others go on, and may now themselves; how often they have since looked at memory that nobody changed.
    bool go_on_with_yielded();
    std::uint64_t polls() const { return yielded_.empty() ? 0 : polls_; }
    bool has_yielded() const { return !yielded_.empty(); }
    void report_polling(bool alone);
    std::string deadlock() const;  // what its threads wait for
    void report_deadlock(const std::string& message);
    void end(bool complete);  // whether its cluster has run until nothing more could come
    const std::string& error() const { return error_; }
    const Block& block() const { return block_; }
    const SharedSegment& static_shared() const { return static_shared_; }

    // What a barrier of the cluster does to the block.
    void join_cluster_barrier(GpuThread* self) { at_cluster_barrier_.push(self); }
    void pass_cluster_barrier() {
        ++passed_;
        ready_.take_all(at_cluster_barrier_);
    }

    // See abi.hpp.
    const Thread* current() const { return current_; }
    int block_barrier(GpuThread* self, const Call& call, int predicate);
    std::uint64_t warp_exchange(GpuThread* self, const Call& call, unsigned mask, std::uint64_t value, unsigned source,
                                SimtWarpWork work = nullptr);
    void wait_for_count(GpuThread* self, const unsigned* count, unsigned least);
    void yield(GpuThread* self);
    void take_turn() {
        if (__builtin_expect(launch_.takes_turns != 0, 0)) yield(current_);
    }
    void poll(std::uintptr_t address, std::uintptr_t site);
    void has_written() { polls_ = current_->polls = 0; }  // what others see
    void copy_async(GpuThread* self, const CopyAccess& copy);
    void wait_copies(GpuThread* self, unsigned pending);
    void wait_copies_at(GpuThread* self, const void* barrier);
    void barrier_init(GpuThread* self, const Call& call, unsigned long long* address, unsigned count);
    void fence_barriers(GpuThread* self) { mbarriers_.fence(self); }
    void fence_async_shared(GpuThread* self) {
        mbarriers_.fence(self);
        if (observed()) observer_->fence_async(*self);
    }
    void barrier_inval(GpuThread* self, const Call& call, unsigned long long* address);
    void barrier_arrive(GpuThread* self, const Call& call, unsigned long long* address, unsigned bytes);
    unsigned barrier_arrive_by(GpuThread* self, const Call& call, unsigned address, unsigned arrivals, unsigned bytes);
    void barrier_wait(GpuThread* self, const Call& call, unsigned long long* address, unsigned parity);
    bool barrier_test(GpuThread* self, const Call& call, unsigned long long* address, unsigned parity);
    void load_tile(GpuThread* self, const TileCopy& copy, unsigned long long* address) {
        check_tile(copy);
        start_tile(self, copy, *this, address);
    }
    void load_tile_to(GpuThread* self, unsigned blocks, TileCopy copy, unsigned long long* address);
    void store_tile(GpuThread* self, TileStore store);
    void check_row(const Call& call, const void* global, unsigned bytes);
    void wait_tiles(GpuThread* self, unsigned pending, bool written);
    void cluster_sync(GpuThread* self, const Call& call);  // or the grid's, by the call
    std::uint64_t& waits_at_barriers(GpuThread& thread);
    void* in_block(const Call& call, void* shared, int rank);
    void named_barrier(GpuThread* self, const Call& call, int number, unsigned threads, bool waits);

    unsigned shared_address(const void* shared) const;
    void* in_window(const Call& call, std::uint32_t address);
    void fence_sums(const GpuThread* self);
    void multiply_async(GpuThread* self, const Call& call, const WgmmaArguments& arguments);
    void commit_products(GpuThread* self, const Call& call);
    void wait_products(GpuThread* self, const Call& call, unsigned pending);
    void setmaxnreg_dec(GpuThread* self, const Call& call, unsigned count);
    void setmaxnreg_inc(GpuThread* self, const Call& call, unsigned count);

    // Ends the launch where these bytes are not all in shared memory, or begin off such a multiple.
    void check_shared(const Call& call, const void* shared, std::size_t bytes, std::size_t alignment);
    [[noreturn]] void trap(const char* expression, const char* file, int line);
    [[noreturn]] void misaligned(const MisalignedAccess& access, std::uintptr_t address);
    [[noreturn]] void divided_by_zero(const CheckedLocation& place);
    void overflowed(const CheckedLocation& place, const char* before, std::uintptr_t first, const char* between, std::uintptr_t second);
    void wrapped(const std::string& operation, std::uintptr_t site);
    [[noreturn]] void overrun(const Overrun& access, std::intptr_t index);

    // What the handler of a signal calls (faults.hpp): where the running thread is in the kernel's code, or beyond its stack, the block
    // ends. `code` and `stack`: where it was.
    void stop_if_in_kernel(int signal, std::uintptr_t code, std::uintptr_t stack);

    // What the kernel does to memory, for the observer. See hooks.cpp.
    bool observed() const { return observer_ != nullptr; }
    bool is_usual(std::uintptr_t address, std::uint32_t bytes, AccessKind kind, std::uintptr_t site, bool is_volatile, Space space,
                  std::size_t offset);
    void access_elsewhere(std::uintptr_t address, std::uint32_t bytes, AccessKind kind, std::uintptr_t site, bool is_volatile);
    bool in_shared(std::uintptr_t address, Space& space, std::size_t& offset) const;
    bool is_shared(const void* address, std::size_t bytes) const;
    bool is_usual_input(std::uintptr_t address, std::uint32_t bytes) const;
    void access_shared(std::uintptr_t address, std::uint32_t bytes, AccessKind kind, std::uintptr_t site, bool is_volatile,
                       Space space, std::size_t offset);
    void fragment(const GpuThread& self, const Call& call, const FragmentAccess& access);
    void fence(const GpuThread& self);
    void grid_dependency_wait(const GpuThread& self);

  private:
    static constexpr std::uint64_t PATIENCE = 64;  // times that a thread looks before it lets others go on

    bool can_begin() const { return begun_ < threads_.size(); }
    // Whether the block's barrier opens. One that waits for all of a block does not wait for threads that have returned (PTX manual,
    // "exit": where those that exit are the only ones that have not arrived, "the barrier is released").
    bool all_have_arrived() const { return arrived_ == threads_.size() - returned_; }
    void open_barrier();
    void run_threads();
    void run_threads_on(Fiber* self);
    void hand_over(Context& from);
    void suspend(GpuThread* self, const Call& call);
    void complete(Warp& warp, const WarpSync& sync, const GpuThread* self);
    std::uint64_t shuffled(const Warp& warp, const WarpSync& sync, const GpuThread& thread);
    void act_together(const Warp& warp, const WarpSync& sync);
    void leave(Warp& warp, unsigned lane);
    static std::int64_t combined(const Warp& warp, const WarpSync& sync);
    bool resolve_active_masks();
    bool complete_loads();
    void check_that_copies_arrived();
    void end_stores();
    void check_tile(const TileBox& box);
    Mbarrier& usable(GpuThread* self, const Call& call, const unsigned long long* address);
    Mbarrier& usable_there(const Call& call, BlockRunner& there, const unsigned long long* address);
    BlockRunner& in_cluster(const Call& call, int rank);
    template <typename T>
    T* at_same_offset(BlockRunner& there, T* shared) const;
    void arrive(GpuThread* self, const Call& call, Mbarrier& barrier, unsigned arrivals, unsigned bytes);
    void start_tile(GpuThread* self, TileCopy copy, BlockRunner& to, unsigned long long* address);
    void end_phase(Mbarrier& barrier);
    bool is_static(const void* shared) const;
    std::uintptr_t static_window() const;
    std::uint32_t dynamic_window() const;
    const unsigned char* at_shared(std::uint32_t address, std::size_t bytes) const;
    bool warpgroup_syncs(GpuThread* self, const Call& call);
    void release_warpgroup(const GpuThread* self);
    void check_descriptor(const Call& call, const WgmmaFactor& factor, char name, unsigned sides);
    void announce(const Warpgroup& group, const WgmmaProduct& product);
    void load_factor(const WgmmaFactor& factor, unsigned sides, TensorFactor& to) const;
    void load_factor(const RegisterFactor& factor, const WgmmaProduct& product, TensorFactor& to);
    RegisterFactor register_factor(Warpgroup& group, const Call& call);
    void finish(Warpgroup& group, const WgmmaProduct& product);
    void check_that_products_ended();
    bool change_registers(GpuThread* self, const Call& call, unsigned count);
    bool has_taken(Warpgroup& group);
    std::string missing_registers(const GpuThread& thread) const;
    std::string missing_at_named(const GpuThread& thread) const;
    [[noreturn]] void fail(const Call& call, const std::string& how);
    [[noreturn]] void stop_block(Stop reason, std::uintptr_t address, const Call& call, const std::string& what);
    void stop_if_refused();
    bool is_own(std::uintptr_t address) const;
    void abandon();

    // The launch.
    const std::atomic<bool>* stop_ = nullptr;
    Launch launch_;
    Observer* observer_ = nullptr;
    Checker* checker_ = nullptr;  // the observer, if it is one
    Order order_{0, 1};  // of the block's threads
    SharedSegment static_shared_{nullptr};
    Cluster* cluster_ = nullptr;

    // The block.
    Block block_{};
    std::vector<GpuThread> threads_;
    std::vector<Warp> warps_;
    std::vector<Warpgroup> warpgroups_;
    TensorFactor of_a_, of_b_;        // of the product that is computed
    unsigned free_registers_ = 0;     // that warpgroups have given: for each thread of one warpgroup
    std::vector<Warpgroup*> increasing_;  // that wait for more than these
    std::size_t begun_ = 0;
    std::size_t returned_ = 0;
    GpuThread* current_ = nullptr;
    Queue ready_;
    Queue yielded_;  // that go on when no other of any block is ready
    std::uint64_t polls_ = 0;  // since a thread of the block has written
    std::string error_;
    bool no_memory_ = false;  // a thread has asked for some that there is not

    // The block's barrier.
    Queue at_barrier_, at_cluster_barrier_;
    Call barrier_call_;
    std::size_t arrived_ = 0;
    int predicates_ = 0;  // other than 0, of the threads that have arrived
    int outcome_ = 0;     // predicates of the last barrier that was passed
    std::uint64_t passed_ = 0;

    // Barriers in shared memory, and the tiles that count their bytes at them.
    Mbarriers mbarriers_;

    std::array<NamedBarrier, NamedBarrier::COUNT> named_barriers_;

    // The fibers.
    Context main_;
    Stacks stacks_;
    std::deque<Fiber> fibers_;
    std::vector<Fiber*> idle_;
    Fiber* entered_ = nullptr;  // the idle fiber that was handed over to
};

// The thread that headers' functions are called for.
inline GpuThread* as_gpu_thread(const Thread* self) { return static_cast<GpuThread*>(const_cast<Thread*>(self)); }

inline std::uintptr_t number(const volatile void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// Of the fiber that calls.
inline BlockRunner* runner() { return static_cast<BlockRunner*>(Stacks::owner_here()); }

}  // namespace simt
