// Rows of an array in memory, and which accesses stay inside of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {

class Rows {
  public:
    // Bytes of a row, and from one row to the next.
    Rows(std::uintptr_t begin, std::size_t rows, std::size_t row_bytes, std::size_t stride)
        : begin_(begin),
          bytes_(rows == 0 ? 0 : (rows - 1) * stride + row_bytes),
          row_bytes_(row_bytes),
          stride_(stride),
          reciprocal_(stride == 0 ? 0 : ~std::uint64_t{0} / stride + 1) {}

    std::uintptr_t begin() const { return begin_; }
    std::size_t bytes() const { return bytes_; }
    std::size_t row_bytes() const { return row_bytes_; }
    std::size_t stride() const { return stride_; }

    bool hold(std::uintptr_t address) const { return address - begin_ < bytes_; }

    // Whether an access that begins at this offset, in the array, stays inside. A load of several elements may reach past the end of
    // its row, into the gap before the next: the memory is there, and nobody need use what it gives.
    bool allow(std::size_t offset, std::size_t size, bool reads) const {
        if (size > bytes_ - offset) return false;
        return row_bytes_ == stride_ || in_row(offset) + (reads ? 1 : size) <= row_bytes_;
    }

  private:
    // offset % stride_, which takes a processor longer (D. Lemire, O. Kaser, N. Kurz, "Faster remainder by direct computation",
    // 2019).
    std::size_t in_row(std::size_t offset) const {
        if (__builtin_expect((offset | stride_) >> 32 != 0, 0)) return offset % stride_;
        using Wide = unsigned __int128;
        return std::size_t(Wide(reciprocal_ * offset) * stride_ >> 64);
    }

    std::uintptr_t begin_;
    std::size_t bytes_, row_bytes_, stride_;
    std::uint64_t reciprocal_;
};

}  // namespace simt
