// What CUDA's device_functions.h has is there without it.
#pragma once
