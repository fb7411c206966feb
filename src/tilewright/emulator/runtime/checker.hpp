// The observer behind `tilewright check`: finds races, accesses outside of arrays, reads of uninitialised memory.
//
// What counts as ordered, complete and inside:
//   order       barriers of the block, then __syncwarp and mbarriers, then atomic operations between fences for other blocks (ordering.hpp,
//               release.hpp); for blocks of a cluster its barriers and mbarriers, for a grid that synchronises its syncs
//   volatile    in global memory a relaxed atomic access, as in PTX; in shared memory a plain one, so that warps which rely on it
//               instead of __syncwarp are found
//   waits       a thread that reads the same memory again and again yields. When only such threads can go on, and in a million reads none
//               has written, they wait for ever; where blocks have not begun, the check runs again with all blocks together
//   copies      a write in flight until its own thread, or the mbarrier, has seen it complete; a tile that TMA stores is a read of shared
//               memory in flight
//   wgmma       reads from its start until the wait, of all four warps. It may read a row or column that nobody has written, as an
//               instruction multiplies 64 rows where the matrix may have fewer; the rest of a row that is written in part is a fault
//   proxies     what the copy engine or the tensor cores read needs fence_async_shared of the writer, before the barrier that orders them
//   fragments   which lane moves which element of a wmma fragment is not specified, so any lane stands for it
//   bounds      memory that belongs to no array follows every __shared__ variable, and lies between the lines of A, B, C and D
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "async_copies.hpp"
#include "block_runner.hpp"
#include "findings.hpp"
#include "observer.hpp"
#include "ordering.hpp"
#include "shadow.hpp"

namespace simt {

class Checker : public Observer {
  public:
    // overlaps: whether the launch may begin while the one before it runs, so that threads wait for that one's end.
    Checker(const CheckedArray* arrays, std::size_t array_count, const SharedVariable* variables,
            std::size_t variable_count, bool overlaps);

    void begin_launch(const Layout& layout) override;
    void goes_on(const Block& block) override {
        settle();
        running_ = block.rank;
    }
    void begin_block(const Block& block) override;
    void end_block(const Block& block) override;
    void thread_returned(const GpuThread& thread) override {
        settle();
        order_.returned(thread.actor, acted_[thread.actor]);
    }
    Checker* checker() override { return this; }
    // Checks an access that is no atomic or volatile one, of global memory or of the block's own shared memory, and remembers it, if
    // it is a usual one: there is nothing to say of it. Says whether it was one; else it has done nothing. See usual_access.hpp.
    bool access_usual(unsigned thread, std::uintptr_t site, std::uintptr_t address, std::size_t bytes, bool reads, Space space,
                      std::size_t offset);
    // The same of a read of an array that nothing may write to.
    bool is_usual_input(unsigned thread, std::uintptr_t address, std::size_t bytes) const;
    void access(const Access& access) override;
    void block_barrier(const Block& block, const Call&) override {
        order_.block_barrier(block.rank);
        see_what_is_usual();
    }
    void cluster_barrier(const Call&) override { order_.cluster_barrier(); }
    void warp_exchange(const Warp& warp, unsigned lanes, const Call& call) override;
    void lane_absent(const GpuThread& thread, const Call& call, unsigned lane) override;
    void fragment(const Warp& warp, const Call& call, const FragmentAccess& access) override;
    void fence(const GpuThread& thread) override { order_.fence(thread.actor); }
    void grid_dependency_waited(const GpuThread& thread) override;
    void copy_started(const GpuThread& thread, const CopyAccess& copy) override;
    void copy_landed(const GpuThread& thread, const CopyAccess& copy) override;
    void tile_started(const GpuThread& thread, const TileCopy& copy, const void* barrier) override;
    void tile_landed(const TileCopy& copy, const void* barrier) override;
    void store_started(const GpuThread& thread, const TileStore& store) override;
    void store_read(const GpuThread& thread, const TileStore& store) override;
    void store_written(const GpuThread& thread, const TileStore& store) override;
    void barrier_made(const GpuThread& thread, const Call&, const void* barrier) override {
        order_.barrier_made(thread.actor, barrier);
    }
    void barrier_arrived(const GpuThread& thread, const Call& call, const void* barrier) override;
    void barrier_passed(const GpuThread& thread, const Call& call, const void* barrier) override {
        if (call.operation != Operation::barrier_wait) return order_.named_passed(thread.actor, barrier);
        order_.barrier_passed(thread.actor, barrier);
    }
    void phase_ended(const void* barrier) override { order_.phase_ended(barrier); }
    void named_arrived(const GpuThread& thread, const void* barrier) override {
        order_.barrier_arrived(thread.actor, barrier);
    }
    void fence_async(const GpuThread& thread) override { order_.fence_async(thread.actor); }
    void product_started(const Warpgroup& group, const Call& call, const std::vector<FactorWords>& factors) override;
    void product_ended(const Warpgroup& group) override { order_.product_ended(group); }
    void stopped(Stop reason, const GpuThread& thread, std::uintptr_t address, const Call& call,
                 const std::string& message) override;
    void relaxed_in_library(const GpuThread& thread, std::uintptr_t address, bool writes) override {
        order_.atomic(thread.actor, address, false, writes);
    }
    void overflowed(const GpuThread& thread, const Call& call, const std::string& what) override;
    void wrapped(const GpuThread& thread, std::uintptr_t site, const std::string& what) override;
    void polls_for_ever(const GpuThread& thread) override;
    void ended(bool endless, bool overflowed, const GpuThread& thread, std::uintptr_t site) override;
    std::string report() override { return findings_.json(); }

