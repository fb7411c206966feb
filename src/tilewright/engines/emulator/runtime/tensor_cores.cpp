#include "tensor_cores.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace simt {
namespace {

constexpr int ALWAYS = -126;                    // the largest exponent is at least this
constexpr std::int16_t OF_ZERO = -10000;        // with it, a product's exponent is less than any other
constexpr unsigned LANES = 8;

// With exponents of terms in this range, floats hold every product exactly, and the factor 2^(KEPT - exponent) that aligns
// terms.
constexpr int LEAST = -102, LARGEST = 126;

// Bits of a double that are behind a sum's.
constexpr std::int64_t lost(int mantissa_bits) { return (1ll << (52 - mantissa_bits)) - 1; }

// What is added at once: products of PRODUCTS k, of the DEPTH that an instruction adds for a type, each kept with KEPT bits behind
// the point; and the bits that the sum does not keep, which has MANTISSA.
template <unsigned AT_ONCE, FactorType TYPE, int BEHIND, int MANTISSA>
struct Adder {
    static constexpr unsigned PRODUCTS = AT_ONCE, DEPTH = depth_of(TYPE);
    static constexpr int KEPT = BEHIND;
    static constexpr std::int64_t LOST = lost(MANTISSA);
};
using Hopper = Adder<16, FactorType::half, 25, 23>;
using HopperTf32 = Adder<8, FactorType::tf32, 25, 23>;
using HopperFloat8 = Adder<32, FactorType::e4m3, 13, 13>;
using Ampere = Adder<8, FactorType::half, 24, 23>;
using AmpereTf32 = Adder<4, FactorType::tf32, 24, 23>;
using AdaFloat8 = Adder<16, FactorType::e4m3, 13, 13>;

template <typename To, typename From>
To bits_as(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

// One sum, of whatever terms.
template <typename Addition>
float sum_of_any(const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned column, unsigned first, float c) {
    constexpr unsigned PRODUCTS = Addition::PRODUCTS;
    constexpr int KEPT = Addition::KEPT;
    double products[PRODUCTS], sum = c;
    int largest = ALWAYS;
    if (c != 0 && std::isfinite(c)) largest = std::max(largest, std::ilogb(c));
    for (unsigned i = 0; i < PRODUCTS; ++i) {
        const unsigned k = first + i;
        products[i] = double(a.values[k][row]) * b.values[k][column];
        sum += products[i];
        largest = std::max(largest, a.exponents[k][row] + b.exponents[k][column]);
    }
    if (std::isnan(sum)) return bits_as<float>(0x7fffffffu);
    if (std::isinf(sum)) return float(sum);
    sum = std::trunc(std::ldexp(double(c), KEPT - largest));
    for (const double product : products) sum += std::trunc(std::ldexp(product, KEPT - largest));
    sum = std::ldexp(bits_as<double>(bits_as<std::int64_t>(sum) & ~Addition::LOST), largest - KEPT);
    if (std::fabs(sum) < 0x1p-126) sum = std::trunc(sum * 0x1p149) * 0x1p-149;
    return float(sum) + 0.0f;
}

// Vectors of GCC and Clang: operators act on each element.
using Short = std::int16_t __attribute__((vector_size(LANES * 2)));
using Int = std::int32_t __attribute__((vector_size(LANES * 4)));
using Float = float __attribute__((vector_size(LANES * 4)));
using Long = std::int64_t __attribute__((vector_size(LANES * 8)));
using Double = double __attribute__((vector_size(LANES * 8)));

template <typename Vector, typename From>
Vector load(const From* from) {
    Vector to;
    std::memcpy(&to, from, sizeof to);
    return to;
}

// The sums of LANES columns, where the exponents of all terms but zeros are in the range. The same as above, in vectors.
template <typename Addition>
void add_to_lanes(const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned column, unsigned first, float* sums) {
    constexpr unsigned PRODUCTS = Addition::PRODUCTS;
    constexpr int KEPT = Addition::KEPT;
    Short of_products = Short{} + std::int16_t(LEAST);
    for (unsigned k = first; k < first + PRODUCTS; ++k) {
        const Short exponents = a.exponents[k][row] + load<Short>(&b.exponents[k][column]);
        of_products = exponents > of_products ? exponents : of_products;
    }
    const Float c = load<Float>(sums);
    Int largest = __builtin_convertvector(of_products, Int);
    const Int of_c = (load<Int>(sums) >> 23 & 0xff) - 127;
    largest = of_c > largest ? of_c : largest;
    const Float scale = bits_as<Float>((127 + KEPT - largest) << 23);

    Int total = {};  // of the products: below 2^31
    for (unsigned k = first; k < first + PRODUCTS; ++k) {
        total += __builtin_convertvector(a.values[k][row] * load<Float>(&b.values[k][column]) * scale, Int);
    }
    const Int last = __builtin_convertvector(c * scale, Int);
    const Double sum = __builtin_convertvector(total, Double) + __builtin_convertvector(last, Double);
    const Double cut = bits_as<Double>(bits_as<Long>(sum) & ~Addition::LOST);
    const Double unit = bits_as<Double>((__builtin_convertvector(largest, Long) + (1023 - KEPT)) << 52);
    const Float result = __builtin_convertvector(cut * unit, Float);
    std::memcpy(sums, &result, sizeof result);
}

void decode_values(const std::uint16_t* bits, unsigned count, bool bfloat16, float* values) {
    for (unsigned i = 0; bfloat16 && i < count; ++i) values[i] = bits_as<float>(std::uint32_t(bits[i]) << 16);
    for (unsigned i = 0; !bfloat16 && i < count; ++i) {
        const std::uint32_t magnitude = bits[i] & 0x7fffu, sign = (bits[i] & 0x8000u) << 16;
        const auto subnormal = bits_as<std::uint32_t>(float(std::int32_t(magnitude)) * 0x1p-24f);
        const std::uint32_t normal = (magnitude << 13) + (magnitude < 0x7c00 ? 112u << 23 : 224u << 23);
        values[i] = bits_as<float>((magnitude < 0x400 ? subnormal : normal) | sign);
    }
}

// Of 8 bits: as the upper half of a half, or with a half's exponent larger by 15 - 7.
void decode_float8(const std::uint16_t* bits, unsigned count, bool e5m2, float* values) {
    for (unsigned i = 0; i < count; ++i) {
        const std::uint16_t magnitude = bits[i] & 0x7f, half = (e5m2 ? magnitude << 8 : magnitude << 7) | (bits[i] & 0x80) << 8;
        decode_values(&half, 1, false, &values[i]);
        if (!e5m2) values[i] = magnitude == 0x7f ? bits_as<float>(0x7fffffffu) : values[i] * 0x1p8f;
    }
}

// To TF32's 10 bits of mantissa.
void cut_values(unsigned count, float* values) {
    for (unsigned i = 0; i < count; ++i) values[i] = bits_as<float>(bits_as<std::uint32_t>(values[i]) & 0xffffe000u);
}

// Whether a sum is finite, and 0 or of an exponent from LEAST on.
bool is_plain(float sum) {
    const std::uint32_t magnitude = bits_as<std::uint32_t>(sum) & 0x7fffffff;
    return magnitude == 0 || (magnitude - (std::uint32_t(127 + LEAST) << 23) < std::uint32_t(128 - LEAST) << 23);
}

template <typename Addition>
void add_all(const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned columns, float* sums) {
    const bool plain = a.finite && b.finite && a.least + b.least >= LEAST && a.largest + b.largest <= LARGEST;
    for (unsigned first = 0; first < Addition::DEPTH; first += Addition::PRODUCTS) {
        bool all_plain = plain;
        for (unsigned col = 0; col < columns; ++col) all_plain &= is_plain(sums[col]);
        if (all_plain) {
            for (unsigned col = 0; col < columns; col += LANES) add_to_lanes<Addition>(a, row, b, col, first, sums + col);
        } else {
            for (unsigned col = 0; col < columns; ++col) sums[col] = sum_of_any<Addition>(a, row, b, col, first, sums[col]);
        }
    }
}

}  // namespace

void TensorFactor::decode(unsigned sides, FactorType type) {
    struct Format {
        int mantissa_bits, bias, magnitude;
    };
    constexpr Format FORMATS[] = {{10, 15, 0x7fff}, {7, 127, 0x7fff}, {23, 127, 0x7fffffff}, {3, 7, 0x7f}, {2, 15, 0x7f}};
    const auto [mantissa_bits, bias, mask] = FORMATS[int(type)];
    const bool tf32 = type == FactorType::tf32, bfloat16 = type == FactorType::bfloat16;
    least = largest = 0;
    finite = true;
    for (unsigned k = 0; k < depth_of(type); ++k) {
        if (tf32) {
            cut_values(sides, values[k]);
        } else if (bytes_of(type) == 1) {
            decode_float8(bits[k], sides, type == FactorType::e5m2, values[k]);
        } else {
            decode_values(bits[k], sides, bfloat16, values[k]);
        }
        for (unsigned i = 0; i < sides; ++i) {
            const int magnitude = (tf32 ? bits_as<std::int32_t>(values[k][i]) : bits[k][i]) & mask;
            const auto exponent = std::int16_t(std::max(magnitude >> mantissa_bits, 1) - bias);
            exponents[k][i] = magnitude == 0 ? OF_ZERO : exponent;
            least = std::min<std::int16_t>(least, magnitude == 0 ? 0 : exponent);
            largest = std::max<std::int16_t>(largest, magnitude == 0 ? 0 : exponent);
            finite &= std::isfinite(values[k][i]);
        }
    }
}

void add_products(TensorCores by, FactorType type, const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned columns,
                  float* sums) {
    constexpr decltype(&add_all<Hopper>) BY_BYTES[][5] = {
        {nullptr, add_all<AdaFloat8>, add_all<Ampere>, nullptr, add_all<AmpereTf32>},
        {nullptr, add_all<HopperFloat8>, add_all<Hopper>, nullptr, add_all<HopperTf32>},
    };
    BY_BYTES[int(by)][bytes_of(type)](a, row, b, columns, sums);
}

}  // namespace simt
