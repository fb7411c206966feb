// CUDA's arithmetic of floats and doubles with a direction in its name: rz rounds toward zero, ru up, rd down. Each counts as the
// operation that rounds to the nearest.
#pragma once

namespace simt {

template <typename Counted>
__forceinline__ float directed(Exactly operation, Direction direction, const Counted&, float a, float b = 0.0f, float c = 0.0f) {
    return HostFloat(simt_directed_float(operation, direction, HostFloat(a), HostFloat(b), HostFloat(c)));
}

__forceinline__ double directed(Exactly operation, Direction direction, double a, double b = 0, double c = 0) {
    return simt_directed_double(operation, direction, a, b, c);
}

}  // namespace simt

#define SIMT_DIRECTED(suffix, way)                                                                                           \
    __forceinline__ float __fadd##suffix(float a, float b) { return simt::directed(simt::Exactly::sum, way, float(a + b), a, b); }  \
    __forceinline__ float __fsub##suffix(float a, float b) { return simt::directed(simt::Exactly::sum, way, float(a - b), a, -b); } \
    __forceinline__ float __fmul##suffix(float a, float b) {                                                                 \
        return simt::directed(simt::Exactly::product, way, float(a * b), a, b);                                              \
    }                                                                                                                        \
    __forceinline__ float __fmaf##suffix(float a, float b, float c) {                                                        \
        return simt::directed(simt::Exactly::fused, way, float(fmaf(a, b, c)), a, b, c);                                     \
    }                                                                                                                        \
    __forceinline__ float __fdiv##suffix(float a, float b) { return simt::directed(simt::Exactly::quotient, way, a, a, b); } \
    __forceinline__ float __frcp##suffix(float a) { return simt::directed(simt::Exactly::quotient, way, a, 1.0f, a); }       \
    __forceinline__ float __fsqrt##suffix(float a) { return simt::directed(simt::Exactly::root, way, a, a); }                \
    __forceinline__ double __dadd##suffix(double a, double b) { return simt::directed(simt::Exactly::sum, way, a, b); }      \
    __forceinline__ double __dsub##suffix(double a, double b) { return simt::directed(simt::Exactly::sum, way, a, -b); }     \
    __forceinline__ double __dmul##suffix(double a, double b) { return simt::directed(simt::Exactly::product, way, a, b); }  \
    __forceinline__ double __fma##suffix(double a, double b, double c) {                                                     \
        return simt::directed(simt::Exactly::fused, way, a, b, c);                                                           \
    }                                                                                                                        \
    __forceinline__ double __ddiv##suffix(double a, double b) { return simt::directed(simt::Exactly::quotient, way, a, b); } \
    __forceinline__ double __drcp##suffix(double a) { return simt::directed(simt::Exactly::quotient, way, 1.0, a); }         \
    __forceinline__ double __dsqrt##suffix(double a) { return simt::directed(simt::Exactly::root, way, a); }                 \
    __forceinline__ float __double2float##suffix(double a) { return simt::HostFloat(simt_narrowed(way, a)); }                \
    __forceinline__ float __int2float##suffix(int a) { return simt::HostFloat(simt_narrowed(way, a)); }                      \
    __forceinline__ float __uint2float##suffix(unsigned a) { return simt::HostFloat(simt_narrowed(way, a)); }
SIMT_DIRECTED(_rz, simt::Direction::zero)
SIMT_DIRECTED(_ru, simt::Direction::up)
SIMT_DIRECTED(_rd, simt::Direction::down)
#undef SIMT_DIRECTED

__forceinline__ double __dsub_rn(double a, double b) { return simt::rounded(a) - simt::rounded(b); }
__forceinline__ double __ddiv_rn(double a, double b) { return a / b; }
__forceinline__ double __drcp_rn(double a) { return 1 / a; }
__forceinline__ double __dsqrt_rn(double a) { return sqrt(a); }
