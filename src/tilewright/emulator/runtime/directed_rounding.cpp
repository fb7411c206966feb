// Arithmetic that rounds toward zero, up or down, by the processor's own modes.

#include <cfenv>
#include <cmath>

#include "abi.hpp"

namespace simt {
namespace {

int mode_of(Direction direction) {
    return direction == Direction::zero ? FE_TOWARDZERO : direction == Direction::up ? FE_UPWARD : FE_DOWNWARD;
}

// The processor's mode while this lives. What is computed then is volatile, so that it stays between the changes of mode.
class Rounding {
    const int before_ = std::fegetround();

  public:
    explicit Rounding(Direction direction) { std::fesetround(mode_of(direction)); }
    ~Rounding() { std::fesetround(before_); }
    Rounding(const Rounding&) = delete;
    Rounding& operator=(const Rounding&) = delete;
};

template <typename T>
T computed(Exactly operation, Direction direction, volatile T a, volatile T b, volatile T c) {
    const Rounding rounding(direction);
    volatile T result = 0;
    switch (operation) {
        case Exactly::sum: result = a + b; break;
        case Exactly::product: result = a * b; break;
        case Exactly::quotient: result = a / b; break;
        case Exactly::root: result = std::sqrt(a); break;
        case Exactly::fused: result = std::fma(a, b, c); break;
    }
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
    const simt::Rounding rounding(direction);
    volatile double from = value;
    volatile float result = float(from);
    return result;
}
