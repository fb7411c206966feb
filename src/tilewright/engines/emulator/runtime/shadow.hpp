// Shadow memory: for each word of memory the accesses that later ones may conflict with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rows.hpp"
#include "stamp.hpp"

namespace simt {

// The last write, and reads since. Where more threads read at one time than there is room for, some are kept: one is
// enough to show a conflict.
struct Cell {
    static constexpr unsigned READS = 3;

    Stamp write;
    Stamp reads[READS];
};

// The cells of a piece of memory: one for each word of 4 bytes, or for smaller pieces once some access takes part of
// a word.
class Shadow {
  public:
    explicit Shadow(std::size_t bytes = 0) : cells_(bytes / 4 + 1) {}

    struct Range {
        Cell* first;
        std::size_t count;
        std::size_t offset;         // of the first one's bytes
        std::size_t bytes_of_cell;
    };

    Range range(std::size_t offset, std::size_t bytes) {
        const std::size_t unaligned = (offset | bytes) & ((std::size_t{1} << shift_) - 1);
        if (__builtin_expect(unaligned != 0, 0)) refine(unaligned & 1 ? 0 : 1);
        return {&cells_[offset >> shift_], bytes >> shift_, offset, std::size_t{1} << shift_};
    }

  private:
    void refine(unsigned shift) {
        std::vector<Cell> finer(cells_.size() << (shift_ - shift));
        for (std::size_t i = 0; i < finer.size(); ++i) finer[i] = cells_[i >> (shift_ - shift)];
        cells_ = std::move(finer);
        shift_ = shift;
    }

    std::vector<Cell> cells_;
    unsigned shift_ = 2;
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
          shadow(array.constant ? 0 : rows.bytes()) {}

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
