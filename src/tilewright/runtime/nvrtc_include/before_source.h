// What nvcc has before a source begins, and NVRTC has not: names of the system's headers.
#pragma once

#include "integer_types.h"

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

struct alignas(64) CUtensorMap_st {  // as cuda.h has it for hosts
    unsigned long long opaque[16];
};
typedef struct CUtensorMap_st CUtensorMap;

namespace std {}
