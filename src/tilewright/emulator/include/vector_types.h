// What CUDA's vector_types.h has is there without it.
#pragma once
