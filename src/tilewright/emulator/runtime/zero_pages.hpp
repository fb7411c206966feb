// Objects that begin as zeros in every byte, and take memory once they are touched: a page of them at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace simt {

template <typename T>
class ZeroPages {
  public:
    explicit ZeroPages(std::size_t count) : bytes_(count * sizeof(T)) {
        void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        objects_ = static_cast<T*>(memory);
    }
    ZeroPages(ZeroPages&& other) noexcept { swap(other); }
    ZeroPages& operator=(ZeroPages&& other) noexcept {
        swap(other);
        return *this;
    }
    ~ZeroPages() {
        if (objects_ != nullptr) munmap(objects_, bytes_);
    }

    // Objects that are soon used, where the system can give memory for them at once: each page of it alone takes longer.
    void populate(std::size_t first, std::size_t count) {
#ifdef MADV_POPULATE_WRITE
        const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(objects_), page = 4096;
        const std::size_t from = first * sizeof(T) / page * page;
        madvise(reinterpret_cast<void*>(begin + from), std::min((first + count) * sizeof(T), bytes_) - from, MADV_POPULATE_WRITE);
#endif
    }

    T& operator[](std::size_t index) { return objects_[index]; }

  private:
    void swap(ZeroPages& other) {
        std::swap(objects_, other.objects_);
        std::swap(bytes_, other.bytes_);
    }

    T* objects_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace simt
