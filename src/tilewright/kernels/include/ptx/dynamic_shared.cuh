// DYNAMIC_SHARED(type, name): the shared memory whose size the launch decides, as `type* const name`.
//
// Aligned to 1024 bytes, the most that any use of shared memory asks for.
#pragma once

#define DYNAMIC_SHARED(type, name)                                         \
    extern __shared__ __align__(1024) unsigned char dynamic_shared_bytes[]; \
    type* const name = reinterpret_cast<type*>(dynamic_shared_bytes)
