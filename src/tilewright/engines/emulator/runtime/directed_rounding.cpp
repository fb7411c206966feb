// Arithmetic that rounds toward zero, up or down, by the processor's own modes.

#include <cfenv>
#include <cmath>

#include "abi.hpp"

namespace simt {
namespace {

int mode_of(Direction direction) {
    return direction == Direction::zero ? FE_TOWARDZERO : direction == Direction::up ? FE_UPWARD : FE_DOWNWARD;
}

// Volatile: what is computed stays between the changes of mode.
template <typename T>
T computed(Exactly operation, Direction direction, volatile T a, volatile T b, volatile T c) {
    const int before = std::fegetround();
    std::fesetround(mode_of(direction));
    volatile T result = 0;
    switch (operation) {
        case Exactly::sum: result = a + b; break;
        case Exactly::product: result = a * b; break;
        case Exactly::quotient: result = a / b; break;
        case Exactly::root: result = std::sqrt(a); break;
        case Exactly::fused: result = std::fma(a, b, c); break;
    }
    std::fesetround(before);
    return result;
}

}  // namespace
}  // namespace simt

float simt_directed_float(simt::Exactly operation, simt::Direction direction, float a, float b, float c) {
    return simt::computed<float>(operation, direction, a, b, c);
}

double simt_directed_double(simt::Exactly operation, simt::Direction direction, double a, double b, double c) {
    return simt::computed<double>(operation, direction, a, b, c);
}

float simt_narrowed(simt::Direction direction, double value) {
    const int before = std::fegetround();
    std::fesetround(simt::mode_of(direction));
    volatile double from = value;
    volatile float result = float(from);
    std::fesetround(before);
    return result;
}
