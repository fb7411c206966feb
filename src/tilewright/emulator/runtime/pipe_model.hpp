// What a request, one instruction of one warp, costs the pipes between a multiprocessor and its memories.
//
// Global memory is moved in sectors of 32 bytes: a request costs one for each that its lanes touch (CUDA C++ Best
// Practices Guide, "Coalesced Access to Global Memory"). Shared memory has 32 banks of 4 bytes. A request is served in
// phases, each of them in as many wavefronts as the busiest bank has different words in it; a word that several lanes
// want is read once. Up to 4 bytes a lane are one phase, 8 bytes two halves of the warp, 16 bytes four quarters; and two
// parts of 8 bytes, or the two quarters of a half of 16 bytes, go together where all lanes want the same as their
// neighbour (lane ^ 1), or all the same as the one after that (lane ^ 2). Both rules give what Nsight Compute counts.
// The L1 cache lies in the same banks: words of global memory that it has are read from them alike, after each line of
// 128 bytes was looked up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "abi.hpp"

namespace simt {

constexpr std::uint32_t SECTOR_BYTES = 32, LINE_BYTES = 128;
constexpr unsigned BANKS = 32;

// A warp's request: the lanes that take part, and the address of each.
struct Request {
    std::uint32_t lanes = 0;
    std::uintptr_t address[WARP_SIZE];
};

struct Wavefronts {
    std::uint64_t all = 0;
    std::uint64_t least = 0;  // were there no bank conflicts: the phases
};

namespace pipe {

// Sorts values and says how many different ones there are.
inline std::size_t count_distinct(std::uintptr_t* begin, std::uintptr_t* end) {
    if (!std::is_sorted(begin, end)) std::sort(begin, end);
    return std::unique(begin, end) - begin;
}

// Whether all of these lanes want what the lane at this distance wants, or that one takes no part.
inline bool in_pairs(const Request& request, std::uint32_t lanes, unsigned distance) {
    for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
        const unsigned lane = __builtin_ctz(left), other = lane ^ distance;
        if ((lanes >> other & 1) != 0 && request.address[lane] != request.address[other]) return false;
    }
    return true;
}

// The wavefronts of lanes that are served together.
inline std::uint64_t phase(const Request& request, std::uint32_t lanes, std::uint32_t bytes) {
    std::uintptr_t words[WARP_SIZE * 4];
    std::size_t count = 0;
    for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
        const std::uintptr_t first = request.address[__builtin_ctz(left)];
        for (std::uintptr_t word = first / 4; word <= (first + bytes - 1) / 4 && count < WARP_SIZE * 4; ++word) {
            words[count++] = word;
        }
    }
    count = count_distinct(words, words + count);
    std::uint64_t in_bank[BANKS] = {}, most = 0;
    for (std::size_t i = 0; i < count; ++i) most = std::max(most, ++in_bank[words[i] % BANKS]);
    return most;
}

// Pieces of memory of this size that a request touches.
inline std::uint64_t touched(const Request& request, std::uint32_t bytes, std::uint32_t size) {
    std::uintptr_t pieces[WARP_SIZE * 2];  // an access of up to 16 bytes touches two at most
    std::size_t count = 0;
    for (std::uint32_t left = request.lanes; left != 0; left &= left - 1) {
        const std::uintptr_t first = request.address[__builtin_ctz(left)];
        pieces[count++] = first / size;
        const std::uintptr_t last = (first + bytes - 1) / size;
        if (last != pieces[count - 1]) pieces[count++] = last;
    }
    return count_distinct(pieces, pieces + count);
}

}  // namespace pipe

inline std::uint64_t sectors(const Request& request, std::uint32_t bytes) {
    return pipe::touched(request, bytes, SECTOR_BYTES);
}

// Of the L1 cache: each is looked up.
inline std::uint64_t lines(const Request& request, std::uint32_t bytes) {
    return pipe::touched(request, bytes, LINE_BYTES);
}

inline Wavefronts wavefronts(const Request& request, std::uint32_t bytes) {
    Wavefronts sum;
    const auto serve = [&](std::uint32_t lanes) {
        lanes &= request.lanes;
        if (lanes == 0) return;
        sum.all += pipe::phase(request, lanes, bytes);
        ++sum.least;
    };
    const auto together = [&](std::uint32_t lanes) {
        lanes &= request.lanes;
        return pipe::in_pairs(request, lanes, 1) || pipe::in_pairs(request, lanes, 2);
    };
    if (bytes <= 4) {
        serve(0xffffffff);
    } else if (bytes <= 8) {
        if (together(0xffffffff)) {
            serve(0xffffffff);
        } else {
            serve(0x0000ffff);
            serve(0xffff0000);
        }
    } else {
        for (const std::uint32_t half : {0x0000ffffu, 0xffff0000u}) {
            if (together(half)) {
                serve(half);
            } else {
                serve(half & 0x00ff00ff);
                serve(half & 0xff00ff00);
            }
        }
    }
    return sum;
}

}  // namespace simt
