// A warp's products of fragments (mma.sync), which hold elements as mma.cuh says.

#include <cstring>
#include <vector>

#include "abi.hpp"
#include "tensor_cores.hpp"

namespace simt {
namespace {

constexpr unsigned PRODUCT_ROWS = 16, PRODUCT_COLUMNS = 8;

// Calls visit(lane, i, row, column) for every sum i of a lane's.
template <typename Visit>
void each_sum(unsigned rows, unsigned columns, const Visit& visit) {
    for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
        for (unsigned i = 0; i < 4 * rows * columns; ++i) {
            const unsigned row = i / (4 * columns) * PRODUCT_ROWS + lane / 4 + i % 4 / 2 * 8;
            visit(lane, i, row, i / 4 % columns * PRODUCT_COLUMNS + lane % 4 * 2 + i % 2);
        }
    }
}

// Places a word's elements: of a factor's side, from this byte along k on.
void place(TensorFactor& factor, FactorType type, unsigned side, unsigned byte, unsigned word) {
    const unsigned bytes = bytes_of(type);
    for (unsigned i = 0; i < 4 / bytes; ++i) {
        const unsigned k = byte / bytes + i;
        if (bytes == 4) {
            std::memcpy(&factor.values[k][side], &word, sizeof word);
        } else {
            factor.bits[k][side] = std::uint16_t(word >> 8 * bytes * i & (1u << 8 * bytes) - 1);
        }
    }
}

}  // namespace
}  // namespace simt

// See abi.hpp. Of the tensor cores that have the instruction, those that keep the fewest bits.
const char* simt_multiply_fragments(void* const* arguments) {
    using namespace simt;
    static thread_local TensorFactor a, b;
    const auto of = [&](unsigned lane) -> const Fragments& { return *static_cast<const Fragments*>(arguments[lane]); };
    const unsigned rows = of(0).rows, columns = of(0).columns, width = PRODUCT_COLUMNS * columns;
    const FactorType of_a = of(0).of_a, of_b = of(0).of_b;
    for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
        const unsigned line = lane / 4, byte = lane % 4 * 4;
        for (unsigned i = 0; i < 4 * rows; ++i) place(a, of_a, i / 4 * PRODUCT_ROWS + line + i % 2 * 8, byte + i % 4 / 2 * 16, of(lane).a[i]);
        for (unsigned i = 0; i < 2 * columns; ++i) place(b, of_b, i / 2 * PRODUCT_COLUMNS + line, byte + i % 2 * 16, of(lane).b[i]);
    }
    a.decode(PRODUCT_ROWS * rows, of_a);
    b.decode(width, of_b);
    std::vector<float> sums(PRODUCT_ROWS * rows * width);
    each_sum(rows, columns, [&](unsigned lane, unsigned i, unsigned row, unsigned col) { sums[row * width + col] = of(lane).sums[i]; });
    for (unsigned row = 0; row < PRODUCT_ROWS * rows; ++row) {
        add_products(TensorCores::ampere, of_a, a, row, b, width, &sums[row * width]);
    }
    each_sum(rows, columns, [&](unsigned lane, unsigned i, unsigned row, unsigned col) { of(lane).sums[i] = sums[row * width + col]; });
    return nullptr;
}
