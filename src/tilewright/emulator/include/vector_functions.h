// What CUDA's vector_functions.h has is there without it.
#pragma once
