// What the checker does at nearly every access: most are ordered by barriers and inside of arrays, so that there is nothing to say
// of them. Hooks have this inline, with sizes and kinds that are known.
#pragma once

#include "checker.hpp"

namespace simt {

constexpr std::size_t MOST_AT_ONCE = 16;  // bytes of an access that must be aligned
constexpr Time EVER = 1;                  // before all stamps

// Which of a cell's stamps are, since these blocks started, of before all their threads last synced. Tensor cores' are not counted.
inline Cell::Words Checker::synced(const Cell& cell) const {
    const Time start = order_.start(), span = order_.together() - start;
    const Cell::Words before = (cell.times() - start < span) & ((cell.whos() & (ACTORS - 1)) < Ordering::TENSOR_CORES);
    return __builtin_expect(order_.some_left(), 0) ? before & ~of_left(cell) : before;
}

// Which are, since then, the thread's own and have none of these flags.
inline Cell::Words Checker::own(const Cell& cell, unsigned thread, unsigned without) const {
    const Time start = order_.start();
    const Cell::Words who = cell.whos() & (Stamp::OF_ACTOR | without << Stamp::ACTOR_BITS);
    return (who == thread) & (cell.times() - start < Stamp::IN_FLIGHT - start);
}

// Which reads a new one may replace: every later write that they come in conflict with does so with the new one too.
inline Cell::Words Checker::replaced(const Cell& cell, unsigned thread, Time oldest) const {
    return (cell.times() < oldest) | synced(cell) | own(cell, thread, 0);
}

// Which are of accesses that a write does not come after for being the same thread's, or behind a barrier: another order is to be
// looked for.
inline Cell::Words Checker::unordered(const Cell& cell, unsigned thread, unsigned flags, Time oldest) const {
    const Cell::Words open = (cell.times() >= oldest) & ~synced(cell);
    return flags & Stamp::FRAGMENT ? open : open & ~own(cell, thread, Stamp::FRAGMENT);
}

inline bool Checker::is_usual_input(unsigned thread, std::uintptr_t address, std::size_t bytes) const {
    for (const Rows& rows : inputs_) {
        if (!rows.hold(address)) continue;
        return (address & (bytes - 1)) == 0 && rows.allow(address - rows.begin(), bytes, true) && waited_[thread];
    }
    return false;
}

// Notes an access in its cells, if it is a usual one.
__attribute__((always_inline)) inline bool Checker::note_usual(Cell* first, std::size_t count, const Stamp& stamp, bool reads,
                                                              Time oldest, bool written) {
    if (reads) {
        const Time start = order_.start(), span = order_.together() - start;
        for (std::size_t i = 0; i < count; ++i) {
            const Time write = first[i].write_time();
            if (write - start >= span && !(written && write < oldest)) return false;
        }
        for (std::size_t i = 0; i < count; ++i) {
            const unsigned slot = Cell::first_read(replaced(first[i], stamp.actor, oldest));
            if (__builtin_expect(slot == Cell::READS, 0) && order_.is_cluster()) return false;  // an order may be known that frees one
            first[i].set_read(slot_or_next(slot), stamp);
        }
    } else {
        for (std::size_t i = 0; i < count; ++i) {
            if (Cell::any(unordered(first[i], stamp.actor, 0, oldest))) return false;
        }
        for (std::size_t i = 0; i < count; ++i) first[i].begin(stamp);
    }
    return true;
}

__attribute__((always_inline)) inline bool Checker::access_usual(unsigned thread, std::uintptr_t site, std::uintptr_t address,
                                                                std::size_t bytes, bool reads, Space space, std::size_t offset) {
    if (bytes > MOST_AT_ONCE || (bytes & (bytes - 1)) != 0 || (address & (bytes - 1)) != 0 || !usual_) return false;
    Shadow* shadow = shared_.data() + rank_of(thread);
    Time oldest = order_.start();
    bool written = false;
    if (space == Space::global) {
        if (!waited_[thread] || last_region_ >= regions_.size()) return false;
        Region& region = regions_[last_region_];
        offset = address - region.rows.begin();
        if (region.constant || offset >= region.rows.bytes() || !region.rows.allow(offset, bytes, reads)) return false;
        shadow = &region.shadow;
        oldest = EVER;
        written = region.written;
    } else if (space == Space::static_shared) {
        if (!in_one_variable(offset, bytes)) return false;
    } else {
        if (offset + bytes > layout_.dynamic_shared_bytes) return false;
        offset += dynamic_begin_;
    }
    if (!shadow->are_whole_cells(offset, bytes)) return false;
    const Shadow::Range cells = shadow->whole_cells(offset, bytes);
    const Stamp stamp = {order_.now(), std::uint32_t(site - layout_.library), thread, 0};
    const bool is_noted = cells.bytes_of_cell == 4 ? note_usual(cells.first, bytes / 4, stamp, reads, oldest, written)
                                                   : note_usual(cells.first, cells.count, stamp, reads, oldest, written);
    if (!is_noted) return false;
    acted_[thread] = stamp.time;
    return true;
}

}  // namespace simt
