// Sums of products of elements of 8 or 16 bits or of TF32 as tensor cores make them.
//
// On Hopper sixteen products and the sum so far are added at once, as fixed-point numbers: all 17 terms are aligned to the
// largest exponent and truncated to 25 bits behind the point; their exact sum is truncated to float32. Products are not
// normalised before: the exponent of one is the sum of its factors' exponents, where a subnormal has the least exponent of its
// type.
//
//     the largest term   x x.x x x ... x x x        a product has two bits before the point
//     another term       0 0.0 0 x ... x x x|x x    the bits right of the line are lost
//                            1 2 3     23 24 25
//
// Of TF32, eight products are added at once. Its elements have 32 bits, of which the last 13 are not looked at.
//
// Of float8, 32 products are added at once, and all terms are kept with 13 bits behind the point, the sum so far among them: it is
// a float32 of which the last 10 bits are 0.
//
// On Ampere and Ada half the products of an instruction are added at once: eight of 16-bit elements or four of TF32, kept with 24
// bits, or sixteen of float8, kept with 13. (Hopper's warps multiply float8 as half, and an RTX 50's tensor cores keep 25 bits.)
//
// NaN and infinity come out as in IEEE arithmetic, but every NaN has the same bits. A sum of 0 is +0, and one too large for
// float32 is infinity.
//
// Sources: F. Khattak and M. Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (arXiv:2512.07004); MMA-Sim
// (github.com/microsoft/MMA-Sim). Errors of sums over k = 4096 agree with those measured on an H200.
#pragma once

#include <cstdint>

#include "abi.hpp"

namespace simt {

constexpr unsigned TENSOR_DEPTH = 32, TENSOR_SIDES = 256;
constexpr unsigned TENSOR_LANES = 16;  // sums that are computed together

// Of an element; and k of one instruction, 32 bytes.
constexpr unsigned bytes_of(FactorType type) { return type == FactorType::tf32 ? 4 : type >= FactorType::e4m3 ? 1 : 2; }
constexpr unsigned depth_of(FactorType type) { return 32 / bytes_of(type); }

// Rows of A, or columns of B: element k of each is in line k.
struct alignas(64) TensorFactor {
    std::uint16_t bits[TENSOR_DEPTH][TENSOR_SIDES];
    float values[TENSOR_DEPTH][TENSOR_SIDES];
    std::int16_t exponents[TENSOR_DEPTH][TENSOR_SIDES];
    // Of the exponents of elements that are not 0, of each TENSOR_LANES sides in a row.
    std::int16_t least[TENSOR_SIDES / TENSOR_LANES], largest[TENSOR_SIDES / TENSOR_LANES];
    bool is_zero[TENSOR_SIDES / TENSOR_LANES];  // whether all elements of these sides are

    // Makes all the rest of the bits; of TF32, of the values.
    void decode(unsigned sides, FactorType type);
};

enum class TensorCores { ampere, hopper };

// Adds to the sums of a row the products of A's row and B's columns.
void add_products(TensorCores by, FactorType type, const TensorFactor& a, unsigned row, const TensorFactor& b, unsigned columns,
                  float* sums);

}  // namespace simt
