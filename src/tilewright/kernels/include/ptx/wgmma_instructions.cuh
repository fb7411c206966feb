// How wgmma.cuh reaches the instructions: each names every one of its registers.
#pragma once

#include "ptx/factor_names.cuh"

// The compiler moves no access of the sums, or of A in registers, from one side of this to the other.
__device__ __forceinline__ void pin(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
__device__ __forceinline__ void pin(int& sum) { asm volatile("" : "+r"(sum)::"memory"); }
__device__ __forceinline__ void pin(unsigned& elements) { asm volatile("" : "+r"(elements)::"memory"); }
template <typename T, int COUNT>
__device__ __forceinline__ void pin(T (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) pin(sums[i]);
}

// The instructions for N columns of B.
template <int N>
struct WgmmaColumns;

// WGMMA_n(each, between): each(a, b, c, d) for n sums in order, four at a time, and between() between them.
#define WGMMA_4(each, between) each(0, 1, 2, 3)
#define WGMMA_8(each, between) WGMMA_4(each, between) between() each(4, 5, 6, 7)
#define WGMMA_12(each, between) WGMMA_8(each, between) between() each(8, 9, 10, 11)
#define WGMMA_16(each, between) WGMMA_12(each, between) between() each(12, 13, 14, 15)
#define WGMMA_20(each, between) WGMMA_16(each, between) between() each(16, 17, 18, 19)
#define WGMMA_24(each, between) WGMMA_20(each, between) between() each(20, 21, 22, 23)
#define WGMMA_28(each, between) WGMMA_24(each, between) between() each(24, 25, 26, 27)
#define WGMMA_32(each, between) WGMMA_28(each, between) between() each(28, 29, 30, 31)
#define WGMMA_36(each, between) WGMMA_32(each, between) between() each(32, 33, 34, 35)
#define WGMMA_40(each, between) WGMMA_36(each, between) between() each(36, 37, 38, 39)
#define WGMMA_44(each, between) WGMMA_40(each, between) between() each(40, 41, 42, 43)
#define WGMMA_48(each, between) WGMMA_44(each, between) between() each(44, 45, 46, 47)
#define WGMMA_52(each, between) WGMMA_48(each, between) between() each(48, 49, 50, 51)
#define WGMMA_56(each, between) WGMMA_52(each, between) between() each(52, 53, 54, 55)
#define WGMMA_60(each, between) WGMMA_56(each, between) between() each(56, 57, 58, 59)
#define WGMMA_64(each, between) WGMMA_60(each, between) between() each(60, 61, 62, 63)
#define WGMMA_68(each, between) WGMMA_64(each, between) between() each(64, 65, 66, 67)
#define WGMMA_72(each, between) WGMMA_68(each, between) between() each(68, 69, 70, 71)
#define WGMMA_76(each, between) WGMMA_72(each, between) between() each(72, 73, 74, 75)
#define WGMMA_80(each, between) WGMMA_76(each, between) between() each(76, 77, 78, 79)
#define WGMMA_84(each, between) WGMMA_80(each, between) between() each(80, 81, 82, 83)
#define WGMMA_88(each, between) WGMMA_84(each, between) between() each(84, 85, 86, 87)
#define WGMMA_92(each, between) WGMMA_88(each, between) between() each(88, 89, 90, 91)
#define WGMMA_96(each, between) WGMMA_92(each, between) between() each(92, 93, 94, 95)
#define WGMMA_100(each, between) WGMMA_96(each, between) between() each(96, 97, 98, 99)
#define WGMMA_104(each, between) WGMMA_100(each, between) between() each(100, 101, 102, 103)
#define WGMMA_108(each, between) WGMMA_104(each, between) between() each(104, 105, 106, 107)
#define WGMMA_112(each, between) WGMMA_108(each, between) between() each(108, 109, 110, 111)
#define WGMMA_116(each, between) WGMMA_112(each, between) between() each(112, 113, 114, 115)
#define WGMMA_120(each, between) WGMMA_116(each, between) between() each(116, 117, 118, 119)
#define WGMMA_124(each, between) WGMMA_120(each, between) between() each(120, 121, 122, 123)
#define WGMMA_128(each, between) WGMMA_124(each, between) between() each(124, 125, 126, 127)

#define WGMMA_NAMES(a, b, c, d) "%" #a ", %" #b ", %" #c ", %" #d
#define WGMMA_SUMS(a, b, c, d) "+f"(sums[a]), "+f"(sums[b]), "+f"(sums[c]), "+f"(sums[d])
#define WGMMA_INTEGERS(a, b, c, d) "+r"(sums[a]), "+r"(sums[b]), "+r"(sums[c]), "+r"(sums[d])
#define WGMMA_COMMA_IN_TEXT() ", "
#define WGMMA_COMMA() ,

#define WGMMA_OF_TYPE(TYPE, N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B)                                                  \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {"                                 \
                 LIST(WGMMA_NAMES, WGMMA_COMMA_IN_TEXT) "}, %" #A ", %" #B ", adds, 1, 1, %" #ACROSS_A ", %" #ACROSS_B\
                 ";\n}"                                                                                               \
                 : LIST(WGMMA_SUMS, WGMMA_COMMA)                                                                      \
                 : "l"(a), "l"(b), "r"(adds), "n"(ACROSS_OF_A), "n"(ACROSS_OF_B)                                      \
                 : "memory")

