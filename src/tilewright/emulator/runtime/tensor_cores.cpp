#include "tensor_cores.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace simt {
namespace {

constexpr int ALWAYS = -126;                    // the largest exponent is at least this
constexpr std::int16_t OF_ZERO = -10000;        // with it, a product's exponent is less than any other
constexpr int NOT_FINITE = 10000;               // what counts as the exponent of NaN and infinity, where ranges are asked for
constexpr unsigned LANES = TENSOR_LANES;

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

// Vectors of GCC and Clang: operators act on each element.
using Short = std::int16_t __attribute__((vector_size(LANES * 2)));
using UnsignedShort = std::uint16_t __attribute__((vector_size(LANES * 2)));
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

// By halves: GCC 12 fails at whole vectors of 16 where it does not optimize.
inline __attribute__((always_inline)) Double doubles_of(const Int& from) {
    using Ints = std::int32_t __attribute__((vector_size(LANES * 2)));
    using Doubles = double __attribute__((vector_size(LANES * 4)));
    Ints halves[2];
    std::memcpy(halves, &from, sizeof from);
    const std::array<Doubles, 2> to = {__builtin_convertvector(halves[0], Doubles), __builtin_convertvector(halves[1], Doubles)};
    return bits_as<Double>(to);
}

Double power_of_2(const Int& exponents) {
    return bits_as<Double>(__builtin_convertvector(exponents + 1023, Long) << 52);
}

// The largest exponents of the products of LANES columns, at least this one.
template <typename Addition>
Int largest_exponents(const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned column, unsigned first, int least) {
    Short largest = Short{} + std::int16_t(least);
    for (unsigned k = first; k < first + Addition::PRODUCTS; ++k) {
        const Short exponents = a.exponents[k][row] + load<Short>(&b.exponents[k][column]);
        largest = exponents > largest ? exponents : largest;
    }
    return __builtin_convertvector(largest, Int);
}

Int larger(const Int& one, const Int& other) { return one > other ? one : other; }

Int exponents_of(const Float& sums) { return (bits_as<Int>(sums) >> 23 & 0xff) - 127; }

// What LANES sums become, of whatever terms.
template <typename Addition>
Float added(const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned column, unsigned first, const Float& sums) {
    constexpr int KEPT = Addition::KEPT;
    const Double c = __builtin_convertvector(sums, Double);
    const Int of_products = largest_exponents<Addition>(a, row, b, column, first, ALWAYS);
    const Int largest = larger(exponents_of(sums), of_products);
    const Double scale = power_of_2(KEPT - largest);
    Double rounded = c;  // as IEEE arithmetic has it: for NaN and infinity
    Int total = {};
    for (unsigned k = first; k < first + Addition::PRODUCTS; ++k) {
        const Double product = double(a.values[k][row]) * __builtin_convertvector(load<Float>(&b.values[k][column]), Double);
        rounded += product;
        total += __builtin_convertvector(product * scale, Int);
    }
    const Int last = __builtin_convertvector(c * scale, Int);
    const Double all = doubles_of(total) + doubles_of(last);
    Double sum = bits_as<Double>(bits_as<Long>(all) & ~Addition::LOST) * power_of_2(largest - KEPT);
    const Long of_sum = bits_as<Long>(sum) >> 52 & 0x7ff;
    const Double subnormal = doubles_of(__builtin_convertvector(sum * 0x1p149, Int)) * 0x1p-149;
    sum = of_sum < 1023 + ALWAYS ? subnormal : sum;
    const Long magnitude = bits_as<Long>(rounded) & 0x7fffffffffffffff, infinite = Long{} + 0x7ff0000000000000;
    sum = magnitude >= infinite ? rounded : sum;
    const Int nan = __builtin_convertvector(magnitude > infinite, Int);
    return bits_as<Float>(nan ? Int{} + 0x7fffffff : bits_as<Int>(__builtin_convertvector(sum, Float) + 0.0f));
}

// The same where the exponents of all terms but zeros are in the range.
template <typename Addition>
Float added_in_range(const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned column, unsigned first,
                     const Float& sums) {
    constexpr int KEPT = Addition::KEPT;
    const Int of_products = largest_exponents<Addition>(a, row, b, column, first, LEAST);
    const Int largest = larger(exponents_of(sums), of_products);
    const Float scale = bits_as<Float>((127 + KEPT - largest) << 23);
    Int total = {};  // of the products: below 2^31
    for (unsigned k = first; k < first + Addition::PRODUCTS; ++k) {
        total += __builtin_convertvector(a.values[k][row] * load<Float>(&b.values[k][column]) * scale, Int);
    }
    const Int last = __builtin_convertvector(sums * scale, Int);
    const Double all = doubles_of(total) + doubles_of(last);
    const Double cut = bits_as<Double>(bits_as<Long>(all) & ~Addition::LOST);
    return __builtin_convertvector(cut * power_of_2(largest - KEPT), Float);
}

inline __attribute__((always_inline)) bool has_none(const Int& mask) {
    std::uint64_t any = 0;
    for (const std::uint64_t word : bits_as<std::array<std::uint64_t, LANES / 2>>(mask)) any |= word;
    return any == 0;
}

// Whether all are finite, and 0 or of an exponent from LEAST on.
inline __attribute__((always_inline)) bool are_in_range(const Float& sums) {
    const Int exponents = exponents_of(sums);
    const Int strange = ((exponents < LEAST) & ((bits_as<Int>(sums) << 1) != 0)) | (exponents == 128);
    return has_none(strange);
}

Float of_halves(const Int& bits) {
    const Int magnitude = bits & 0x7fff, sign = (bits & 0x8000) << 16;
    const Int subnormal = bits_as<Int>(__builtin_convertvector(magnitude, Float) * 0x1p-24f);
    const Int normal = (magnitude << 13) + (magnitude < 0x7c00 ? Int{} + (112 << 23) : Int{} + (224 << 23));
    return bits_as<Float>((magnitude < 0x400 ? subnormal : normal) | sign);
}

// Elements from their bits. Those of 8 bits as the upper half of a half, or with a half's exponent larger by 15 - 7; TF32 cut to
// its 10 bits of mantissa.
Float decoded(FactorType type, const Int& bits) {
    switch (type) {
        case FactorType::half: return of_halves(bits);
        case FactorType::bfloat16: return bits_as<Float>(bits << 16);
        case FactorType::tf32: return bits_as<Float>(bits & ~0x1fff);
        case FactorType::e5m2: return of_halves(bits << 8);
        case FactorType::s8: return __builtin_convertvector((bits ^ 0x80) - 0x80, Float);
        case FactorType::u8: return __builtin_convertvector(bits, Float);
        case FactorType::e4m3: break;
    }
    const Float values = of_halves((bits & 0x7f) << 7 | (bits & 0x80) << 8) * 0x1p8f;
    return bits_as<Float>((bits & 0x7f) == 0x7f ? Int{} + 0x7fffffff : bits_as<Int>(values));
}

// As many of LANES sums as there are; mostly all. Of the others, zeros.
Float load_some(const float* from, unsigned count) {
    if (count >= LANES) return load<Float>(from);
    Float to = {};
    std::memcpy(&to, from, count * sizeof(float));
    return to;
}

void store_some(float* to, const Float& from, unsigned count) {
    if (count >= LANES) {
        std::memcpy(to, &from, sizeof from);
    } else {
        std::memcpy(to, &from, count * sizeof(float));
    }
}

// Whether sums in the range keep all of their bits where the products are zeros: no work, then, beyond the edges of matrices.
template <typename Addition>
inline __attribute__((always_inline)) bool are_kept(const Float& sums) {
    constexpr int CUT = 23 - std::min(Addition::KEPT, 23);
    return CUT == 0 || has_none(bits_as<Int>(sums) & ((1 << CUT) - 1));
}

template <typename Addition>
void add_all(const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned columns, float* sums) {
    for (unsigned col = 0; col < columns; col += LANES) {
        const unsigned rows = row / LANES, cols = col / LANES;
        const bool in_range = a.least[rows] + b.least[cols] >= LEAST && a.largest[rows] + b.largest[cols] <= LARGEST;
        Float of_columns = load_some(sums + col, columns - col);
        if (in_range && (a.is_zero[rows] || b.is_zero[cols]) && are_in_range(of_columns) && are_kept<Addition>(of_columns)) {
            store_some(sums + col, of_columns + 0.0f, columns - col);  // for -0
            continue;
        }
        for (unsigned first = 0; first < Addition::DEPTH; first += Addition::PRODUCTS) {
            of_columns = in_range && are_in_range(of_columns) ? added_in_range<Addition>(a, row, b, col, first, of_columns)
                                                              : added<Addition>(a, row, b, col, first, of_columns);
        }
        store_some(sums + col, of_columns, columns - col);
    }
}

// Of integers of 8 bits sums are exact, and wrap: their bits are those of int32. Products of bytes are exact as floats.
void add_integers(const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned columns, float* sums) {
    using Unsigned = std::uint32_t __attribute__((vector_size(LANES * 4)));
    for (unsigned col = 0; col < columns; col += LANES) {
        Unsigned of_columns = bits_as<Unsigned>(load_some(sums + col, columns - col));
        for (unsigned k = 0; k < depth_of(FactorType::s8); ++k) {
            const Float products = a.values[k][row] * load<Float>(&b.values[k][col]);
            of_columns += bits_as<Unsigned>(__builtin_convertvector(products, Int));
        }
        store_some(sums + col, bits_as<Float>(of_columns), columns - col);
    }
}

}  // namespace

