// Asynchronous copies, which come as late as a GPU may let them: cp.async and tiles of a tensor map into shared memory, and
// tiles out of it.
//
// When a copy is started, its destination is poisoned, since from then on a GPU may write there; the data come when
// somebody waits for them. So who reads too early, and who overwrites what others still read, gets no right result by
// luck.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "abi.hpp"
#include "observer.hpp"

namespace simt {

constexpr int POISON = 0xff;  // what uninitialised memory holds: NaNs as floats, -1 as integers

// The copies of one thread: those of each group come when the thread waits for it, those that a barrier waits for when the thread
// arrives there.
class AsyncCopies {
  public:
    void start(const CopyAccess& copy) {
        std::memset(copy.shared, POISON, copy.bytes);
        (copy.barrier != nullptr ? at_barriers_ : copies_).push_back(copy);
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

    // Carries out those that this barrier waits for.
    template <typename Landed>
    void wait_at(const void* barrier, Landed landed) {
        const auto waits = [&](const CopyAccess& copy) { return copy.barrier == barrier; };
        for (const CopyAccess& copy : at_barriers_) {
            if (!waits(copy)) continue;
            finish(copy);
            landed(copy);
        }
        at_barriers_.erase(std::remove_if(at_barriers_.begin(), at_barriers_.end(), waits), at_barriers_.end());
    }

    void forget() {
        copies_.clear();
        at_barriers_.clear();
        group_ends_.clear();
    }

  private:
    static void finish(const CopyAccess& copy) {
        if (copy.read != 0) std::memcpy(copy.shared, copy.global, copy.read);
        std::memset(copy.shared + copy.read, 0, copy.bytes - copy.read);
    }

    std::vector<CopyAccess> copies_, at_barriers_;  // in the order of their starts
    std::vector<std::size_t> group_ends_;           // indices in copies_
};

// A box of an array, in global memory and in shared memory. Its rows are what lies along the first dimension, in the order of
// the others.
struct TileBox {
    static constexpr int PIECE_BYTES = 16;  // a box begins at a multiple of them in its row

    Call call;  // that moves it
    unsigned char* shared;
    TensorMap map;
    int at[TensorMap::MOST];  // its first element
    bool whole_pieces = false;  // whether it moves those too in which a row of the array ends, as stores do
    bool is_row = false;        // bytes in a row, of no tensor map

    std::size_t row_bytes() const { return std::size_t(map.box[0]) * map.element_bytes; }
    int rows() const { return map.box[1] * map.box[2] * map.box[3] * map.box[4]; }
    std::size_t bytes() const { return row_bytes() * rows(); }

    // The boundary that it lies on in shared memory.
    std::size_t alignment() const { return is_row ? PIECE_BYTES : 128; }

    // The bytes after which the pattern of its swizzle begins anew, at multiples of them; 1 without a swizzle.
    std::size_t period() const { return is_row || map.swizzle == 0 ? 1 : std::size_t(map.swizzle) * 8; }

    // Whether its rows begin where a GPU takes them, inside the array or not: elsewhere the instruction is illegal.
    bool begins_at_a_piece() const { return std::int64_t(at[0]) * map.element_bytes % PIECE_BYTES == 0; }

    // The bytes of each row of the box that are elements of the array, or move with them: from the first to the end.
    std::size_t first_inside() const { return bytes_until(0); }
    std::size_t end_inside() const {
        const std::size_t end = bytes_until(map.extents[0]);
        return whole_pieces ? (end + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES : end;
    }

    // Where a row of the box begins in memory, as if all its elements were there; null where the array has no such row.
    unsigned char* row_in_memory(int r) const {
        std::int64_t offset = std::int64_t(at[0]) * map.element_bytes;
        for (int i = 1; i < map.dimensions; ++i) {
            std::int64_t along = at[i];
            if (map.box[i] != 1) along += r % map.box[i], r /= map.box[i];
            if (along < 0 || along >= map.extents[i]) return nullptr;
            offset += along * map.strides[i - 1];
        }
        return const_cast<unsigned char*>(map.data) + offset;
    }

    // Where a byte of the box lies in shared memory: bits 4 to 6 of its address are xored with bits 7 to 9, fewer for a
    // shorter swizzle. Addresses are the host's, as far past multiples of 1024 as the GPU's.
    unsigned char* in_shared(int r, std::size_t byte) const {
        const std::size_t mask = map.swizzle == 0 ? 0 : map.swizzle / 16 - 1;
        const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(shared) + r * row_bytes() + byte;
        return reinterpret_cast<unsigned char*>(address ^ (address >> 7 & mask) << 4);
    }

    // Calls visit(row, byte, bytes) for the part inside of the array of each piece, which swizzles move as a whole.
    template <typename Visit>
    void each_piece_inside(const Visit& visit) const {
        for (int r = 0; r < rows(); ++r) {
            if (row_in_memory(r) == nullptr) continue;
            std::size_t end;
            for (std::size_t byte = first_inside(); byte < end_inside(); byte = end) {
                end = std::min<std::size_t>(byte / PIECE_BYTES * PIECE_BYTES + PIECE_BYTES, end_inside());
                visit(r, byte, end - byte);
            }
        }
    }

  private:
    std::size_t bytes_until(std::int64_t element) const {
        return std::size_t(std::clamp<std::int64_t>(element - at[0], 0, map.box[0])) * map.element_bytes;
    }
};

// One on its way into shared memory.
struct TileCopy : TileBox {
    const Block* block = nullptr;  // whose shared memory it goes to
    bool again = false;            // whether another block gets the same box by the same load

