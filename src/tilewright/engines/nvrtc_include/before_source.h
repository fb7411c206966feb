// What nvcc has before a source begins, and NVRTC has not: names of the system's headers.
#pragma once

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

// Of 64 bits they are not the same in all of CUDA's headers.
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;

typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

struct alignas(64) CUtensorMap {  // as cuda.h has it for hosts
    unsigned long long opaque[16];
};

namespace std {}