void TensorFactor::decode(unsigned sides, FactorType type) {
    struct Format {
        int mantissa_bits, bias, magnitude;
    };
    constexpr Format FORMATS[] = {{10, 15, 0x7fff}, {7, 127, 0x7fff}, {23, 127, 0x7fffffff}, {3, 7, 0x7f}, {2, 15, 0x7f},
                                  {0, 0, 0xff}, {0, 0, 0xff}};
    const auto [mantissa_bits, bias, mask] = FORMATS[int(type)];
    for (unsigned side = 0; side < sides; side += LANES) {
        Int smallest = {}, greatest = {}, any = {};
        for (unsigned k = 0; k < depth_of(type); ++k) {
            const Int of_elements = type == FactorType::tf32
                                        ? load<Int>(&values[k][side])
                                        : __builtin_convertvector(load<UnsignedShort>(&bits[k][side]), Int);
            const Float value = decoded(type, of_elements);
            const Int magnitude = (type == FactorType::tf32 ? bits_as<Int>(value) : of_elements) & mask;
            const Int exponent = larger(magnitude >> mantissa_bits, Int{} + 1) - bias;
            const Short kept = __builtin_convertvector(magnitude == 0 ? Int{} + OF_ZERO : exponent, Short);
            std::memcpy(&values[k][side], &value, sizeof value);
            std::memcpy(&exponents[k][side], &kept, sizeof kept);
            const Int nonzero = magnitude == 0 ? Int{} : exponent;
            any |= magnitude;
            smallest = -larger(-smallest, -nonzero);
            greatest = larger(greatest, exponents_of(value) == 128 ? Int{} + NOT_FINITE : nonzero);
        }
        least[side / LANES] = largest[side / LANES] = 0;
        is_zero[side / LANES] = true;
        for (unsigned i = 0; i < LANES; ++i) {
            is_zero[side / LANES] &= any[i] == 0;
            least[side / LANES] = std::min<std::int16_t>(least[side / LANES], smallest[i]);
            largest[side / LANES] = std::max<std::int16_t>(largest[side / LANES], greatest[i]);
        }
    }
}

void add_products(TensorCores by, FactorType type, const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned columns,
                  float* sums) {
    if (type >= FactorType::s8) return add_integers(a, row, b, columns, sums);
    constexpr decltype(&add_all<Hopper>) BY_BYTES[][5] = {
        {nullptr, add_all<AdaFloat8>, add_all<Ampere>, nullptr, add_all<AmpereTf32>},
        {nullptr, add_all<HopperFloat8>, add_all<Hopper>, nullptr, add_all<HopperTf32>},
    };
    BY_BYTES[int(by)][bytes_of(type)](a, row, b, columns, sums);
}

}  // namespace simt
