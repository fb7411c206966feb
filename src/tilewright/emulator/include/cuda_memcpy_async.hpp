// What asynchronous copies of cooperative groups and of libcu++ have in common on the emulator: pieces of 16, 8 or 4 bytes, of
// which each thread of a group of N copies every N-th, and what no instruction copies as it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda {

// A size, and what it and both addresses are multiples of.
template <std::size_t Alignment>
struct aligned_size_t {
    static constexpr std::size_t align = Alignment;
    std::size_t value;
    explicit constexpr aligned_size_t(std::size_t bytes) : value(bytes) {}
    constexpr operator std::size_t() const { return value; }
};

}  // namespace cuda

namespace simt {

template <unsigned BYTES>
__forceinline__ void copy_pieces(char* to, const char* from, std::size_t bytes, unsigned rank, unsigned threads, Call call,
                                 const void* barrier) {
    for (std::size_t at = std::size_t{rank} * BYTES; at < bytes; at += std::size_t{threads} * BYTES) {
        simt_copy_async_at(simt_thread(), call, to + at, from + at, BYTES, barrier);
    }
}

// The part of a copy that the thread of this rank has, of this many. An mbarrier waits for it, or else the thread's group of copies.
__forceinline__ void copy_together(void* to, const void* from, std::size_t bytes, unsigned rank, unsigned threads, Call call,
                                   const void* barrier = nullptr) {
    auto* const target = static_cast<char*>(to);
    auto* const source = static_cast<const char*>(from);
    const std::uintptr_t all = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | bytes;
    if (!simt_is_shared(simt_thread(), to) || all % 4 != 0) {
        for (std::size_t at = rank; at < bytes; at += threads) target[at] = source[at];
    } else if (all % 16 == 0) {
        copy_pieces<16>(target, source, bytes, rank, threads, call, barrier);
    } else if (all % 8 == 0) {
        copy_pieces<8>(target, source, bytes, rank, threads, call, barrier);
    } else {
        copy_pieces<4>(target, source, bytes, rank, threads, call, barrier);
    }
}

}  // namespace simt
