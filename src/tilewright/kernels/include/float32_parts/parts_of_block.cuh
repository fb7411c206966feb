// What a block whose warpgroups multiply parts does besides: it splits A and B first, looks at sums as they are stored, stores those
// anew that are not finite, or computes its tiles in float32 where parts cannot represent them.
//
//   producer       | split, wait for all blocks | load stages |                | lost: copy float32 ... (full, empty)         |
//   consumers      | split, wait for all blocks | multiply    | store and look | lost: multiply float32 ... ; or store what is not finite
//                    __syncthreads or cluster_sync_relaxed            __syncthreads
//
// What it knows of its threads it reads anew, so that nothing of it takes a register while tensor cores multiply.
#pragma once

#include "float32_parts/float32_warpgroups.cuh"
#include "float32_parts/non_finite.cuh"
#include "float32_parts/split_factors.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/thread_index.cuh"

// Of a block with tiles of ROWS x COLS: one warpgroup loads, the first WARPGROUPS multiply.
template <int ROWS, int COLS, int WARPGROUPS>
class PartsOfBlock {
    using Splitter = FactorSplitter<FACTOR, 128 * (1 + WARPGROUPS), false>;
    using Fallback = Float32Warpgroups<ROWS, COLS, WARPGROUPS>;
    using NotFinite = NonFiniteSums<ROWS, COLS, 128 * WARPGROUPS>;

  public:
    using Operand = typename Splitter::Operand;

    union Memory {
        typename Splitter::Shared splitter;
        typename Fallback::Memory fallback;
        typename NotFinite::Shared not_finite;
    };

    // By one thread, before the block syncs.
    __device__ __forceinline__ void init() { fallback.init(); }

    // By all threads: splits the factors, and returns whether parts represent them, as far as is known. The block syncs before it goes on.
    __device__ __forceinline__ bool split(const Operand& a, const Operand& b, SplitCounters* counters, int depth, bool adds_c,
                                          Memory& memory) {
        if constexpr (SPLIT_PARTS == 1) {
            return true;
        } else {
            SplitFactors found;
            if (depth > 0) found = Splitter::split(a, b, counters, depth, adds_c, memory.splitter, fence_async);
            if (threadIdx.x == 0) {
                least = found.parts.least;
                falls_back = !found.parts.in_range;
                listed_of_a = found.listed_of_a;
                listed_of_b = found.listed_of_b;
            }
            return found.parts.in_range;
        }
    }

    // By a warpgroup that multiplies: looks at its sums of 64 rows, from an element of D on that has `rows` and `cols` up to the last.
    template <typename Sums>
    __device__ __forceinline__ void look(const Sums& sums, int rows, int cols) {
        if constexpr (SPLIT_PARTS > 1) {
            const int thread = thread_index();
            if (sums_too_small(sums, least, thread % 32, rows - thread % 128 / 32 * 16, cols)) atomicMax(&falls_back, 1);
        }
    }

    // By all threads, when all stages have been read and all sums stored: computes the block's tiles in float32 where parts do not
    // represent them, those that load by copying; or what of them is not finite. tiles_from(sizes, i): these tiles from number i on;
    // first_col: where the block's part of one begins.
    template <bool LOADS, typename TilesFrom, typename Result_>
    __device__ __forceinline__ void compute_fallback(const TilesFrom& tiles_from, int first_col, const Operand& a, const Operand& b,
                                                 const Sizes& sizes, const Output<Result_>& output, Memory& memory) {
        if constexpr (SPLIT_PARTS > 1) {
            __syncthreads();
            if constexpr (LOADS) {
                if (falls_back) fallback.copy(tiles_from, first_col, a, b, sizes, memory.fallback);
            } else if (falls_back) {
                fallback.multiply(tiles_from, first_col, sizes, output, memory.fallback);
            } else if (listed_of_a + listed_of_b > 0) {
                unsigned syncs = 0;
                const auto sync = [&] { fallback.sync(syncs++); };
                for (int number = 0;; ++number) {
                    auto tile = tiles_from(sizes, number);
                    if (!tile.next()) return;
                    const Result<Result_> result(output, sizes, tile.matrix);
                    NotFinite::store(a, b, listed_of_a, listed_of_b, tile.matrix, result, tile.row, tile.col + first_col, thread_index(),
                                     memory.not_finite, sync);
                }
            }
        }
    }

  private:
    Fallback fallback;
    unsigned falls_back;                      // whether the block's tiles are to be computed in float32
    float least;                        // see RangeCheck
    unsigned listed_of_a, listed_of_b;  // elements that are not finite
};
