// 16-bit floating-point types: __half and __nv_bfloat16, their pairs, and conversions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
