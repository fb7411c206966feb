// Matrix fragments on the emulator, under the names of CUDA's mma.h; rules as in the CUDA C++ Programming Guide, "Warp Matrix
// Functions". The shapes are 16x16x16 for half and bfloat16, and 16x16x8 for TF32; sums are in float.
//
// The lanes of a warp hold a fragment together, each an equal share of it: a run of its elements, counted by rows. (On a GPU
// the shares are others, and not specified.) A _sync function waits for all lanes and is then done for all of them at once.
//
// Loops over lanes and rows are kept as loops (#pragma GCC unroll 1): unrolled, a kernel takes three times as long to compile.
//
// Products are exact and sums are rounded as float is. A GPU's tensor cores round sums differently, and not as specified.
#pragma once

#include "ptx/half.cuh"

namespace nvcuda::wmma {

enum layout_t { mem_row_major, mem_col_major };

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;

namespace precision {
struct tf32;
}

// How elements of this type lie in memory, and their value as a tensor core sees it.
template <typename T>
struct Element {
    using Stored = T;
    static constexpr int depth = 16;
    static __forceinline__ float value(T x) { return float(x); }
};

template <>
struct Element<precision::tf32> {
    using Stored = float;
    static constexpr int depth = 8;
    // The last 13 bits are not looked at: a float that __float_to_tf32 has not rounded loses them.
    static __forceinline__ float value(float x) {
        return simt::bit_cast<float>(simt::bit_cast<std::uint32_t>(x) & 0xffffe000);
    }
};

template <int ROWS, int COLS, typename T>
struct Share {
    using element_type = T;
    using storage_element_type = typename Element<T>::Stored;
    static constexpr int rows = ROWS, cols = COLS;
    static constexpr int num_elements = ROWS * COLS / warpSize;
    storage_element_type x[num_elements];
};

template <typename Use, int M, int N, int K, typename T, typename Layout = void>
struct fragment;

template <int M, int N, int K, typename T, typename Layout>
struct fragment<matrix_a, M, N, K, T, Layout> : Share<M, K, T> {
    static_assert(M == 16 && N == 16 && K == Element<T>::depth, "the emulator lacks fragments of this shape");
};

template <int M, int N, int K, typename T, typename Layout>
struct fragment<matrix_b, M, N, K, T, Layout> : Share<K, N, T> {
    static_assert(M == 16 && N == 16 && K == Element<T>::depth, "the emulator lacks fragments of this shape");
};

template <int M, int N, int K>
struct fragment<accumulator, M, N, K, float> : Share<M, N, float> {
    static_assert(M == 16 && N == 16 && (K == 8 || K == 16), "the emulator lacks fragments of this shape");
};

// Rounds to TF32's 10 bits of mantissa: to nearest, ties away from zero.
__forceinline__ float __float_to_tf32(float value) {
    const auto bits = simt::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return simt::bit_cast<float>(0x7fffffffu);  // NaN
    return simt::bit_cast<float>((bits + 0x1000) & 0xffffe000);
}

// Arguments of a lane to a load or a store.
template <typename Fragment, typename T>
struct Transfer {
    Fragment* fragment;
    T* matrix;
    unsigned ld;
    layout_t layout;
    simt::Call call;

    // Why the lanes' calls cannot be carried out, or a null pointer.
    static SIMT_UNSEEN const char* refusal(void* const* lanes) {
        const Transfer& first = of(lanes, 0);
#pragma GCC unroll 1
        for (unsigned lane = 1; lane < warpSize; ++lane) {
            const Transfer& other = of(lanes, lane);
            if (other.matrix != first.matrix || other.ld != first.ld || other.layout != first.layout) {
                return "a pointer, leading dimension or layout that is not the same in all lanes";
            }
        }
        if (reinterpret_cast<std::uintptr_t>(first.matrix) % 32 != 0) return "a pointer that is no multiple of 32 bytes";
        if (first.ld * sizeof(T) % 16 != 0) return "a leading dimension that is no multiple of 16 bytes";
        return nullptr;
    }

    // Tells an observer of it.
    static void tell(void* const* lanes, bool writes) {
        const Transfer& first = of(lanes, 0);
        const bool by_rows = first.layout == mem_row_major;
        simt_fragment(simt_thread(), first.call, first.matrix, by_rows ? Fragment::rows : Fragment::cols,
                      (by_rows ? Fragment::cols : Fragment::rows) * sizeof(T), first.ld * sizeof(T), sizeof(T),
                      by_rows && Fragment::rows * Fragment::cols * sizeof(T) == 1024 ? 8 : 4, writes);
    }

    // Calls visit(element of a fragment, element of memory) for all of a matrix.
    template <typename Visit>
    static __forceinline__ void for_each(void* const* lanes, Visit visit) {
        const Transfer& first = of(lanes, 0);
        const std::size_t ld = first.ld;
        const std::size_t row_step = first.layout == mem_row_major ? ld : 1;
        const std::size_t col_step = first.layout == mem_row_major ? 1 : ld;
#pragma GCC unroll 1
        for (int lane = 0; lane < warpSize; ++lane) {
            for (int i = 0; i < Fragment::num_elements; ++i) {
                const int element = lane * Fragment::num_elements + i;
                const int row = element / Fragment::cols, col = element % Fragment::cols;
                visit(of(lanes, lane).fragment->x[i], first.matrix[row * row_step + col * col_step]);
            }
        }
    }

