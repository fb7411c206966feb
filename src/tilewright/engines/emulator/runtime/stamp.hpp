// A mark that an access leaves on memory.
#pragma once

#include <cstdint>

namespace simt {

using Time = std::uint32_t;

struct Stamp {
    static constexpr std::uint16_t ATOMIC = 1, FRAGMENT = 2, COPY = 4;
    static constexpr Time UNDER_WAY = 0xffffffff;  // an asynchronous copy that has not come

    Time time = 0;  // 0: none
    std::uint32_t site = 0;
    std::uint16_t thread = 0;
    std::uint16_t flags = 0;
};

}  // namespace simt
