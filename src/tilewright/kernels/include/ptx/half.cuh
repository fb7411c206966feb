// 16-bit floating-point types: __half and __nv_bfloat16, their pairs, and conversions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
constexpr bool IS_BFLOAT16 = false;
template <>
constexpr bool IS_BFLOAT16<__nv_bfloat16> = true;