    static __forceinline__ const Transfer& of(void* const* lanes, unsigned lane) {
        return *static_cast<const Transfer*>(lanes[lane]);
    }
};

template <typename Fragment, typename T>
__forceinline__ void load(simt::Call call, Fragment& fragment, const T* matrix, unsigned ld, layout_t layout) {
    using Load = Transfer<Fragment, const T>;
    Load own{&fragment, matrix, ld, layout, call};
    simt_warp_together(simt_thread(), call, &own, [](void* const* lanes) SIMT_UNSEEN {
        const char* const refusal = Load::refusal(lanes);
        if (refusal != nullptr) return refusal;
        Load::tell(lanes, false);
        Load::for_each(lanes, [](T& element, const T& memory) __attribute__((always_inline)) { element = memory; });
        return refusal;
    });
}

// Arguments of a lane to a product: its parts of A, B, C and D.
template <int M, int N, int K, typename T>
struct Product {
    const typename Element<T>::Stored *a, *b;
    const float* c;
    float* d;

    static SIMT_UNSEEN const char* multiply(void* const* lanes) {
        constexpr int INPUTS = M * K / warpSize, SUMS = M * N / warpSize;
        static_assert(M == N, "shares of A and B are of one size");
        float left[M * K], right[K * N], sums[M * N];
#pragma GCC unroll 1
        for (int lane = 0; lane < warpSize; ++lane) {
            const Product& own = *static_cast<const Product*>(lanes[lane]);
            for (int i = 0; i < INPUTS; ++i) left[lane * INPUTS + i] = Element<T>::value(own.a[i]);
            for (int i = 0; i < INPUTS; ++i) right[lane * INPUTS + i] = Element<T>::value(own.b[i]);
            for (int i = 0; i < SUMS; ++i) sums[lane * SUMS + i] = own.c[i];
        }
#pragma GCC unroll 1
        for (int row = 0; row < M; ++row) {
            for (int k = 0; k < K; ++k) {
                for (int col = 0; col < N; ++col) sums[row * N + col] += left[row * K + k] * right[k * N + col];
            }
        }
#pragma GCC unroll 1
        for (int lane = 0; lane < warpSize; ++lane) {
            const Product& own = *static_cast<const Product*>(lanes[lane]);
            for (int i = 0; i < SUMS; ++i) own.d[i] = sums[lane * SUMS + i];
        }
        return nullptr;
    }
};

template <typename Use, int M, int N, int K, typename T>
__forceinline__ void load_matrix_sync(fragment<Use, M, N, K, T, row_major>& to,
                                      const typename Element<T>::Stored* matrix, unsigned ld, SIMT_LOCATION) {
    load({simt::Operation::wmma_load, file, line}, to, matrix, ld, mem_row_major);
}

template <typename Use, int M, int N, int K, typename T>
__forceinline__ void load_matrix_sync(fragment<Use, M, N, K, T, col_major>& to,
                                      const typename Element<T>::Stored* matrix, unsigned ld, SIMT_LOCATION) {
    load({simt::Operation::wmma_load, file, line}, to, matrix, ld, mem_col_major);
}

template <int M, int N, int K>
__forceinline__ void load_matrix_sync(fragment<accumulator, M, N, K, float>& to, const float* matrix, unsigned ld,
                                      layout_t layout, SIMT_LOCATION) {
    load({simt::Operation::wmma_load, file, line}, to, matrix, ld, layout);
}

template <int M, int N, int K>
__forceinline__ void store_matrix_sync(float* matrix, const fragment<accumulator, M, N, K, float>& from, unsigned ld,
                                       layout_t layout, SIMT_LOCATION) {
    using Store = Transfer<const fragment<accumulator, M, N, K, float>, float>;
    const simt::Call call = {simt::Operation::wmma_store, file, line};
    Store own{&from, matrix, ld, layout, call};
    simt_warp_together(simt_thread(), call, &own, [](void* const* lanes) SIMT_UNSEEN {
        const char* const refusal = Store::refusal(lanes);
        if (refusal != nullptr) return refusal;
        Store::tell(lanes, true);
        Store::for_each(lanes, [](const float& element, float& memory) __attribute__((always_inline)) {
            memory = element;
        });
        return refusal;
    });
}

template <typename Fragment, typename T>
__forceinline__ void fill_fragment(Fragment& fragment, const T& value) {
    for (auto& element : fragment.x) element = value;
}

// D = A * B + C; D and C may be one fragment.
template <int M, int N, int K, typename T, typename LayoutA, typename LayoutB>
__forceinline__ void mma_sync(fragment<accumulator, M, N, K, float>& d, const fragment<matrix_a, M, N, K, T, LayoutA>& a,
                              const fragment<matrix_b, M, N, K, T, LayoutB>& b,
                              const fragment<accumulator, M, N, K, float>& c, SIMT_LOCATION) {
    using Step = Product<M, N, K, T>;
    Step own{a.x, b.x, c.x, d.x};
    simt_warp_together(simt_thread(), {simt::Operation::wmma_mma, file, line}, &own, Step::multiply);
}

}  // namespace nvcuda::wmma

namespace wmma = nvcuda::wmma;
