// What blocks of a grid know of one another. On a GPU they may all run at the same time, so that only this orders them:
//
//   one      writes; __threadfence, by the writer, or after a __syncthreads by the thread that goes on; an atomic
//            operation
//   another  an atomic operation on the same word, which comes later; __threadfence, by the same thread, or after a
//            __syncthreads by the reader; reads
//
// Every atomic operation counts as a step of both kinds, and passes on what its block has learnt in the same way.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi.hpp"
#include "stamp.hpp"

namespace simt {

class Releases {
  public:
    using Row = std::array<Time, WARP_SIZE>;

    void begin_launch(unsigned threads) { fences_.assign(threads, {}); }

    void begin_block(Time now, const uint3& index) {
        blocks_.push_back({now, index});
        barrier_ = now;
        fenced_ = ever_fenced_ = false;
        for (Fence& fence : fences_) fence = {};
        fence_times_ = nullptr;
        seen_.clear();
        known_.clear();
        threads_seen_.clear();
        threads_known_.clear();
    }

    void block_barrier(Time now) {
        if (fenced_) take(known_, seen_);
        fenced_ = false;
        for (const auto& [thread, notes] : threads_known_) take(known_, notes);
        for (const auto& [thread, notes] : threads_seen_) take(seen_, notes);
        threads_known_.clear();
        threads_seen_.clear();
        barrier_ = now;
    }

    // own: what the thread knows of its warp.
    void fence(unsigned thread, Time now, const Row& own) {
        fences_[thread] = {now, barrier_, own};
        fenced_ = ever_fenced_ = true;
        fence_times_ = nullptr;
        const auto seen = threads_seen_.find(thread);
        if (seen != threads_seen_.end()) take(threads_known_[thread], seen->second);
    }

    void atomic(unsigned thread, std::uintptr_t address, Time now) {
        if (!ever_fenced_ && left_.count(address) == 0) return;  // it makes sure of nothing, and learns nothing
        if (!fence_times_) {
            auto times = std::make_shared<std::vector<Time>>();
            for (const Fence& fence : fences_) times->push_back(fence.time);
            fence_times_ = std::move(times);
        }
        auto note = std::make_shared<Note>();
        note->thread = thread;
        note->time = now;
        note->barrier = barrier_;
        note->fence = fences_[thread];
        note->fences = fence_times_;
        Notes& left_here = left_[address];
        if (!left_here.empty()) take(threads_seen_[thread], left_here);
        take(left_here, known_);
        if (fences_[thread].time >= barrier_) take(left_here, seen_);
        const auto known = threads_known_.find(thread);
        if (known != threads_known_.end()) take(left_here, known->second);
        left_here[{blocks_.size() - 1, thread}] = std::move(note);
    }

    // Whether the access, of an earlier block, comes before what a thread does now.
    bool before(const Stamp& stamp, unsigned thread) const {
        const std::size_t block = ordinal(stamp.time);
        if (covered(known_, block, stamp)) return true;
        if (fences_[thread].time >= barrier_ && covered(seen_, block, stamp)) return true;
        const auto known = threads_known_.find(thread);
        return known != threads_known_.end() && covered(known->second, block, stamp);
    }

    const uint3& block_at(Time time) const { return blocks_[ordinal(time)].index; }

  private:
    struct Fence {
        Time time = 0;     // of the thread's last one
        Time barrier = 0;  // of the block, the last before
        Row own = {};      // what the thread knew of its warp
    };

    // What an atomic operation tells those that come later.
    struct Note {
        unsigned thread;
        Time time;
        Time barrier;  // of the block, the last before
        Fence fence;   // of the thread, the last before
        std::shared_ptr<const std::vector<Time>> fences;  // of all threads of the block

        bool covers(const Stamp& stamp) const {
            const bool atomic = stamp.flags & Stamp::ATOMIC;
            if (stamp.time < barrier && (atomic || stamp.time <= (*fences)[stamp.thread])) return true;
            if (stamp.thread == thread) return stamp.time <= (atomic ? time : fence.time);
            const bool same_warp = stamp.thread / WARP_SIZE == thread / WARP_SIZE;
            return stamp.time < fence.barrier || (same_warp && stamp.time <= fence.own[stamp.thread % WARP_SIZE]);
        }
    };

    // By block, in the order in which they ran, and thread.
    using Notes = std::map<std::pair<std::size_t, unsigned>, std::shared_ptr<const Note>>;

    struct BlockStart {
        Time start;
        uint3 index;
    };

    static void take(Notes& to, const Notes& from) {
        for (const auto& [key, note] : from) {
            std::shared_ptr<const Note>& own = to[key];
            if (!own || own->time < note->time) own = note;
        }
    }

    static bool covered(const Notes& notes, std::size_t block, const Stamp& stamp) {
        for (auto it = notes.lower_bound({block, 0}); it != notes.end() && it->first.first == block; ++it) {
            if (it->second->covers(stamp)) return true;
        }
        return false;
    }

    std::size_t ordinal(Time time) const {
        const auto later = std::upper_bound(blocks_.begin(), blocks_.end(), time,
                                            [](Time t, const BlockStart& block) { return t < block.start; });
        return std::size_t(later - blocks_.begin()) - 1;
    }

    std::vector<BlockStart> blocks_;
    std::unordered_map<std::uintptr_t, Notes> left_;  // at words, by atomic operations

    // Of the block that runs.
    Time barrier_ = 0;
    bool fenced_ = false;        // whether some thread fenced since the last barrier
    bool ever_fenced_ = false;   // or in the block
    std::vector<Fence> fences_;  // of its threads
    std::shared_ptr<const std::vector<Time>> fence_times_;  // of `fences_`, or null: not copied since the last fence
    Notes seen_, known_;         // by all threads: what atomic operations read, and what a fence then made sure of
    std::unordered_map<unsigned, Notes> threads_seen_, threads_known_;  // by single threads, since the last barrier
};

}  // namespace simt