    // What was written last by a block to neighbours in an array. Python has the same struct.
    struct Written {
        std::uint64_t offset, bytes;  // from the array's begin
        std::uint32_t block[3];
    };
    std::vector<Written> written_in(std::uintptr_t array);

  private:
    // An access that is being checked.
    struct Visit {
        unsigned thread;  // its number as an actor
        std::uint32_t site;
        std::uintptr_t address;
        std::size_t bytes;
        AccessKind kind;
        unsigned flags;  // of its stamps
    };

    // A store to a cell that nothing orders with an earlier one. It is a race, unless it stores the same value: the observer is told before
    // it is carried out, so that is known at the next event.
    struct Doubtful {
        Visit one;
        Stamp earlier;
        Cell* cell;
        const unsigned char* memory;
        std::uint32_t bytes, value;  // of the earlier one
    };

    // The cells that it concerns.
    struct Cells : Shadow::Range {
        Time oldest;   // stamps before this one say nothing: shared memory is another block's then
        bool written;  // whether all have values from the beginning
    };

    void forget_shared();
    void see_what_is_usual() { usual_ = !order_.some_left() && doubtful_.empty(); }
    void settle() {
        if (!doubtful_.empty()) settle_doubtful();
    }
    void settle_doubtful();
    bool note_usual(Cell* first, std::size_t count, const Stamp& stamp, bool reads, Time oldest, bool written);
    void visit(const Visit& visit);
    void visit(const Visit& visit, Space space, std::size_t offset, unsigned rank);
    void touch(const Visit& visit, const Cells& cells);
    void read(const Visit& visit, const Cells& cells);
    void check_read(const Visit& visit, const Stamp& last_write, const Cells& cells);
    void check_stores(const Visit& visit, const Cell& cell, const Cells& cells);
    void write(const Visit& visit, const Cells& cells);
    // This of a cell's reads, or where there is none to replace, each in turn.
    unsigned slot_or_next(unsigned slot) {
        const bool full = slot == Cell::READS;
        const unsigned next = next_;
        next_ = full ? (next + 1 < Cell::READS ? next + 1 : 0) : next;
        return full ? next : slot;
    }
    bool comes_after(const Visit& visit, const Cell& cell, const Cells& cells) const;
    void check_write(const Visit& visit, Cell& cell, const Cells& cells);
    Cell::Words synced(const Cell& cell) const;
    Cell::Words of_left(const Cell& cell) const;
    Cell::Words own(const Cell& cell, unsigned thread, unsigned without) const;
    Cell::Words replaced(const Cell& cell, unsigned thread, Time oldest) const;
    Cell::Words unordered(const Cell& cell, unsigned thread, unsigned flags, Time oldest) const;
    bool comes_before(const Stamp& earlier, const Visit& visit) const;
    void check_order(const Visit& visit, const Stamp& earlier, const char* did);
    void check_waited(const Visit& visit);
    bool is_sure(const Stamp& write, unsigned thread, const Cells& cells, Stamp& known) const;
    void check_shown(const Visit& visit, const Cells& cells);
    void check_pattern(const Visit& tile, std::size_t period);
    void check_words(const Warpgroup& group, std::uint32_t site, const std::vector<FactorWords>& factors);
    std::vector<bool> written_lines(const std::vector<std::uintptr_t>& words, std::size_t lines);
    Cells shared_cells(std::uintptr_t address, std::size_t bytes);
    Cells cells_of(std::size_t offset, std::size_t bytes, unsigned rank);
    bool is_kept(std::uintptr_t address) const;
    unsigned rank_at(std::uintptr_t address) const;
    const unsigned char* dynamic_shared(unsigned rank) const {
        return layout_.dynamic_shared + rank * layout_.dynamic_shared_stride;
    }
    void set_written(std::uintptr_t shared, std::size_t bytes, const Stamp& stamp);
    void set_stored(const TileStore& store, const Stamp& stamp);
    Region* region_of(std::uintptr_t address);
    bool in_one_variable(std::size_t offset, std::size_t bytes) const {
        return offset + bytes <= owners_.size() && owners_[offset] != 0 && owners_[offset] == owners_[offset + bytes - 1];
    }

