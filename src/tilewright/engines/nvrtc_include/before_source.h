// What nvcc has before a source begins, and NVRTC has not: names of the system's headers.
#pragma once

#include "cstdint"

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

namespace std {}
