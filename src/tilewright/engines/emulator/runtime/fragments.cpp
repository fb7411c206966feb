// A warp's products of fragments (mma.sync), which hold elements as mma.cuh says.

#include <vector>

#include "abi.hpp"
#include "tensor_cores.hpp"

namespace simt {
namespace {

constexpr unsigned ROWS = 16, COLUMNS = 8;  // of a product

// Calls visit(lane, i, row, column) for every sum i of a lane's.
template <typename Visit>
void each_sum(unsigned rows, unsigned columns, const Visit& visit) {
    for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
        for (unsigned i = 0; i < 4 * rows * columns; ++i) {
            const unsigned row = i / (4 * columns) * ROWS + lane / 4 + i % 4 / 2 * 8;
            visit(lane, i, row, i / 4 % columns * COLUMNS + lane % 4 * 2 + i % 2);
        }
    }
}

void place(TensorFactor& factor, unsigned side, unsigned k, unsigned pair) {
    factor.bits[k][side] = std::uint16_t(pair);
    factor.bits[k + 1][side] = std::uint16_t(pair >> 16);
}

}  // namespace
}  // namespace simt

// See abi.hpp. Of the tensor cores that have the instruction, those that keep the fewest bits.
const char* simt_multiply_fragments(void* const* arguments) {
    using namespace simt;
    static thread_local TensorFactor a, b;
    const auto of = [&](unsigned lane) -> const Fragments& { return *static_cast<const Fragments*>(arguments[lane]); };
    const unsigned rows = of(0).rows, columns = of(0).columns, width = COLUMNS * columns;
    for (unsigned lane = 0; lane < WARP_SIZE; ++lane) {
        const unsigned line = lane / 4, k = lane % 4 * 2;
        for (unsigned i = 0; i < 4 * rows; ++i) place(a, i / 4 * ROWS + line + i % 2 * 8, k + i % 4 / 2 * 8, of(lane).a[i]);
        for (unsigned i = 0; i < 2 * columns; ++i) place(b, i / 2 * COLUMNS + line, k + i % 2 * 8, of(lane).b[i]);
    }
    a.decode(ROWS * rows, of(0).type);
    b.decode(width, of(0).type);
    std::vector<float> sums(ROWS * rows * width);
    each_sum(rows, columns, [&](unsigned lane, unsigned i, unsigned row, unsigned col) { sums[row * width + col] = of(lane).sums[i]; });
    for (unsigned row = 0; row < ROWS * rows; ++row) {
        add_products(TensorCores::ampere, of(0).type, a, row, b, width, &sums[row * width]);
    }
    each_sum(rows, columns, [&](unsigned lane, unsigned i, unsigned row, unsigned col) { of(lane).sums[i] = sums[row * width + col]; });
    return nullptr;
}
