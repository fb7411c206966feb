// Factors loaded from memory straight to the registers of the threads that use them; EDGES as in operands.cuh.
#pragma once

#include "elements.cuh"
#include "tile_io.cuh"

// The element at x, or 0 where that lies outside its matrix.
template <typename T>
__device__ __forceinline__ Number<T> load_element(const T* x, bool inside) {
    return EDGES && !inside ? Number<T>{} : to_number(*x);
}

// How a group of threads is arranged over a factor that it loads. Its sides are rows of A or columns of B.
//
// THREADS of the group are arranged along the sides and LANES_K along k. ALONG_K: neighbours in memory are neighbours along
// k, else along the sides. A thread loads runs of neighbours: RUN_K along k, or RUN_SIDES along the sides. Elements t of thread
// t's first two runs:
//
//     ALONG_K, THREADS = 1, RUN_K = 4     0000 1111 2222 ... 0000 1111 2222 ...    k -->
//     else, THREADS = 8, RUN_SIDES = 4    0000 1111 2222 ... 0000 1111 2222 ...    sides -->
template <int THREADS, int LANES_K, int RUN_K, int RUN_SIDES, bool ALONG_K>
struct DirectLoad {
    static constexpr int WIDTH = ALONG_K ? 1 : RUN_SIDES;

    // How far a thread's i-th side, or d-th k, lies from its first.
    static __device__ __forceinline__ constexpr int side_of(int i) { return i / WIDTH * (THREADS * WIDTH) + i % WIDTH; }
    static __device__ __forceinline__ constexpr int k_of(int d) { return d / RUN_K * (LANES_K * RUN_K) + d % RUN_K; }

    template <typename T>
    static __device__ __forceinline__ const T* at(const T* X, int ld, int side, int k) {
        return ALONG_K ? ::at(X, ld, side, k) : ::at(X, ld, k, side);
    }

    // Loads COUNT x COUNT_K elements, none of them past the last k. `next` is the address of the first one, at side `first` of
    // the thread's; it becomes that of side first + COUNT where ALONG_K. `left` sides of the matrix are left from the thread's
    // first on: sides past it are loaded from the last ones, or from what fills up a row in memory.
    template <int COUNT, int COUNT_K, typename T>
    static __device__ __forceinline__ void load(Number<T> (&x)[COUNT][COUNT_K], const T*& next, int ld, int first, int left) {
        if constexpr (ALONG_K) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
#pragma unroll
                for (int d = 0; d < COUNT_K; d += RUN_K) load_run<RUN_K>(&x[i][d], next + k_of(d));
                if (!EDGES || side_of(first + i + 1) < left) next = ::at(next, ld, THREADS, 0);
            }
        } else {
#pragma unroll
            for (int d = 0; d < COUNT_K; ++d) {
#pragma unroll
                for (int i = 0; i < COUNT; i += WIDTH) {
                    const int last = max(left - 1, 0) & -WIDTH;
                    const int side = EDGES && first + i > 0 ? min(side_of(first + i), last) : side_of(first + i);
                    Number<T> run[WIDTH];
                    load_run<WIDTH>(run, ::at(next, ld, k_of(d), side));
#pragma unroll
                    for (int w = 0; w < WIDTH; ++w) x[i + w][d] = run[w];
                }
            }
        }
    }

    // Loads elements of which left_k lie inside along k, and `left` along the sides; the others are 0.
    template <int COUNT, int COUNT_K, typename T>
    static __device__ __forceinline__ void load_last(Number<T> (&x)[COUNT][COUNT_K], const T* X, int ld, int first, int left,
                                                     int left_k) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
#pragma unroll
            for (int d = 0; d < COUNT_K; ++d) {
                const int side = side_of(first + i);
                x[i][d] = load_element(at(X, ld, side, k_of(d)), side < left && k_of(d) < left_k);
            }
        }
    }
};