    // Writes the box: zeros for elements outside of the array.
    void finish() const {
        std::memset(shared, 0, bytes());
        each_piece_inside([&](int r, std::size_t byte, std::size_t count) {
            std::memcpy(in_shared(r, byte), row_in_memory(r) + byte, count);
            for (std::size_t i = 0; map.rounds && i < count; i += sizeof(float)) round_to_tf32(in_shared(r, byte) + i);
        });
    }

  private:
    // To 10 bits of mantissa, to nearest, ties to even. What is next to infinity becomes infinity; NaN stays as it is.
    static void round_to_tf32(unsigned char* element) {
        std::uint32_t bits;
        std::memcpy(&bits, element, sizeof bits);
        if ((bits & 0x7f800000) == 0x7f800000) return;
        bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
        std::memcpy(element, &bits, sizeof bits);
    }
};

// One on its way to global memory. A GPU was seen to write whole pieces: where the array is a part of another, and its rows
// end within a piece, their ends overwrite what lies behind.
struct TileStore : TileBox {
    std::vector<unsigned char> data = {};  // of its rows, once shared memory has been read

    void read() {
        data.resize(bytes());
        each_piece_inside([&](int r, std::size_t byte, std::size_t count) {
            std::memcpy(&data[r * row_bytes() + byte], in_shared(r, byte), count);
        });
    }

    void write() const {
        each_piece_inside([&](int r, std::size_t byte, std::size_t count) {
            std::memcpy(row_in_memory(r) + byte, &data[r * row_bytes() + byte], count);
        });
    }
};

// The stores of tiles of one thread. Shared memory is read when the thread waits for that; the matrix is written when it
// waits for all of the store, or at the end of the block.
class TileStores {
  public:
    void start(TileStore store) { stores_.push_back(std::move(store)); }
    void commit() { group_ends_.push_back(stores_.size()); }

    // Reads for all groups but the youngest `pending`, and calls done(store) for each of their stores that was not read.
    template <typename Done>
    void wait_read(std::size_t pending, const Done& done) {
        for (const std::size_t end = end_of_all_but(pending); read_ < end; ++read_) {
            stores_[read_].read();
            done(stores_[read_]);
        }
    }

    // Writes for those groups, which have been read.
    template <typename Done>
    void wait_written(std::size_t pending, const Done& done) {
        const std::size_t end = end_of_all_but(pending);
        write(end, done);
        group_ends_.erase(group_ends_.begin(), group_ends_.end() - std::min(pending, group_ends_.size()));
        for (std::size_t& group_end : group_ends_) group_end -= end;
    }

    // Writes what has been read, at the end of the block. Returns a store that nobody waited for, or null.
    template <typename Done>
    const TileStore* end_block(const Done& done) {
        write(read_, done);
        return stores_.empty() ? nullptr : &stores_.front();
    }

    void forget() {
        stores_.clear();
        group_ends_.clear();
        read_ = 0;
    }

  private:
    std::size_t end_of_all_but(std::size_t pending) const {
        return group_ends_.size() <= pending ? 0 : group_ends_[group_ends_.size() - pending - 1];
    }

    template <typename Done>
    void write(std::size_t end, const Done& done) {
        for (std::size_t i = 0; i < end; ++i) {
            stores_[i].write();
            done(stores_[i]);
        }
        stores_.erase(stores_.begin(), stores_.begin() + end);
        read_ -= end;
    }

    std::vector<TileStore> stores_;        // in the order of their starts
    std::vector<std::size_t> group_ends_;  // indices in stores_
    std::size_t read_ = 0;                 // stores whose shared memory has been read: the first ones
};

}  // namespace simt
