// Shadow memory: for each word of memory the accesses that later ones may conflict with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rows.hpp"
#include "stamp.hpp"
#include "zero_pages.hpp"

namespace simt {

// The last write, and reads since; as if they were reads, also writes of the same value that are not ordered before the last. Where more threads read at one time than there is room for, some are kept: one is
// enough to show a conflict. Fields of stamps lie next to one another, the write's first, so that all are compared at once.
class Cell {
  public:
    static constexpr unsigned READS = 3;
    static constexpr unsigned STAMPS = 1 + READS;
    using Words = std::uint32_t __attribute__((vector_size(STAMPS * 4)));

    Stamp stamp(unsigned i) const { return Stamp(times_[i], sites_[i], whos_[i]); }  // the write's, then the reads'
    Stamp write() const { return stamp(0); }
    Stamp read(unsigned slot) const { return stamp(1 + slot); }
    void set_write(const Stamp& stamp) { set(0, stamp); }
    void set_read(unsigned slot, const Stamp& stamp) { set(1 + slot, stamp); }
    Time write_time() const { return times_[0]; }
    Time read_time(unsigned slot) const { return times_[1 + slot]; }
    void set_read_time(unsigned slot, Time time) { times_[1 + slot] = time; }

    // A write, after which there are no reads.
    void begin(const Stamp& write) {
        set(0, write);
        for (unsigned slot = 0; slot < READS; ++slot) set_read_time(slot, 0);
    }

    // Whether the same accesses are in another one, wherever they are in the source.
    bool has_stamps_of(const Cell& other) const {
        return !any(Words((times_ != other.times_) | (whos_ != other.whos_)));
    }

    const Words& times() const { return times_; }
    const Words& whos() const { return whos_; }  // Stamp::who of each

    // Of a mask of stamps: whether it has any; which read is the first in it, or READS.
    static bool any(const Words& mask) {
        const Halves halves = as_halves(mask);
        return (halves[0] | halves[1]) != 0;
    }
    static unsigned first_read(const Words& mask) {
#ifdef __SSE__
        using Floats = float __attribute__((vector_size(STAMPS * 4)));
        const unsigned all = __builtin_ia32_movmskps(reinterpret_cast<Floats>(mask));  // a bit for each stamp
        return __builtin_ctz(all >> 1 | 1u << READS);
#else
        const Halves halves = as_halves(mask);  // the write and read 0, reads 1 and 2
        return __builtin_ctz(unsigned(halves[0] >> 63 | (halves[1] >> 30 & 2) | (halves[1] >> 61 & 4) | 1u << READS));
#endif
    }

  private:
    using Halves = std::uint64_t __attribute__((vector_size(STAMPS * 4)));
    static Halves as_halves(const Words& mask) { return reinterpret_cast<Halves>(mask); }
    void set(unsigned i, const Stamp& stamp) {
        times_[i] = stamp.time;
        sites_[i] = stamp.site;
        whos_[i] = stamp.who();
    }

    Words times_ = {}, sites_ = {}, whos_ = {};
};

// The cells of a piece of memory: one for each element where it has elements of 1 or 2 bytes, else for each word of 4 bytes, or for
// smaller pieces once some access takes part of one. Only cells that are touched take memory, so that of arrays larger than
// this machine's memory a few elements may be accessed.
class Shadow {
  public:
    explicit Shadow(std::size_t bytes = 0, std::size_t item_bytes = 4)
        : bytes_(bytes),
          shift_(item_bytes == 1 ? 0 : item_bytes == 2 ? 1 : 2),
          cells_((bytes >> shift_) + 1),
          touched_(bytes / (PAGE * 64) + 1) {}

    struct Range {
        Cell* first;
        std::size_t count;
        std::size_t offset;         // of the first one's bytes
        std::size_t bytes_of_cell;
    };