    void outside(const Visit& visit);
    void find(const char* kind, const Visit& visit, const Stamp* other = nullptr, const char* other_did = "", std::size_t period = 0);
    Finding::Party party(unsigned actor, const uint3& block, std::uint32_t site, const char* did) const;
    void overflow(const GpuThread& thread, std::uint32_t site, const std::string& what);
    Finding::Place place(std::uintptr_t address, std::size_t bytes, unsigned rank) const;

    struct Variable {
        std::string name;
        std::size_t offset, bytes;
    };

    std::vector<Region> regions_;
    std::vector<Rows> inputs_;     // those of them that nothing may write to
    std::size_t last_region_ = 0;  // that of the last access
    std::vector<Variable> variables_;
    std::vector<std::uint16_t> owners_;  // of the bytes of static shared memory: index of a variable plus 1, or 0
    Layout layout_{};
    std::vector<Shadow> shared_;      // static, and behind it dynamic shared memory, by the block's rank
    std::size_t dynamic_begin_ = 0;   // in each of them
    std::vector<Block> blocks_;       // that run, by rank
    unsigned running_ = 0;            // the rank of the one that does now
    std::size_t in_flight_ = 0;  // copies
    bool overlaps_;
    bool usual_ = false;         // whether there may be usual accesses now
    std::vector<Doubtful> doubtful_;
    std::vector<Time> acted_;    // by actor: when it accessed memory last that may be written
    std::vector<Stamp> waits_;  // of these blocks' threads, for the launch before
    std::vector<bool> waited_;  // by actor: whether it, or one that came before it, has waited
    Ordering order_;
    Findings findings_;
    // What threads did last in the shared memory of other blocks, by actor and rank of that block.
    struct Reach {
        Time time;
        Visit one;
    };
    std::map<std::pair<unsigned, unsigned>, Reach> reaches_;
    unsigned next_ = 0;  // which of a cell's reads is given up next
};

}  // namespace simt
