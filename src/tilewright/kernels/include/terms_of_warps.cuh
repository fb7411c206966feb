// What a block whose warps multiply terms (warp_products.cuh) does with them besides: it splits the factors first, and computes its
// tile in float32 where terms do not hold them. Of one term, it does nothing.
#pragma once

#include "float32_block.cuh"
#include "split_factors.cuh"

// Of a block of THREADS that computes a tile of ROWS x COLS.
template <int ROWS, int COLS, int THREADS, bool SPLIT = (TERMS > 1)>
class TermsOfWarps {
    using Splitter = FactorSplitter<FACTOR, THREADS, true>;
    using Wide = Float32Block<ROWS, COLS, THREADS>;

  public:
    using Operand = typename Splitter::Operand;

    union Memory {
        typename Splitter::Shared splitter;
        typename Wide::Shared wide;
    };

    // By all threads: splits the factors, and returns what terms hold of them.
    static __device__ __forceinline__ TermCheck split(const Operand& a, const Operand& b, SplitCounters* counters, int depth, Memory& memory) {
        return depth > 0 ? Splitter::split(a, b, counters, depth, false, memory.splitter, [] {}) : TermCheck();
    }

    // By all threads: computes the tile at (row, col) of a matrix in float32.
    template <typename T>
    static __device__ __forceinline__ void compute_wide(const Operand& a, const Operand& b, int matrix, int depth,
                                                        const Result<T>& result, int row, int col, Memory& memory) {
        Wide::compute(InPlace(a, matrix, row), InPlace(b, matrix, col), depth, result, row, col, threadIdx.x, memory.wide,
                      BlockMeeting());
    }
};

template <int ROWS, int COLS, int THREADS>
class TermsOfWarps<ROWS, COLS, THREADS, false> {
  public:
    using Operand = Copy<float, FACTOR>;
    struct Memory {};
    static __device__ __forceinline__ TermCheck split(const Operand&, const Operand&, SplitCounters*, int, Memory&) { return {}; }
    template <typename T>
    static __device__ __forceinline__ void compute_wide(const Operand&, const Operand&, int, int, const Result<T>&, int, int, Memory&) {}
};
