// What a block whose warps multiply parts (warp_products.cuh) does with them besides: it splits the factors first, computes its tile in
// float32 where parts do not represent them, or stores those sums anew that are not finite. Of one part, it does nothing.
#pragma once

#include "float32_parts/float32_block.cuh"
#include "float32_parts/non_finite.cuh"
#include "float32_parts/split_factors.cuh"

// Of a block of THREADS that computes a tile of ROWS x COLS.
template <int ROWS, int COLS, int THREADS, bool SPLIT = (SPLIT_PARTS > 1)>
class PartsOfWarps {
    using Splitter = FactorSplitter<FACTOR, THREADS, true>;
    using Fallback = Float32Block<ROWS, COLS, THREADS>;
    using NotFinite = NonFiniteSums<ROWS, COLS, THREADS>;

  public:
    using Operand = typename Splitter::Operand;

    union Memory {
        typename Splitter::Shared splitter;
        typename Fallback::Shared fallback;
        typename NotFinite::Shared not_finite;
    };

    // By all threads: splits the factors, and returns what is known of them.
    static __device__ __forceinline__ SplitFactors split(const Operand& a, const Operand& b, SplitCounters* counters, int depth,
                                                         Memory& memory) {
        return depth > 0 ? Splitter::split(a, b, counters, depth, false, memory.splitter, [] {}) : SplitFactors();
    }

    // By all threads: computes the tile at (row, col) of a matrix in float32.
    template <typename T>
    static __device__ __forceinline__ void compute_fallback(const Operand& a, const Operand& b, int matrix, int depth,
                                                        const Result<T>& result, int row, int col, Memory& memory) {
        Fallback::compute(InPlace(a, matrix, row), InPlace(b, matrix, col), depth, result, row, col, threadIdx.x, memory.fallback,
                      BlockSync());
    }

    // By all threads, which have stored the tile: stores what of it is not finite.
    template <typename T>
    static __device__ __forceinline__ void store_not_finite(const Operand& a, const Operand& b, const SplitFactors& found, int matrix,
                                                            const Result<T>& result, int row, int col, Memory& memory) {
        if (found.listed_of_a + found.listed_of_b == 0) return;
        __syncthreads();
        NotFinite::store(a, b, found.listed_of_a, found.listed_of_b, matrix, result, row, col, threadIdx.x, memory.not_finite,
                         BlockSync());
    }
};

template <int ROWS, int COLS, int THREADS>
class PartsOfWarps<ROWS, COLS, THREADS, false> {
  public:
    using Operand = Copy<float, FACTOR>;
    struct Memory {};
    static __device__ __forceinline__ SplitFactors split(const Operand&, const Operand&, SplitCounters*, int, Memory&) { return {}; }
    template <typename T>
    static __device__ __forceinline__ void compute_fallback(const Operand&, const Operand&, int, int, const Result<T>&, int, int, Memory&) {}
    template <typename T>
    static __device__ __forceinline__ void store_not_finite(const Operand&, const Operand&, const SplitFactors&, int, const Result<T>&, int,
                                                            int, Memory&) {}
};
