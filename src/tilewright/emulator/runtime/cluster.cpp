#include "cluster.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "faults.hpp"
#include "messages.hpp"

namespace simt {
namespace {

constexpr std::size_t SHARED_ALIGNMENT = 1024;

constexpr std::uint64_t ENOUGH_POLLS = 1'000'000;  // of all blocks, with no write between them, to be sure that none comes
constexpr std::uint64_t LEAST_POLLS = 100;         // of each block

std::size_t aligned(std::size_t bytes) { return (bytes + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT; }

unsigned char* aligned_begin(std::vector<unsigned char>& memory) {
    return memory.data() + (aligned(number(memory.data())) - number(memory.data()));
}

}  // namespace

void Cluster::prepare(const Launch& launch, const std::atomic<bool>& stop) {
    stop_ = &stop;
    size_ = unsigned(launch.cluster);
    cooperative_ = launch.cooperative;
    is_all_ = size_ == std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    observer_ = launch.observer;
    order_ = Order(launch.schedule, size_);
    const unsigned threads = launch.threads.x * launch.threads.y * launch.threads.z;
    threads_ = std::size_t{size_} * threads;
    while (blocks_.size() < size_) blocks_.push_back(std::make_unique<BlockRunner>());

    // Between the blocks there is memory that is nobody's.
    stride_ = aligned(launch.dynamic_shared_bytes) + SHARED_ALIGNMENT;
    dynamic_shared_.resize(size_ * stride_ + SHARED_ALIGNMENT);
    shared_bytes_ = launch.dynamic_shared_bytes;
    shared_ = aligned_begin(dynamic_shared_);
    for (unsigned rank = 0; rank < size_; ++rank) {
        blocks_[rank]->prepare(launch, stop, *this, rank, shared_ + rank * stride_);
    }
    const SharedSegment& of_kernel = blocks_[0]->static_shared();
    running_ = 0;
    static_bytes_ = size_ > 1 ? of_kernel.bytes : 0;
    kept_stride_ = aligned(static_bytes_) + SHARED_ALIGNMENT;
    static_shared_.assign(static_bytes_ == 0 ? 0 : size_ * kept_stride_ + SHARED_ALIGNMENT, 0);
    kept_ = aligned_begin(static_shared_);
    if (launch.observer != nullptr) {
        launch.observer->begin_launch({static_cast<const unsigned char*>(of_kernel.data), of_kernel.bytes, shared_,
                                       launch.dynamic_shared_bytes, stride_, kept_, static_bytes_ == 0 ? 0 : kept_stride_,
                                       threads, size_, cooperative_, of_kernel.library});
    }
}

// The block of this rank, with its static shared memory in the place that all have.
BlockRunner& Cluster::go_on(unsigned rank) {
    BlockRunner& block = *blocks_[rank];
    FaultGuard::runs(&block);
    if (rank == running_) return block;
    if (observer_ != nullptr) observer_->goes_on(block.block());
    if (const SharedSegment& segment = block.static_shared(); segment.bytes != 0) {
        std::memcpy(kept(running_), segment.data, segment.bytes);
        std::memcpy(segment.data, kept(rank), segment.bytes);
    }
    running_ = rank;
    return block;
}

std::string Cluster::run(std::uint64_t number, const std::vector<bool>& chosen) {
    arrived_ = returned_ = passed_ = 0;
    waits_for_others_ = false;
    for (unsigned rank = 0; rank < size_; ++rank) {
        go_on(rank).begin(number * size_ + rank, chosen.empty() || chosen[rank]);
    }
    bool goes_on;
    do {
        goes_on = run_blocks();
    } while (goes_on && wake());
    goes_on = goes_on && std::all_of(blocks_.begin(), blocks_.begin() + size_, [](auto& one) { return one->error().empty(); });
    if (goes_on) check_that_all_ended();
    std::string error;
    for (unsigned rank = 0; rank < size_; ++rank) {
        BlockRunner& block = go_on(rank);
        block.end(goes_on);
        if (!block.error().empty()) error += (error.empty() ? "" : "; ") + block.error();
    }
    return error;
}

// Until none can go on; whether the launch then does.
bool Cluster::run_blocks() {
    for (bool ran = true; ran;) {
        ran = false;
        for (unsigned turn = 0; turn < size_; ++turn) {
            BlockRunner& block = *blocks_[order_[turn]];
            if (!block.has_work()) continue;
            ran = true;
            go_on(order_[turn]).run_ready();
            if (!block.error().empty() || *stop_) return false;
        }
    }
    return true;
}

// The first block whose threads wait for ever reports it for all of them.
void Cluster::check_that_all_ended() {
    BlockRunner* first = nullptr;
    std::string message;
    for (unsigned rank = 0; rank < size_; ++rank) {
        BlockRunner& block = *blocks_[rank];
        if (rank >= MOST && first != nullptr) {
            message += "; and so on";
            break;
        }
        if (rank >= MOST && block.ended()) continue;
        if (rank > 0) message += "; ";
        message += block.ended() ? "block " + describe(block.block().index) + " has ended" : block.deadlock();
        if (!block.ended() && first == nullptr) first = &block;
    }
    if (first != nullptr) first->report_deadlock(message);
}

bool Cluster::wake() {
    for (unsigned turn = 0; turn < size_; ++turn) {
        if (go_on(order_[turn]).wake()) return true;
    }
    return go_on_with_yielded();
}

// When nobody else can go on. Where all of them look at memory again and again, and in none of the blocks a thread writes, it
// is for ever, or until blocks come that are not here.
bool Cluster::go_on_with_yielded() {
    BlockRunner* first = nullptr;
    std::uint64_t polls = 0, least = ENOUGH_POLLS;
    for (unsigned turn = 0; turn < size_; ++turn) {
        BlockRunner& block = *blocks_[order_[turn]];
        if (!block.has_yielded()) continue;
        if (first == nullptr) first = &block;
        polls += block.polls();
        least = std::min(least, block.polls());
    }
    if (first == nullptr) return false;
    if (polls >= (is_all_ ? ENOUGH_POLLS : ENOUGH_POLLS / 10) && least >= LEAST_POLLS) {
        waits_for_others_ = !is_all_;
        first->report_polling(waits_for_others_);
        return false;
    }
    if (polls == 0) std::this_thread::yield();  // to blocks on other threads of the host
    for (unsigned rank = 0; rank < size_; ++rank) blocks_[rank]->go_on_with_yielded();
    return true;
}

bool Cluster::arrive(GpuThread* self, const Call& call) {
    ++arrived_;
    barrier_call_ = call;
    if (open()) return true;
    self->runner->join_cluster_barrier(self);
    return false;
}

bool Cluster::open() {
    if (arrived_ != threads_ - (cooperative_ ? 0 : returned_)) return false;
    arrived_ = 0;
    ++passed_;
    for (unsigned rank = 0; rank < size_; ++rank) blocks_[rank]->pass_cluster_barrier();
    return true;
}

}  // namespace simt