// Of types whose lines lie along k alone. OF_K, OF_A, OF_B: operands that name k and the types of A and of B.
#define WGMMA_ALONG_K(N, LIST, A, B, ADDS, OF_K, OF_A, OF_B)                                                          \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k%" #OF_K ".f32.%" #OF_A ".%" #OF_B " {"                     \
                 LIST(WGMMA_NAMES, WGMMA_COMMA_IN_TEXT) "}, %" #A ", %" #B ", adds, 1, 1;\n}"                         \
                 : LIST(WGMMA_SUMS, WGMMA_COMMA)                                                                      \
                 : "l"(a), "l"(b), "r"(adds), "C"(FactorNames<T>::K), "C"(FactorNames<T>::TYPE), "C"(FactorNames<U>::TYPE) \
                 : "memory")

// Of integers, whose sums are int32. N is then at most 24 or a multiple of 16.
#define WGMMA_OF_INTEGERS(N, LIST, A, B, ADDS, OF_A, OF_B)                                                            \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.%" #OF_A ".%" #OF_B " {"                             \
                 LIST(WGMMA_NAMES, WGMMA_COMMA_IN_TEXT) "}, %" #A ", %" #B ", adds;\n}"                               \
                 : LIST(WGMMA_INTEGERS, WGMMA_COMMA)                                                                  \
                 : "l"(a), "l"(b), "r"(adds), "C"(FactorNames<T>::TYPE), "C"(FactorNames<U>::TYPE)                    \
                 : "memory")
#define WGMMA_OF_INTEGERS_IN_REGISTERS(N, LIST, A0, A1, A2, A3, B, ADDS, OF_A, OF_B)                                  \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.%" #OF_A ".%" #OF_B " {"                             \
                 LIST(WGMMA_NAMES, WGMMA_COMMA_IN_TEXT) "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B           \
                 ", adds;\n}"                                                                                         \
                 : LIST(WGMMA_INTEGERS, WGMMA_COMMA)                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds), "C"(FactorNames<T>::TYPE),          \
                   "C"(FactorNames<U>::TYPE)                                                                          \
                 : "memory")

// A in registers: operands A0 to A3. NAMES: k and the types; END: what the instruction says last.
#define WGMMA_OF_REGISTERS(NAMES, END, N, LIST, A0, A1, A2, A3, B, ADDS, ...)                                         \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n" #N NAMES " {"                                                    \
                 LIST(WGMMA_NAMES, WGMMA_COMMA_IN_TEXT) "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B           \
                 ", adds, 1, 1" END ";\n}"                                                                            \
                 : LIST(WGMMA_SUMS, WGMMA_COMMA)                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds) __VA_ARGS__                          \
                 : "memory")

// A, B and so on: numbers of the operands behind the sums.
#define WGMMA_COLUMNS(N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B, SIXTH, SEVENTH, EIGHTH)                                \
    template <>                                                                                                       \
    struct WgmmaColumns<N> {                                                                                          \
        template <typename T, typename U, int ACROSS_OF_A, int ACROSS_OF_B>                                                       \
        static __device__ __forceinline__ void start(float (&sums)[N / 2], unsigned long long a,                      \
                                                     unsigned long long b, int adds) {                                \
            if constexpr (sizeof(T) != 2) {                                                                           \
                WGMMA_ALONG_K(N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B, SIXTH);                                        \
            } else if constexpr (IS_BFLOAT16<T>) {                                                                    \
                WGMMA_OF_TYPE("bf16", N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B);                                       \
            } else {                                                                                                  \
                WGMMA_OF_TYPE("f16", N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B);                                        \
            }                                                                                                         \
        }                                                                                                             \
        template <typename T, typename U, int, int>                                                                   \
        static __device__ __forceinline__ void start(int (&sums)[N / 2], unsigned long long a, unsigned long long b,  \
                                                     int adds) {                                                      \
            WGMMA_OF_INTEGERS(N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B);                                               \
        }                                                                                                             \
        template <typename T, typename U>                                                                             \
        static __device__ __forceinline__ void start(int (&sums)[N / 2], const unsigned (&a)[4],                      \
                                                     unsigned long long b, int adds) {                                \
            WGMMA_OF_INTEGERS_IN_REGISTERS(N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B, SIXTH, SEVENTH, EIGHTH);          \
        }                                                                                                             \
        template <typename T, typename U>                                                                             \
        static __device__ __forceinline__ void start(float (&sums)[N / 2], const unsigned (&a)[4],                    \
                                                     unsigned long long b, int adds) {                                \
            if constexpr (sizeof(T) != 2) {                                                                           \
                WGMMA_OF_REGISTERS("%" #SEVENTH, "", N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B, SIXTH,                  \
                                   WGMMA_COMMA() "C"(ProductNames<T, U>::NAMES));                                     \
            } else if constexpr (IS_BFLOAT16<T>) {                                                                    \
                WGMMA_OF_REGISTERS("k16.f32.bf16.bf16", ", 0", N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B, SIXTH);       \
            } else {                                                                                                  \
                WGMMA_OF_REGISTERS("k16.f32.f16.f16", ", 0", N, LIST, A, B, ADDS, ACROSS_A, ACROSS_B, SIXTH);         \
            }                                                                                                         \
        }                                                                                                             \
    };

