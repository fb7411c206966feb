// Products of warpgroups (wgmma), which a GPU's tensor cores compute on their own: when they begin and how far they are
// nobody knows until a thread has waited for them.
//
// Here they are computed at the wait, from what shared memory holds then, and the sums are poison until then. So who refills
// a tile too early, and who reads the sums too early, gets no right result by luck. Of a factor in registers the words are kept
// at the start, and compared at the wait: who writes them in between is told so.
//
// Registers move between the warpgroups of a block (setmaxnreg): one that takes more than are free waits until others give some.
//
// Source: the PTX ISA manual, "Asynchronous Warpgroup Level Matrix Instructions" and "setmaxnreg".
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "abi.hpp"
#include "tensor_cores.hpp"

namespace simt {

struct GpuThread;

constexpr unsigned WARPGROUP_SIZE = 128;

// Of an address in shared memory; the bits above are a rank in the cluster plus 1, or 0 for the block's own.
constexpr unsigned WINDOW_BITS = 24;

// Registers that a thread of a block of this many starts with. setmaxnreg needs a kernel with a cap on them, here that of
// its launch bounds, __launch_bounds__(threads, 1), and then the compiler gives each thread all that the cap allows, however
// few the code uses: an equal share of a multiprocessor's registers, in units of 8. (168 of 384 threads.)
unsigned registers_of_thread(std::size_t threads);

// A matrix descriptor, decoded, and what it says of where elements lie.
class MatrixLayout {
  public:
    explicit MatrixLayout(const WgmmaFactor& factor)
        : start_((factor.descriptor & 0x3fff) << 4),
          leading_((factor.descriptor >> 16 & 0x3fff) << 4),
          stride_((factor.descriptor >> 32 & 0x3fff) << 4),
          base_offset_(factor.descriptor >> 49 & 7),
          swizzle_(SWIZZLES[factor.descriptor >> 62]),
          element_shift_(__builtin_ctz(bytes_of(factor.type))),
          across_k_(factor.across_k) {}

    bool has_base_offset() const { return base_offset_ != 0; }

    // The bytes after which the pattern of its swizzle begins anew, at multiples of them; 1 without a swizzle.
    std::uint32_t period() const { return swizzle_ ? 8 * swizzle_ : 1; }

    // How far past such a multiple the first of eight lines is.
    std::uint32_t past_pattern() const { return swizzle_ ? start_ / swizzle_ * swizzle_ % period() : 0; }

    // The address of element k of row (or column) `side`, in the block's window of shared memory. Lines have `swizzle`
    // bytes, 16 without one. Along k, eight rows are `stride` apart; across k, so are eight k, and lines' worths of rows
    // are `leading` apart. Without a swizzle the two change roles.
    std::uint32_t address(unsigned side, unsigned k) const {
        const unsigned line = swizzle_ ? swizzle_ : PIECE;
        const unsigned shift = __builtin_ctz(line) - element_shift_;  // 2^shift elements of a line
        const unsigned inner = across_k_ ? side : k, outer = across_k_ ? k : side;
        const std::uint32_t in_line = (inner & ((1u << shift) - 1)) << element_shift_, lines = inner >> shift, eights = outer / 8;
        const bool exchanged_roles = across_k_ && swizzle_ == 0;
        const std::uint32_t offset = in_line + outer % 8 * line + lines * (exchanged_roles ? stride_ : leading_) +
                                     eights * (exchanged_roles ? leading_ : stride_);
        const std::uint32_t address = start_ + offset;
        const std::uint32_t exchanged = swizzle_ ? swizzle_ / 16 - 1 : 0;
        return address ^ (address >> 7 & exchanged) << 4;
    }

  private:
    static constexpr unsigned PIECE = 16;
    static constexpr unsigned SWIZZLES[] = {0, 128, 64, 32};

    std::uint32_t start_, leading_, stride_;
    unsigned base_offset_, swizzle_, element_shift_;
    bool across_k_;
};

// Sums that a warpgroup's threads have in registers.
struct Accumulator {
    float* registers[WARPGROUP_SIZE];
    unsigned columns;
    std::vector<float> sums;   // 64 x columns, by rows
    unsigned in_flight = 0;    // products that are not computed

    static std::size_t index(unsigned thread, unsigned i, unsigned columns) {
        const unsigned row = thread / WARP_SIZE * 16 + thread % WARP_SIZE / 4 + i / 2 % 2 * 8;
        const unsigned col = i / 4 * 8 + thread % 4 * 2 + i % 2;
        return std::size_t(row) * columns + col;
    }

    // Whether thread t's registers hold something else than what the tensor cores left there.
    bool touched(unsigned t) const;
    void load();
    void poison() const;
    void store() const;
};

// A of a product in registers: of each thread four words, each a float or a pair of 16-bit elements.
constexpr unsigned FACTOR_WORDS = 4;

struct RegisterFactor {
    const unsigned* registers[WARPGROUP_SIZE];  // null: A is in shared memory
    unsigned words[WARPGROUP_SIZE][FACTOR_WORDS];

    bool exists() const { return registers[0] != nullptr; }
    // Whether thread t's registers hold something else than `words`.
    bool touched(unsigned t) const;
    void load(unsigned t);
};

struct WgmmaProduct {
    Call call;
    RegisterFactor a_registers;
    WgmmaFactor a, b;
    unsigned columns;
    bool adds;
    std::size_t accumulator;
};

// 128 threads in a row, and the products that they have started.
struct Warpgroup {
    GpuThread* threads = nullptr;
    unsigned size = 0;  // threads, fewer than 128 in the last one of some blocks

    // Threads that have arrived at one function together.
    Call call = {};
    unsigned arrived = 0;
    WgmmaArguments arguments[WARPGROUP_SIZE] = {};

    bool fenced[WARPGROUP_SIZE] = {};  // since the thread last had its sums back
    std::vector<Accumulator> accumulators = {};
    std::vector<RegisterFactor> factors = {};  // that were multiplied: what they held at each thread's last fence
    std::vector<WgmmaProduct> open = {};  // of no group yet
    std::deque<std::vector<WgmmaProduct>> groups = {};

    unsigned registers = 0;  // of a thread
    unsigned asked = 0;      // of a thread, of the last setmaxnreg_dec or setmaxnreg_inc

    void begin_block(unsigned registers_of_thread);
};

}  // namespace simt
