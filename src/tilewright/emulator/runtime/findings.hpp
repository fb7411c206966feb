// What a checker found: one finding for each kind and pair of places in the code, with the first case in detail.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "abi.hpp"

namespace simt {

struct Finding {
    // A thread, and what it did where.
    struct Party {
        std::string did;
        uint3 block, thread;
        const char* engine;  // what it is where it is no thread, else null
        std::uint32_t site;
    };

    // Memory as a reader of the kernel knows it: an element of an array, or a byte of a variable.
    struct Place {
        std::string array;
        bool shared;
        std::vector<std::int64_t> index;  // row and column, or the one index, or bytes from a variable's start
        std::vector<std::int64_t> extents;
        std::int64_t count;  // of elements of global memory that are accessed together
    };

    std::string kind;
    Party party;
    bool has_place;
    Place place;
    bool has_other;
    Party other;
    std::string message;
    std::uint64_t count;
    std::size_t period;  // bytes of which the place should be at a multiple, else 0
};

class Findings {
  public:
    // Sites are code addresses less that of the kernel's library, or with the highest bit set, calls.
    static constexpr std::uint32_t CALL = 0x80000000;

    std::uint32_t site_of(const Call& call);

    // Counts a finding; says whether it is the first of its kind and places, which is to be put in.
    bool is_new(const char* kind, std::uint32_t site, std::uint32_t other_site);
    void put(Finding finding);

    std::string json() const;

  private:
    using Key = std::tuple<std::string, std::uint32_t, std::uint32_t>;

    std::string json(const Finding::Party& party) const;

    std::map<Key, std::size_t> indices_;
    std::vector<Finding> all_;
    std::vector<Call> calls_;
};

}  // namespace simt
