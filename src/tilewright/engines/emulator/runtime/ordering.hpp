// What happens before what: in the order that barriers and fences give on a GPU, whatever order threads run in here.
//
// Time counts the events that order accesses. A barrier of the block orders all that came before it with all that comes
// after: the common case, and one comparison. Between two barriers each thread knows of the others what __syncwarp and
// mbarriers told it: up to which time their accesses come before its own (vector clocks; Flanagan and Freund,
// "FastTrack", 2009). Blocks know of one another what they passed on by an atomic operation between fences (CUDA C++
// Programming Guide, "Memory Fence Functions"): see release.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "block_runner.hpp"
#include "release.hpp"
#include "stamp.hpp"

namespace simt {

// Up to which time the accesses of others come before one's own. A row for each warp, one for the copy engine, which
// counts as a thread of its own for each mbarrier, and the last for the tensor cores, one for each warpgroup.
class View {
  public:
    static constexpr unsigned ROWS = 34;
    using Row = std::array<Time, WARP_SIZE>;

    Time operator[](unsigned thread) const {
        const Row* const row = rows_[thread / WARP_SIZE].get();
        return row ? (*row)[thread % WARP_SIZE] : 0;
    }

    Row& row(unsigned index) {
        if (!rows_[index]) rows_[index] = std::make_unique<Row>(Row{});
        return *rows_[index];
    }

    void learn(unsigned thread, Time time) { row(thread / WARP_SIZE)[thread % WARP_SIZE] = time; }

    void learn(const View& other) {
        for (unsigned i = 0; i < ROWS; ++i) {
            if (!other.rows_[i]) continue;
            Row& own = row(i);
            for (unsigned lane = 0; lane < WARP_SIZE; ++lane) own[lane] = std::max(own[lane], (*other.rows_[i])[lane]);
        }
    }

  private:
    std::array<std::unique_ptr<Row>, ROWS> rows_;
};

class Ordering {
  public:
    static constexpr unsigned ENGINE = (View::ROWS - 2) * WARP_SIZE;  // the first of its threads
    static constexpr unsigned TENSOR_CORES = ENGINE + WARP_SIZE;      // of the first warpgroup

    void begin_launch(unsigned threads) {
        views_ = std::vector<View>(threads);
        async_fences_.assign(threads, 0);
        products_.assign((threads + WARPGROUP_SIZE - 1) / WARPGROUP_SIZE, {});
        read_.assign(products_.size(), 0);
        read_before_barrier_ = read_;
        releases_.begin_launch(threads);
    }

    void begin_block(const uint3& index) {
        block_start_ = barrier_ = ++now_;
        barriers_.clear();
        for (auto& times : products_) times.clear();
        releases_.begin_block(now_, index);
    }

    Time now() const { return now_; }
    Time block_start() const { return block_start_; }

    // When the block last met: what came earlier in this block comes before all that any of its threads does now.
    Time barrier() const { return barrier_; }

    void block_barrier() {
        barrier_ = ++now_;
        read_before_barrier_ = read_;
        releases_.block_barrier(now_);
    }

    // The lanes know of one another, and what any of them knew.
    void warp_barrier(const Warp& warp, unsigned lanes) {
        View together;
        for (unsigned left = lanes; left != 0; left &= left - 1) {
            const unsigned thread = warp.threads[__builtin_ctz(left)].number;
            together.learn(views_[thread]);
            together.learn(thread, now_);
        }
        for (unsigned left = lanes; left != 0; left &= left - 1) {
            views_[warp.threads[__builtin_ctz(left)].number].learn(together);
        }
        ++now_;
    }

    void fence(unsigned thread) {
        releases_.fence(thread, now_++, views_[thread].row(thread / WARP_SIZE));
    }

    void atomic(unsigned thread, std::uintptr_t address) { releases_.atomic(thread, address, now_++); }

    void barrier_made(const void* barrier) {
        barriers_[barrier].engine = ENGINE + unsigned(barriers_.size() - 1) % WARP_SIZE;
    }
    void barrier_arrived(unsigned thread, const void* barrier) {
        barriers_[barrier].coming.learn(views_[thread]);
        barriers_[barrier].coming.learn(thread, now_++);
    }
    void barrier_passed(unsigned thread, const void* barrier) { views_[thread].learn(barriers_[barrier].ended); }
    void phase_ended(const void* barrier) { barriers_[barrier].ended.learn(barriers_[barrier].coming); }

    // The copy engine's thread for an mbarrier, which has now written what it counts there.
    unsigned engine_arrived(const void* barrier) {
        Barrier& at = barriers_[barrier];
        at.coming.learn(at.engine, now_++);
        return at.engine;
    }

    // What a thread has written is shown to the copy engine and the tensor cores.
    void fence_async(unsigned thread) { async_fences_[thread] = now_++; }
    bool shown(const Stamp& write) const {
        return write.thread >= ENGINE || write.time < block_start_ || write.time <= async_fences_[write.thread];
    }

    // A product starts, whose reads are the tensor cores' at `now`; it ends, and the warpgroup's threads know of them.
    void product_started(unsigned warpgroup) { products_[warpgroup].push_back(now_++); }
    void product_ended(unsigned warpgroup) {
        read_[warpgroup] = products_[warpgroup].front();
        for (unsigned t = warpgroup * WARPGROUP_SIZE; t < (warpgroup + 1) * WARPGROUP_SIZE; ++t) {
            views_[t].learn(TENSOR_CORES + warpgroup, products_[warpgroup].front());
        }
        products_[warpgroup].pop_front();
    }

    // Whether an access comes before what a thread does now. Which lanes move a fragment's elements nobody knows: there
    // an access does not come before for being the same lane's.
    bool before(const Stamp& stamp, unsigned thread, bool in_fragment) const {
        if (stamp.time < block_start_) return releases_.before(stamp, thread);
        if (is_tensor_cores(stamp)) {
            return stamp.time <= read_before_barrier_[stamp.thread - TENSOR_CORES] ||
                   stamp.time <= views_[thread][stamp.thread];
        }
        if (stamp.time < barrier_) return true;
        if (stamp.thread == thread && !in_fragment && !(stamp.flags & Stamp::FRAGMENT)) return true;
        return stamp.time <= views_[thread][stamp.thread];
    }

    // Whose reads a barrier of the block orders only once they have been waited for.
    static bool is_tensor_cores(const Stamp& stamp) { return stamp.thread >= TENSOR_CORES; }

    // The block that ran at a time.
    const uint3& block_at(Time time) const { return releases_.block_at(time); }

  private:
    struct Barrier {
        View coming, ended;  // told at arrivals of the current phase, and of the phases before
        unsigned engine;
    };

    Time now_ = 0;
    Time block_start_ = 0;
    Time barrier_ = 0;
    std::vector<View> views_;  // of the threads; times before the last barrier are out of date, and do no harm
    std::unordered_map<const void*, Barrier> barriers_;
    std::vector<Time> async_fences_;          // of the threads, the last
    std::vector<std::deque<Time>> products_;  // of the warpgroups, under way
    std::vector<Time> read_;                  // the last of each warpgroup's that has ended
    std::vector<Time> read_before_barrier_;
    Releases releases_;
};

}  // namespace simt
