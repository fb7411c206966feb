// Functions of CUDA's that C++ has not.

#include <cmath>
#include <limits>

#include "abi.hpp"

// By an approximation (Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.22) and steps of Halley's method.
double simt_erfc_inverse(double value) {
    if (!(value >= 0 && value <= 2)) return std::numeric_limits<double>::quiet_NaN();
    if (value == 0 || value == 2) return value == 0 ? HUGE_VAL : -HUGE_VAL;
    const double tail = value < 1 ? value : 2 - value, t = std::sqrt(-2 * std::log(tail / 2));
    double x = M_SQRT1_2 * (t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)));
    for (int step = 0; step < 3; ++step) {
        const double above = std::erfc(x) - tail;
        x += above / (M_2_SQRTPI * std::exp(-x * x) - x * above);
    }
    return value < 1 ? x : -x;
}

double simt_erf_inverse(double value) {
    if (!(std::fabs(value) < 0.5)) return value < 0 ? -simt_erfc_inverse(1 + value) : simt_erfc_inverse(1 - value);
    double x = value / M_2_SQRTPI;
    for (int step = 0; step < 4; ++step) {
        const double above = std::erf(x) - value;
        x -= above / (M_2_SQRTPI * std::exp(-x * x) + x * above);
    }
    return x;
}
