// Asynchronous copies into shared memory, which come as late as a GPU may let them: cp.async and tiles of a tensor map.
//
// When a copy is started, its destination is poisoned, since from then on a GPU may write there; the data come when
// somebody waits for them. So who reads too early, and who overwrites what others still read, gets no right result by
// luck.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "abi.hpp"
#include "observer.hpp"

namespace simt {

constexpr int POISON = 0xff;  // what memory that nobody wrote holds: NaNs as floats, -1 as integers

// The copies of one thread: those of each group come when the thread waits for it.
class AsyncCopies {
  public:
    void start(const CopyAccess& copy) {
        std::memset(copy.shared, POISON, copy.bytes);
        copies_.push_back(copy);
    }

    void commit() { group_ends_.push_back(copies_.size()); }

    // Carries out all groups but the youngest `pending`, and calls landed(copy) for each of their copies.
    template <typename Landed>
    void wait(std::size_t pending, Landed landed) {
        if (group_ends_.size() <= pending) return;
        const std::size_t groups = group_ends_.size() - pending;
        const std::size_t count = group_ends_[groups - 1];
        for (std::size_t i = 0; i < count; ++i) {
            finish(copies_[i]);
            landed(copies_[i]);
        }
        copies_.erase(copies_.begin(), copies_.begin() + count);
        group_ends_.erase(group_ends_.begin(), group_ends_.begin() + groups);
        for (std::size_t& end : group_ends_) end -= count;
    }

    void forget() {
        copies_.clear();
        group_ends_.clear();
    }

  private:
    static void finish(const CopyAccess& copy) {
        if (copy.read != 0) std::memcpy(copy.shared, copy.global, copy.read);
        std::memset(copy.shared + copy.read, 0, copy.bytes - copy.read);
    }

    std::vector<CopyAccess> copies_;             // in the order of their starts
    std::vector<std::size_t> group_ends_;  // indices in copies_
};

// A box of a matrix on its way into shared memory.
struct TileCopy {
    static constexpr int PIECE_BYTES = 16;  // a box begins at a multiple of them in its row

    Call call;  // that started it
    unsigned char* shared;
    TensorMap map;
    int col, row, matrix;
    const Block* block = nullptr;  // whose shared memory it goes to
    bool again = false;            // whether another block gets the same box by the same load

    std::size_t row_bytes() const { return std::size_t(map.box_cols) * map.element_bytes; }
    std::size_t bytes() const { return row_bytes() * map.box_rows; }

    // The boundary that the destination lies on: with a swizzle, that at which its pattern begins anew.
    std::size_t alignment() const { return map.swizzle == 0 ? 128 : std::size_t(map.swizzle) * 8; }

    // Whether the column is one that a GPU takes, inside the matrix or not: on any other the instruction is illegal.
    bool begins_at_a_piece() const { return std::int64_t(col) * map.element_bytes % PIECE_BYTES == 0; }

    // Writes the box: zeros for elements outside of the matrix, and of the batch.
    void finish() const {
        const bool matrix_inside = 0 <= matrix && matrix < map.matrices;
        const unsigned char* const data = map.data + (matrix_inside ? matrix * map.matrix_stride : 0);
        for (int r = 0; r < map.box_rows; ++r) {
            const std::int64_t from_row = std::int64_t(row) + r;
            const bool row_inside = matrix_inside && 0 <= from_row && from_row < map.rows;
            for (int c = 0; c < map.box_cols; ++c) {
                const std::int64_t from_col = std::int64_t(col) + c;
                unsigned char* to = shared + swizzled(r * row_bytes() + std::size_t(c) * map.element_bytes);
                if (row_inside && 0 <= from_col && from_col < map.cols) {
                    std::memcpy(to, data + from_row * map.row_stride + from_col * map.element_bytes,
                                map.element_bytes);
                } else {
                    std::memset(to, 0, map.element_bytes);
                }
            }
        }
    }

    // Where a byte of the box lies: bits 4 to 6 of its offset are xored with bits 7 to 9, fewer for a shorter
    // swizzle.
    std::size_t swizzled(std::size_t offset) const {
        const std::size_t mask = map.swizzle == 0 ? 0 : map.swizzle / 16 - 1;
        return offset ^ (offset >> 7 & mask) << 4;
    }
};

}  // namespace simt
