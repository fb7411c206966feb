// What a block whose warpgroups multiply terms does with them besides: it splits the factors first, looks at sums as they are
// stored, and computes its tiles in float32 where terms do not hold them.
//
// A consumer is a warpgroup, which has the same rows and COLS columns of each of its tiles (consumers.cuh). What it knows of its
// threads it reads anew, so that nothing of it takes a register while tensor cores multiply.
#pragma once

#include <tensor_map.cuh>
#include <thread_index.cuh>

#include "float32_tile.cuh"
#include "split_factors.cuh"
#include "warp_meeting.cuh"

template <typename Consumers, int COLS>
class TermsOfBlock {
    static constexpr int ROWS = Consumers::ROWS, WARPGROUPS = Consumers::COUNT;
    static constexpr int PART = 64, PART_COLS = COLS <= 128 ? COLS : COLS / 2;  // that are computed in float32 at a time
    using Splitter = FactorSplitter<FACTOR, 128 * (1 + WARPGROUPS), false>;
    using Wide = Float32Tile<PART, PART_COLS, 128>;

  public:
    using Operand = typename Splitter::Operand;

    union Memory {
        typename Splitter::Shared splitter;
        typename Wide::Shared wide[WARPGROUPS];
    };

    // By one thread, before the block meets.
    __device__ __forceinline__ void init() {
        barrier_init(&ended, 4 * WARPGROUPS);
        for (int consumer = 0; consumer < WARPGROUPS; ++consumer) barrier_init(&met[consumer], 4);
    }

    // By all threads: splits the factors, and returns whether terms hold them, as far as is known. The block meets before it goes on.
    __device__ __forceinline__ bool split(const Operand& a, const Operand& b, SplitCounters* counters, int depth, bool adds_c,
                                          Memory& memory) {
        if constexpr (TERMS == 1) {
            return true;
        } else {
            TermCheck found;
            if (depth > 0) found = Splitter::split(a, b, counters, depth, adds_c, memory.splitter, fence_async);
            if (threadIdx.x == 0) {
                least = found.least;
                for (int consumer = 0; consumer < WARPGROUPS; ++consumer) lost[consumer] = !found.hold;
            }
            return found.hold;
        }
    }

    // By a consumer: looks at its sums of PART rows, from an element of D on that has `rows` and `cols` up to the last.
    template <int COUNT>
    __device__ __forceinline__ void look(const float (&sums)[COUNT], int rows, int cols) {
        if (!SCALED) return;
        const int thread = thread_index();
        if (terms_lose(sums, least, thread % 32, rows - thread % 128 / 32 * 16, cols)) atomicMax(&lost[thread / 128], 1);
    }

    // By all consumers, when they have multiplied: computes their tiles in float32 where terms do not hold them. first_col: where
    // the block's columns of a tile begin.
    template <typename Tiles, typename T>
    __device__ __forceinline__ void compute_lost(Tiles tile, int first_col, const Operand& a, const Operand& b, const Sizes& sizes,
                                                 const Output<T>& output, Memory& memory) {
        if constexpr (TERMS > 1) {
            meet_warps(&ended, 0);  // all stages have been read
            const unsigned thread = thread_index(), consumer = thread / 128;
            unsigned meeting = 0;
            const auto meet = [&] { meet_warps(&met[consumer], meeting++); };
            while (lost[consumer] && tile.next()) {
                if (!Consumers::own(tile.number(), consumer)) continue;
                const Result<T> result(output, sizes, tile.matrix);
#pragma unroll 1
                for (int part = 0; part < ROWS / PART * (COLS / PART_COLS); ++part) {
                    const int row = tile.row + Consumers::first_row(consumer) + part % (ROWS / PART) * PART;
                    const int col = tile.col + first_col + part / (ROWS / PART) * PART_COLS;
                    if (row >= sizes.m || col >= sizes.n) continue;
                    Wide::compute(InPlace(a, tile.matrix, row), InPlace(b, tile.matrix, col), sizes.k, result, row, col,
                                  thread % 128, memory.wide[consumer], meet);
                }
            }
        }
    }

  private:
    Barrier ended, met[WARPGROUPS];  // all consumers; the warps of one
    unsigned lost[WARPGROUPS];       // whether the consumer's tiles are to be computed in float32
    float least;                    // see TermCheck
};
