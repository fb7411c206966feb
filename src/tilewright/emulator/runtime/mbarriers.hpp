// The mbarriers of a block: phases, arrivals that are pending, bytes that are to come (PTX manual, "mbarrier").
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "abi.hpp"
#include "async_copies.hpp"

namespace simt {

struct GpuThread;

struct Mbarrier {
    const unsigned long long* address;
    unsigned count;                  // arrivals that a phase takes
    unsigned pending;                // of the current phase, arrivals that have not arrived
    std::int64_t bytes = 0;          // announced less come, of the current phase
    std::uint64_t phase = 0;
    const GpuThread* maker;
    std::uint64_t made_after[3];     // barriers that the maker's block, warp and cluster had passed
    bool fenced = false;             // whether the copy engine is sure to see it
    bool tested = false;             // whether a thread has found that the current phase had not ended
    std::vector<GpuThread*> waiting = {};
    std::deque<TileCopy> coming = {};  // copies that count their bytes here

    // Ends the phase if nothing of it is missing; says whether it did.
    bool end_phase() {
        if (pending != 0 || bytes != 0) return false;
        pending = count;
        tested = false;
        ++phase;
        return true;
    }

    std::string missing() const {
        return std::to_string(pending) + " of " + std::to_string(count) + " arrivals and " + std::to_string(bytes) +
               " bytes of its phase " + std::to_string(phase) + " are missing";
    }
};

class Mbarriers {
  public:
    static constexpr std::int64_t MOST = (1 << 20) - 1;  // arrivals, and bytes

    // The barrier at an address; null where none was made, or where its memory has been overwritten.
    Mbarrier* find(const unsigned long long* address) {
        const std::uint64_t index = *address ^ MARK;
        return index < all_.size() && all_[index].address == address ? &all_[index] : nullptr;
    }

    // Makes a barrier, whose memory then says which it is.
    void make(unsigned long long* address, Mbarrier barrier) {
        *address = MARK ^ all_.size();
        all_.push_back(std::move(barrier));
    }

    // What a thread has made is from now on seen by the copy engine.
    void fence(const GpuThread* maker) {
        for (Mbarrier& barrier : all_) barrier.fenced |= barrier.maker == maker;
    }

    std::deque<Mbarrier>& all() { return all_; }
    void forget() { all_.clear(); }

  private:
    static constexpr std::uint64_t MARK = 0x6d62617272696572;

    std::deque<Mbarrier> all_;
};

}  // namespace simt
