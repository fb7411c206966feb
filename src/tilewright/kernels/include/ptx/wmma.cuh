// Tensor cores through fragments: namespace wmma, as the CUDA C++ Programming Guide has it in "Warp Matrix Functions".
//
// A fragment is a 16x16x16 (half, bfloat16) or 16x16x8 (TF32) operand that the 32 lanes of a warp hold together. Functions
// that end in _sync are called by all lanes at once; which lane holds which element is the GPU's own affair. Pointers given
// to them are multiples of 32 bytes, leading dimensions of 16 bytes.
#pragma once

#include <mma.h>

#include "ptx/half.cuh"

namespace wmma = nvcuda::wmma;
