// What threads know of one another by atomic operations; those of other blocks, which on a GPU may all run at the same time, by nothing
// else:
//
//   one      writes; __threadfence, by the writer, or after a __syncthreads by the thread that goes on; an atomic
//            operation
//   another  an atomic operation on the same word, which comes later; __threadfence, by the same thread, or after a
//            __syncthreads by the reader; reads
//
// Every atomic operation counts as a step of both kinds, and passes on what its block has learnt in the same way. __syncwarp orders
// the lanes that meet as __syncthreads orders a block: it "guarantees memory ordering among threads participating in the barrier"
// (CUDA C++ Programming Guide, "Synchronization Functions"). Shuffles and votes do not.
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

    void begin_launch(unsigned threads, unsigned cluster) {
        running_.assign(cluster, {});
        for (Running& block : running_) block.fences.assign(threads, {});
    }

    void begin_block(unsigned rank, Time now, const uint3& index) {
        blocks_.push_back({now, index});
        Running& block = running_[rank];
        std::vector<Fence> fences = std::move(block.fences);
        fences.assign(fences.size(), {});
        block = {now};
        block.fences = std::move(fences);
    }

    void block_barrier(unsigned rank, Time now) {
        Running& block = running_[rank];
        if (block.fenced) take(block.known, block.seen);
        block.fenced = false;
        take_all(block.known, block.threads_known);
        take_all(block.seen, block.threads_seen);
        block.threads_known.clear();
        block.threads_seen.clear();
        block.barrier = now;
    }

    // Lanes of a warp, whose first thread has this number, have synced at a __syncwarp.
    void warp_barrier(unsigned rank, unsigned first, unsigned lanes) {
        Running& block = running_[rank];
        if (!block.ever_fenced && block.threads_seen.empty()) return;
        Fence all;
        for (unsigned left = lanes; left != 0; left &= left - 1) all.learn(block.fences[first + __builtin_ctz(left)]);
        for (unsigned left = lanes; left != 0; left &= left - 1) {
            Fence& own = block.fences[first + __builtin_ctz(left)];
            if (own.time != all.time || own.before != all.before) block.fence_times = nullptr;
            own = all;
        }
        share(block.threads_known, first, lanes);
        share(block.threads_seen, first, lanes);
    }

    // own: what the thread knows of its warp.
    void fence(unsigned actor, Time now, const Row& own) {
        Running& block = running_[rank_of(actor)];
        const unsigned thread = actor % ACTORS;
        block.fences[thread] = {now, block.barrier, own};
        block.fences[thread].before[thread % WARP_SIZE] = now;
        block.fenced = block.ever_fenced = true;
        block.fence_times = nullptr;
        const auto seen = block.threads_seen.find(thread);
        if (seen != block.threads_seen.end()) take(own_notes(block.threads_known[thread]), *seen->second);
    }

    // shared: whether it is in the block's own memory, which the next block has too; writes: whether it may, so that it passes
    // something on.
    void atomic(unsigned actor, std::uintptr_t address, Time now, bool shared, bool writes) {
        Running& block = running_[rank_of(actor)];
        const unsigned thread = actor % ACTORS;
        auto& left = shared ? block.left : left_;
        const auto left_before = left.find(address);
        if (!block.ever_fenced && left_before == left.end()) return;  // it makes sure of nothing, and learns nothing
        if (left_before != left.end()) take(own_notes(block.threads_seen[thread]), left_before->second);
        if (!writes) return;
        if (!block.fence_times) {
            auto times = std::make_shared<std::vector<Time>>();
            for (unsigned t = 0; t < block.fences.size(); ++t) times->push_back(block.fences[t].before[t % WARP_SIZE]);
            block.fence_times = std::move(times);
        }
        auto note = std::make_shared<Note>();
        note->thread = thread;
        note->time = now;
        note->barrier = block.barrier;
        note->fence = block.fences[thread];
        note->fences = block.fence_times;
        Notes& left_here = left[address];
        take(left_here, block.known);
        if (block.fences[thread].time >= block.barrier) take(left_here, block.seen);
        const auto known = block.threads_known.find(thread);
        if (known != block.threads_known.end()) take(left_here, *known->second);
        left_here[{blocks_.size() - running_.size() + rank_of(actor), thread}] = std::move(note);
    }

    // Whether the access, of another thread, comes before what a thread does now.
    bool before(const Stamp& stamp, unsigned actor) const {
        const Running& block = running_[rank_of(actor)];
        const unsigned thread = actor % ACTORS;
        const std::size_t other = ordinal(stamp);
        if (covered(block.known, other, stamp)) return true;
        if (block.fences[thread].time >= block.barrier && covered(block.seen, other, stamp)) return true;
        const auto known = block.threads_known.find(thread);
        return known != block.threads_known.end() && covered(*known->second, other, stamp);
    }

    const uint3& block_of(const Stamp& stamp) const { return blocks_[ordinal(stamp)].index; }

  private:
    // The last one that a thread knows of, and those before: its own, or another lane's from which a __syncwarp has been since.
    struct Fence {
        Time time = 0;
        Time barrier = 0;  // of the block, the last before
        Row before = {};   // up to when accesses of each lane of the warp come before

        void learn(const Fence& other) {
            time = std::max(time, other.time);
            barrier = std::max(barrier, other.barrier);
            for (unsigned lane = 0; lane < WARP_SIZE; ++lane) before[lane] = std::max(before[lane], other.before[lane]);
        }
    };

    // What an atomic operation tells those that come later. Threads have their numbers in the block.
    struct Note {
        unsigned thread;
        Time time;
        Time barrier;  // of the block, the last before
        Fence fence;   // of the thread, the last before
        std::shared_ptr<const std::vector<Time>> fences;  // of all threads of the block: up to when their own accesses come before one

        bool covers(const Stamp& stamp) const {
            const unsigned other = stamp.actor % ACTORS;
            const bool atomic = stamp.flags & Stamp::ATOMIC;
            if (stamp.time < barrier && (atomic || stamp.time <= (*fences)[other])) return true;
            if (other == thread && atomic) return stamp.time <= time;
            const bool same_warp = other / WARP_SIZE == thread / WARP_SIZE;
            return stamp.time < fence.barrier || (same_warp && stamp.time <= fence.before[other % WARP_SIZE]);
        }
    };

    // By block, in the order in which they began, and thread.
    using Notes = std::map<std::pair<std::size_t, unsigned>, std::shared_ptr<const Note>>;
    using ByThread = std::unordered_map<unsigned, std::shared_ptr<Notes>>;  // lanes may have the same ones

    struct BlockStart {
        Time start;  // the same for all of a cluster
        uint3 index;
    };

    // A block that runs.
    struct Running {
        Time barrier = 0;
        bool fenced = false;             // whether some thread fenced since the last barrier
        bool ever_fenced = false;        // or in the block
        std::vector<Fence> fences = {};  // of its threads
        std::shared_ptr<const std::vector<Time>> fence_times = nullptr;  // of `fences`, or null: not copied since the last
        Notes seen = {}, known = {};  // by all threads: what atomic operations read, and what a fence then made sure of
        std::unordered_map<std::uintptr_t, Notes> left = {};  // at words of its shared memory
        ByThread threads_seen = {}, threads_known = {};  // by single ones, since the barrier
    };

    static void take(Notes& to, const Notes& from) {
        for (const auto& [key, note] : from) {
            std::shared_ptr<const Note>& own = to[key];
            if (!own || own->time < note->time) own = note;
        }
    }

    static void take_all(Notes& to, const ByThread& from) {
        const Notes* last = nullptr;
        for (const auto& [thread, notes] : from) {
            if (notes.get() != last) take(to, *notes);
            last = notes.get();
        }
    }

    // A thread's notes, to be added to, which are no other's.
    static Notes& own_notes(std::shared_ptr<Notes>& notes) {
        if (!notes || notes.use_count() > 1) notes = notes ? std::make_shared<Notes>(*notes) : std::make_shared<Notes>();
        return *notes;
    }

    // Gives all of these lanes what any of them has.
    static void share(ByThread& of, unsigned first, unsigned lanes) {
        std::vector<std::shared_ptr<Notes>> different;
        for (unsigned left = lanes; left != 0; left &= left - 1) {
            const auto notes = of.find(first + __builtin_ctz(left));
            const std::shared_ptr<Notes> one = notes == of.end() ? nullptr : notes->second;
            if (std::find(different.begin(), different.end(), one) == different.end()) different.push_back(one);
        }
        if (different.size() == 1) return;
        const auto all = std::make_shared<Notes>();
        for (const auto& one : different) {
            if (one) take(*all, *one);
        }
        for (unsigned left = lanes; left != 0; left &= left - 1) of[first + __builtin_ctz(left)] = all;
    }

    static bool covered(const Notes& notes, std::size_t block, const Stamp& stamp) {
        for (auto it = notes.lower_bound({block, 0}); it != notes.end() && it->first.first == block; ++it) {
            if (it->second->covers(stamp)) return true;
        }
        return false;
    }

    // The number of the block that left a stamp.
    std::size_t ordinal(const Stamp& stamp) const {
        const auto later = std::upper_bound(blocks_.begin(), blocks_.end(), stamp.time,
                                            [](Time t, const BlockStart& block) { return t < block.start; });
        return std::size_t(later - blocks_.begin()) - running_.size() + rank_of(stamp.actor);
    }

    std::vector<BlockStart> blocks_;
    std::unordered_map<std::uintptr_t, Notes> left_;  // at words of global memory, by atomic operations
    std::vector<Running> running_;                    // by rank
};

}  // namespace simt
