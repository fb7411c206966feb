// A mark that an access leaves on memory, and who is known to have left it.
#pragma once

#include <cstdint>

namespace simt {

using Time = std::uint32_t;

// Actors: those that access memory on their own, of all blocks that run together. Each block has this many numbers, by rank; the
// first are its threads', then come its copy engine's and its tensor cores' (ordering.hpp).
constexpr unsigned ACTORS = 2048;

inline unsigned rank_of(unsigned actor) { return actor / ACTORS; }

struct Stamp {
    static constexpr unsigned ATOMIC = 1, FRAGMENT = 2, COPY = 4;
    static constexpr unsigned ARRIVAL = 8;  // at a barrier, which is no access of a cell
    static constexpr unsigned STORE = 8;    // among a cell's reads: a store of the value that the last write has stored again
    static constexpr Time IN_FLIGHT = 0xffffffff;  // an asynchronous copy that has not arrived

    Time time = 0;  // 0: none
    std::uint32_t site = 0;
    std::uint32_t actor : 28, flags : 4;

    Stamp() : actor(0), flags(0) {}
    Stamp(Time time, std::uint32_t site, unsigned actor, unsigned flags)
        : time(time), site(site), actor(actor), flags(flags) {}

    // Actor and flags in one word.
    static constexpr unsigned ACTOR_BITS = 28;
    static constexpr std::uint32_t OF_ACTOR = (1u << ACTOR_BITS) - 1;
    std::uint32_t who() const { return actor | flags << ACTOR_BITS; }
    Stamp(Time time, std::uint32_t site, std::uint32_t who)
        : time(time), site(site), actor(who & OF_ACTOR), flags(who >> ACTOR_BITS) {}
};

}  // namespace simt
