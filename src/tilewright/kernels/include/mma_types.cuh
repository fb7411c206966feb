// How mma.cuh names its instructions.
#pragma once

#include "float8.cuh"

// How the instruction names k, and the types of the sums, of A and of B.
template <typename T, typename U>
struct FragmentTypes;
template <>
struct FragmentTypes<__half, __half> {
    static constexpr char NAMES[] = "16.row.col.f32.f16.f16.f32";
};
template <>
struct FragmentTypes<__nv_bfloat16, __nv_bfloat16> {
    static constexpr char NAMES[] = "16.row.col.f32.bf16.bf16.f32";
};
template <>
struct FragmentTypes<float, float> {
    static constexpr char NAMES[] = "8.row.col.f32.tf32.tf32.f32";
};
template <>
struct FragmentTypes<float8_e4m3, float8_e4m3> {
    static constexpr char NAMES[] = "32.row.col.f32.e4m3.e4m3.f32";
};
template <>
struct FragmentTypes<float8_e4m3, float8_e5m2> {
    static constexpr char NAMES[] = "32.row.col.f32.e4m3.e5m2.f32";
};
template <>
struct FragmentTypes<float8_e5m2, float8_e4m3> {
    static constexpr char NAMES[] = "32.row.col.f32.e5m2.e4m3.f32";
};
template <>
struct FragmentTypes<float8_e5m2, float8_e5m2> {
    static constexpr char NAMES[] = "32.row.col.f32.e5m2.e5m2.f32";
};
