// CUDA's math_constants.h on the emulator: numbers that kernels use.
#pragma once

#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_MIN_DENORM_F __int_as_float(1)
#define CUDART_MAX_NORMAL_F __int_as_float(0x7f7fffff)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_NEG_ZERO_F -0.0f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_LN2_F 0.693147181f
#define CUDART_L2E_F 1.442695041f
#define CUDART_L2T_F 3.321928095f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_PIO4_F 0.785398163f
#define CUDART_PI_F 3.141592654f
#define CUDART_2_OVER_PI_F 0.636619772f

#define CUDART_INF __longlong_as_double(0x7ff0000000000000ll)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000ll)
#define CUDART_ZERO 0.0
#define CUDART_ONE 1.0
#define CUDART_SQRT_HALF 0.70710678118654757
#define CUDART_SQRT_TWO 1.4142135623730951
#define CUDART_LN2 0.69314718055994529
#define CUDART_L2E 1.4426950408889634
#define CUDART_PIO2 1.5707963267948966
#define CUDART_PI 3.1415926535897931
