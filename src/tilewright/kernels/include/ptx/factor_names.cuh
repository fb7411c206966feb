// How instructions of tensor cores (mma.cuh, wgmma.cuh) name a factor's type, and the k that one of them adds.
#pragma once

#include "ptx/float8.cuh"
#include "ptx/half.cuh"
#include "ptx/integers.cuh"

template <typename T>
struct FactorNames;
template <>
struct FactorNames<__half> {
    static constexpr char TYPE[] = "f16", K[] = "16";
};
template <>
struct FactorNames<__nv_bfloat16> {
    static constexpr char TYPE[] = "bf16", K[] = "16";
};
template <>
struct FactorNames<float> {
    static constexpr char TYPE[] = "tf32", K[] = "8";
};
template <>
struct FactorNames<float8_e4m3> {
    static constexpr char TYPE[] = "e4m3", K[] = "32";
};
template <>
struct FactorNames<float8_e5m2> {
    static constexpr char TYPE[] = "e5m2", K[] = "32";
};

template <>
struct FactorNames<int8> {
    static constexpr char TYPE[] = "s8", K[] = "32";
};
template <>
struct FactorNames<uint8> {
    static constexpr char TYPE[] = "u8", K[] = "32";
};

// How wgmma names the k and the types of a product whose A is in registers, and not of 16 bits.
template <typename T, typename U>
struct ProductNames;
template <>
struct ProductNames<float, float> {
    static constexpr char NAMES[] = "k8.f32.tf32.tf32";
};
template <>
struct ProductNames<float8_e4m3, float8_e4m3> {
    static constexpr char NAMES[] = "k32.f32.e4m3.e4m3";
};
template <>
struct ProductNames<float8_e4m3, float8_e5m2> {
    static constexpr char NAMES[] = "k32.f32.e4m3.e5m2";
};
template <>
struct ProductNames<float8_e5m2, float8_e4m3> {
    static constexpr char NAMES[] = "k32.f32.e5m2.e4m3";
};
template <>
struct ProductNames<float8_e5m2, float8_e5m2> {
    static constexpr char NAMES[] = "k32.f32.e5m2.e5m2";
};
