// Every conversion of half.cuh, one element a thread.

#include <ptx/half.cuh>

#define ELEMENTS const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= count) return;

extern "C" __global__ void half_to_float(const __half* in, float* out, int count) {
    ELEMENTS
    out[i] = __half2float(in[i]);
}

extern "C" __global__ void float_to_half(const float* in, __half* out, int count) {
    ELEMENTS
    out[i] = i % 2 ? __float2half(in[i]) : __float2half_rn(in[i]);
}

extern "C" __global__ void half_round_trip(const __half* in, __half* out, int count) {
    __shared__ __half staged[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    staged[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = __half(float(staged[threadIdx.x]));
}

extern "C" __global__ void bfloat16_to_float(const __nv_bfloat16* in, float* out, int count) {
    ELEMENTS
    out[i] = __bfloat162float(in[i]);
}

extern "C" __global__ void float_to_bfloat16(const float* in, __nv_bfloat16* out, int count) {
    ELEMENTS
    out[i] = i % 2 ? __float2bfloat16(in[i]) : __float2bfloat16_rn(in[i]);
}

extern "C" __global__ void float_to_bfloat16_float(const float* in, float* out, int count) {
    ELEMENTS
    out[i] = float(__nv_bfloat16(in[i]));
}

extern "C" __global__ void bfloat16_round_trip(const __nv_bfloat16* in, __nv_bfloat16* out, int count) {
    __shared__ __nv_bfloat16 staged[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    staged[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = __float2bfloat16(__bfloat162float(staged[threadIdx.x]));
}

extern "C" __global__ void pairs(const float* in, float* out, int count) {
    ELEMENTS
    const __half2 half_pair = __floats2half2_rn(in[i], -in[i]);
    const float2 half_floats = __half22float2(__halves2half2(__low2half(half_pair), __high2half(half_pair)));
    const __half2 half_again = __float22half2_rn(half_floats);
    const __nv_bfloat162 bfloat16_pair = __floats2bfloat162_rn(in[i], -in[i]);
    const float2 bfloat16_floats =
        __bfloat1622float2(__halves2bfloat162(__low2bfloat16(bfloat16_pair), __high2bfloat16(bfloat16_pair)));
    const __nv_bfloat162 bfloat16_again = __float22bfloat162_rn(bfloat16_floats);
    float* row = out + 8 * i;
    row[0] = half_floats.x;
    row[1] = half_floats.y;
    row[2] = __low2float(half_again);
    row[3] = __high2float(half_again);
    row[4] = bfloat16_floats.x;
    row[5] = bfloat16_floats.y;
    row[6] = __low2float(bfloat16_again);
    row[7] = __high2float(bfloat16_again);
}
