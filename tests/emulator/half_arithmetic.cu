// What cuda_fp16.h and cuda_bf16.h have of arithmetic, one element a thread. T is __half or __nv_bfloat16, PAIR two of it, NAME what functions call it.

#include <ptx/half.cuh>

#define ELEMENTS const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= count) return;
#define JOIN(a, b, c, d) a##b##c##d
#define NAMED(a, b, c, d) JOIN(a, b, c, d)
#define TO_INTEGER(suffix) static_cast<long long>(NAMED(__, NAME, 2, suffix)(x))
#define FROM_INTEGER(name, suffix) NAMED(__##name, 2, NAME, suffix)(numbers[i])
#define FROM_LONG(suffix) NAMED(__ll, 2, NAME, suffix)(long_numbers[i])

// Results of a, b and c; of pairs whose second elements are -a, -b and -c.
extern "C" __global__ void arithmetic(const T* a_of, const T* b_of, const T* c_of, T* out, PAIR* pairs, int count) {
    ELEMENTS
    const T a = a_of[i], b = b_of[i], c = c_of[i];
    const PAIR a2(a, -a), b2(b, -b), c2(c, -c);
    int row = 0;
    const auto put = [&](T one, PAIR two) {
        out[row * count + i] = one;
        pairs[row++ * count + i] = two;
    };
    put(a + b, a2 + b2);
    put(a - b, a2 - b2);
    put(a * b, a2 * b2);
    put(__hfma(a, b, c), __hfma2(a2, b2, c2));
    put(__hadd_sat(a, b), __hadd2_sat(a2, b2));
    put(__hfma_sat(a, b, c), __hfma2_sat(a2, b2, c2));
    put(__hfma_relu(a, b, c), __hfma2_relu(a2, b2, c2));
    put(__hmax(a, b), __hmax2(a2, b2));
    put(__hmin(a, b), __hmin2(a2, b2));
    put(__hmax_nan(a, b), __hmax2_nan(a2, b2));
    put(__hmin_nan(a, b), __hmin2_nan(a2, b2));
    put(-a, -a2);
    put(__habs(a), __habs2(a2));
    put(hfloor(a), h2floor(a2));
    put(hceil(a), h2ceil(a2));
    put(htrunc(a), h2trunc(a2));
    put(hrint(a), h2rint(a2));
    T sum = a;
    sum += b;
    ++sum;
    PAIR sums = a2;
    sums += b2;
    ++sums;
    put(sum, sums);
}

// What a GPU approximates.
extern "C" __global__ void functions(const T* a_of, const T* b_of, T* out, int count) {
    ELEMENTS
    const T a = a_of[i];
    const T of[] = {a / b_of[i], hsqrt(a), hrsqrt(a), hrcp(a), hexp(a), hexp2(a), hexp10(a), hlog(a), hlog2(a), hlog10(a),
                    hsin(a), hcos(a)};
    for (int row = 0; row < 12; ++row) out[row * count + i] = of[row];
}

// A bit each, in the order eq ne lt le gt ge, those that NaN is right for, then the operators.
extern "C" __global__ void comparisons(const T* a_of, const T* b_of, unsigned* out, unsigned* masks, int count) {
    ELEMENTS
    const T a = a_of[i], b = b_of[i];
    const bool all[] = {__heq(a, b),  __hne(a, b),  __hlt(a, b),  __hle(a, b),  __hgt(a, b),  __hge(a, b),
                        __hequ(a, b), __hneu(a, b), __hltu(a, b), __hleu(a, b), __hgtu(a, b), __hgeu(a, b),
                        a == b,       a != b,       a < b,        a <= b,       a > b,        a >= b,
                        __hisnan(a),  __hisinf(a) == 1, __hisinf(a) == -1};
    unsigned bits = 0;
    for (int k = 0; k < 21; ++k) bits |= unsigned(all[k]) << k;
    out[i] = bits;
    const PAIR a2(a, b), b2(b, a);
    masks[2 * i] = __hlt2_mask(a2, b2);
    masks[2 * i + 1] = __hbgeu2(a2, b2);
}

extern "C" __global__ void integers(const T* from, const int* numbers, const long long* long_numbers, long long* out, T* back,
                                    int count) {
    ELEMENTS
    const T x = from[i];
    const long long all[] = {TO_INTEGER(int_rn), TO_INTEGER(int_rz), TO_INTEGER(int_ru), TO_INTEGER(int_rd),
                             TO_INTEGER(uint_rn), TO_INTEGER(short_rz), TO_INTEGER(ushort_rz), TO_INTEGER(ll_rn)};
    for (int row = 0; row < 8; ++row) out[row * count + i] = all[row];
    const T made[] = {FROM_INTEGER(int, _rn), FROM_INTEGER(int, _rz), FROM_INTEGER(int, _ru), FROM_INTEGER(int, _rd), T(numbers[i]),
                      FROM_LONG(_rn)};
    for (int row = 0; row < 6; ++row) back[row * count + i] = made[row];
}

extern "C" __global__ void atomics(const T* values, T* sum, PAIR* sums, int count) {
    ELEMENTS
    atomicAdd(sum, values[i]);
    atomicAdd(sums, PAIR(values[i], -values[i]));
}
