// Runs the blocks of a cluster together, on one thread of the host; most launches have clusters of one block. The blocks of a grid that
// synchronises (a cooperative launch) run together in the same way, as one that is no cluster to the kernel.
//
// Each block in turn runs until it can go no further without the others. Only when none of them can, a tile comes that
// somebody waits for: so what one block does to another comes as late as a GPU may let it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "block_runner.hpp"

namespace simt {

class Cluster {
  public:
    static constexpr unsigned MOST = 8;  // blocks: what every GPU with clusters takes

    // To be called on the thread of the host that is to run the blocks.
    void prepare(const Launch& launch, const std::atomic<bool>& stop);

    // Runs the cluster of this number; of its blocks, those whose rank is chosen count, or all if there is no choice. Returns what
    // went wrong.
    std::string run(std::uint64_t number, const std::vector<bool>& chosen);

    // As kernels know it.
    unsigned size() const { return cooperative_ ? 1 : size_; }
    BlockRunner* block(unsigned rank) { return rank < size() ? blocks_[rank].get() : nullptr; }

    // Whether the last run ended since a block waits for others, which have not begun.
    bool waits_for_others() const { return waits_for_others_; }

    bool is_large() const { return blocks_.size() > MOST; }

    // The block in whose shared memory an address is, or null; which memory, and how far from its start.
    struct Place {
        const BlockRunner* block;
        Space space;
        std::size_t offset;
    };
    Place place(std::uintptr_t address) const {
        if (cooperative_) return {nullptr, Space::global, 0};
        const std::size_t offset = address - reinterpret_cast<std::uintptr_t>(shared_);
        if (offset < size_ * stride_ && offset % stride_ < shared_bytes_) {
            return {blocks_[offset / stride_].get(), Space::dynamic_shared, offset % stride_};
        }
        const std::size_t kept = address - reinterpret_cast<std::uintptr_t>(kept_);
        if (kept < size_ * kept_stride_ && kept % kept_stride_ < static_bytes_) {
            return {blocks_[kept / kept_stride_].get(), Space::static_shared, kept % kept_stride_};
        }
        return {nullptr, Space::global, 0};
    }

    // The static shared memory of a block that does not run: where others find it.
    unsigned char* kept(unsigned rank) const { return kept_ + rank * kept_stride_; }

    // The barrier of all threads: whether it opens, since this thread, which calls it, is the last one to come. That of a cluster
    // does not wait for threads that have returned (PTX manual, "barrier.cluster": for "all non-exited threads").
    bool arrive(GpuThread* self, const Call& call);
    // A thread has returned: whether the barrier opens, which waited for it alone.
    bool leave() {
        ++returned_;
        return !cooperative_ && arrived_ != 0 && open();
    }
    // Where the last thread to come called it.
    const Call& barrier_call() const { return barrier_call_; }
    std::uint64_t passed() const { return passed_; }

  private:
    bool open();
    bool run_blocks();
    bool wake();
    bool go_on_with_yielded();
    BlockRunner& go_on(unsigned rank);
    void check_that_all_ended();

    std::vector<std::unique_ptr<BlockRunner>> blocks_;  // some may be at rest, of an earlier launch
    unsigned size_ = 0;
    bool cooperative_ = false;
    unsigned running_ = 0;                                   // the rank of the block whose static shared memory is in place
    std::vector<unsigned char> static_shared_;  // of the others, from `kept_` on
    unsigned char* kept_ = nullptr;
    std::size_t static_bytes_ = 0, kept_stride_ = 1;  // as of the dynamic
    Observer* observer_ = nullptr;
    std::vector<unsigned char> dynamic_shared_;  // of all blocks, from `shared_` on
    unsigned char* shared_ = nullptr;
    std::size_t shared_bytes_ = 0, stride_ = 1;  // of a block; from one block's to the next one's
    Order order_{0, 1};                          // of the blocks
    const std::atomic<bool>* stop_ = nullptr;
    std::size_t threads_ = 0;

    bool is_all_ = false;  // of the grid
    bool waits_for_others_ = false;
    std::size_t arrived_ = 0, returned_ = 0;
    Call barrier_call_{};
    std::uint64_t passed_ = 0;
};

}  // namespace simt