WGMMA_COLUMNS(8, WGMMA_4, 4, 5, 6, 7, 8, 9, 10, 11)
WGMMA_COLUMNS(16, WGMMA_8, 8, 9, 10, 11, 12, 13, 14, 15)
WGMMA_COLUMNS(24, WGMMA_12, 12, 13, 14, 15, 16, 17, 18, 19)
WGMMA_COLUMNS(32, WGMMA_16, 16, 17, 18, 19, 20, 21, 22, 23)
WGMMA_COLUMNS(40, WGMMA_20, 20, 21, 22, 23, 24, 25, 26, 27)
WGMMA_COLUMNS(48, WGMMA_24, 24, 25, 26, 27, 28, 29, 30, 31)
WGMMA_COLUMNS(56, WGMMA_28, 28, 29, 30, 31, 32, 33, 34, 35)
WGMMA_COLUMNS(64, WGMMA_32, 32, 33, 34, 35, 36, 37, 38, 39)
WGMMA_COLUMNS(72, WGMMA_36, 36, 37, 38, 39, 40, 41, 42, 43)
WGMMA_COLUMNS(80, WGMMA_40, 40, 41, 42, 43, 44, 45, 46, 47)
WGMMA_COLUMNS(88, WGMMA_44, 44, 45, 46, 47, 48, 49, 50, 51)
WGMMA_COLUMNS(96, WGMMA_48, 48, 49, 50, 51, 52, 53, 54, 55)
WGMMA_COLUMNS(104, WGMMA_52, 52, 53, 54, 55, 56, 57, 58, 59)
WGMMA_COLUMNS(112, WGMMA_56, 56, 57, 58, 59, 60, 61, 62, 63)
WGMMA_COLUMNS(120, WGMMA_60, 60, 61, 62, 63, 64, 65, 66, 67)
WGMMA_COLUMNS(128, WGMMA_64, 64, 65, 66, 67, 68, 69, 70, 71)
WGMMA_COLUMNS(136, WGMMA_68, 68, 69, 70, 71, 72, 73, 74, 75)
WGMMA_COLUMNS(144, WGMMA_72, 72, 73, 74, 75, 76, 77, 78, 79)
WGMMA_COLUMNS(152, WGMMA_76, 76, 77, 78, 79, 80, 81, 82, 83)
WGMMA_COLUMNS(160, WGMMA_80, 80, 81, 82, 83, 84, 85, 86, 87)
WGMMA_COLUMNS(168, WGMMA_84, 84, 85, 86, 87, 88, 89, 90, 91)
WGMMA_COLUMNS(176, WGMMA_88, 88, 89, 90, 91, 92, 93, 94, 95)
WGMMA_COLUMNS(184, WGMMA_92, 92, 93, 94, 95, 96, 97, 98, 99)
WGMMA_COLUMNS(192, WGMMA_96, 96, 97, 98, 99, 100, 101, 102, 103)
WGMMA_COLUMNS(200, WGMMA_100, 100, 101, 102, 103, 104, 105, 106, 107)
WGMMA_COLUMNS(208, WGMMA_104, 104, 105, 106, 107, 108, 109, 110, 111)
WGMMA_COLUMNS(216, WGMMA_108, 108, 109, 110, 111, 112, 113, 114, 115)
WGMMA_COLUMNS(224, WGMMA_112, 112, 113, 114, 115, 116, 117, 118, 119)
WGMMA_COLUMNS(232, WGMMA_116, 116, 117, 118, 119, 120, 121, 122, 123)
WGMMA_COLUMNS(240, WGMMA_120, 120, 121, 122, 123, 124, 125, 126, 127)
WGMMA_COLUMNS(248, WGMMA_124, 124, 125, 126, 127, 128, 129, 130, 131)
WGMMA_COLUMNS(256, WGMMA_128, 128, 129, 130, 131, 132, 133, 134, 135)