    Range range(std::size_t offset, std::size_t bytes) {
        const std::size_t unaligned = this->unaligned(offset, bytes);
        if (__builtin_expect(unaligned != 0, 0)) refine(unaligned & 1 ? 0 : 1);
        for (std::size_t page = offset / PAGE + 1; page * PAGE < offset + bytes; ++page) touch(page);
        return whole_cells(offset, bytes);
    }

    // The same where there are cells of these bytes alone, which lie in one page.
    bool are_whole_cells(std::size_t offset, std::size_t bytes) const { return unaligned(offset, bytes) == 0; }
    Range whole_cells(std::size_t offset, std::size_t bytes) {
        touch(offset / PAGE);
        return {&cells_[offset >> shift_], bytes >> shift_, offset, std::size_t{1} << shift_};
    }

    // Cells that are touched, and some next to them: of one page after the other.
    template <typename Visit>
    void each_touched(const Visit& visit) {
        for (std::size_t i = 0; i < touched_.size(); ++i) {
            for (std::uint64_t left = touched_[i]; left != 0; left &= left - 1) {
                const std::size_t begin = (i * 64 + __builtin_ctzll(left)) * PAGE;
                const std::size_t bytes = std::min(PAGE, bytes_ - begin);
                const std::size_t count = (bytes + (std::size_t{1} << shift_) - 1) >> shift_;
                visit(Range{&cells_[begin >> shift_], count, begin, std::size_t{1} << shift_});
            }
        }
    }

  private:
    static constexpr std::size_t PAGE = 4096;  // bytes of memory

    void touch(std::size_t page) {
        std::uint64_t& touched = touched_[page / 64];
        const std::uint64_t bit = std::uint64_t{1} << page % 64;
        if (__builtin_expect((touched & bit) != 0, 1)) return;
        touched |= bit;
        cells_.populate(page * PAGE >> shift_, PAGE >> shift_);
    }

    std::size_t unaligned(std::size_t offset, std::size_t bytes) const {
        return (offset | bytes) & ((std::size_t{1} << shift_) - 1);
    }

    void refine(unsigned shift) {
        ZeroPages<Cell> finer((bytes_ >> shift) + (1 << (shift_ - shift)));
        each_touched([&](const Range& coarse) {
            Cell* to = &finer[coarse.offset >> shift];
            for (std::size_t i = 0; i < coarse.count << (shift_ - shift); ++i) to[i] = coarse.first[i >> (shift_ - shift)];
        });
        cells_ = std::move(finer);
        shift_ = shift;
    }

    std::size_t bytes_;
    unsigned shift_;
    ZeroPages<Cell> cells_;
    std::vector<std::uint64_t> touched_;  // a bit for each page
};

// An array in global memory. Python has the same struct.
struct CheckedArray {
    const char* name;
    std::uintptr_t address;
    std::int64_t rows, cols, ld;
    std::int32_t item_bytes;
    std::int32_t constant;  // whether nothing may write to it
    std::int32_t written;   // whether it has values from the beginning
    std::int32_t one_row;   // whether its elements have one index
    std::uint64_t slack;    // bytes before and after it that are nobody else's
};

// A variable in static shared memory. Python has the same struct.
struct SharedVariable {
    const char* name;
    std::uint64_t offset, bytes;
};

struct Region {
    explicit Region(const CheckedArray& array)
        : name(array.name),
          rows(array.address, array.rows, std::size_t(array.cols) * array.item_bytes, std::size_t(array.ld) * array.item_bytes),
          count(array.rows),
          item_bytes(array.item_bytes),
          constant(array.constant),
          written(array.written),
          one_row(array.one_row),
          slack(array.slack),
          shadow(array.constant ? 0 : rows.bytes(), array.item_bytes) {}

    bool reaches(std::uintptr_t address) const { return address - (rows.begin() - slack) < rows.bytes() + 2 * slack; }

    std::string name;
    Rows rows;
    std::int64_t count;  // of rows
    std::size_t item_bytes;
    bool constant, written, one_row;
    std::size_t slack;
    Shadow shadow;
};

}  // namespace simt
