// Products of a tile of B, split in registers, and of the tokens' terms in shared memory (token_tile.cuh): D^T = B^T A^T, of 64
// columns of B by a warpgroup.
//
// Six products of terms (stage_products.cuh). Tensor cores cut off what does not fit into a sum, so their sums begin anew, and
// threads add them up: the largest product of each tile, and apart all others. While tensor cores work the threads split the next
// tile: a pair of elements after each product that is started, since a warp waits while it hands registers to the tensor cores.
//
//   tensor cores   | largest | other | other | other ...              up to 64 tokens: sums of both kinds,
//   threads                    split | split | split ... add largest |   and others are added once a step, which is small enough
//
//   tensor cores   | other | other | other ... |            | largest |               128 tokens: registers for one kind at a time;
//   threads          split | split | split ...   add others           | add largest |   another warpgroup multiplies meanwhile
//
// The tensor cores read the registers of B's terms until the wait, but ptxas gives them to others as soon as the products have
// started (found on an H200). So what comes next goes to registers of its own, and takes their place by a choice that depends on
// a sum, so that it cannot come before the wait, and that seems to need them.
#pragma once

#include "term_pairs.cuh"
#include "token_tile.cuh"
#include "wide_tile.cuh"
#include <wgmma.cuh>  // in brackets: the emulator has one of its own

template <bool ALONG_K, int COLS, int ROWS>
class TokenProducts {
    using Tile = WideTile<ALONG_K, COLS>;

    static constexpr int COUNT = ROWS / 2;        // sums of a thread
    static constexpr int PAIRS = 8;               // of a thread's elements of a tile
    static constexpr bool APART = ROWS <= 64;     // whether there are registers for sums of both kinds
    static constexpr unsigned NEVER = 0x7fa5a5a5;  // a NaN that no tensor core makes

  public:
    TermWatch watch;

    // thread: of those that have the columns of a tile of B, 64 each warpgroup. exists: a number that is not 0, as the compiler
    // does not see. It moves no instruction across a branch, and so leaves what a pair is split by between products.
    __device__ __forceinline__ TokenProducts(int thread, int exists) : thread(thread), exists(exists) {}

    // Splits the first tile of B, which comes to be multiplied.
    __device__ __forceinline__ void begin(const Tile& tile) {
        tile.read(elements, thread, 0);
#pragma unroll
        for (int pair = 0; pair < PAIRS; ++pair) split(pair, tile);
        take(true);
    }

    // Adds the products of the tile that was taken last, the `first` or the `last` of a step. Meanwhile splits `then`, which comes
    // next, and takes it, if there is MORE.
    template <bool MORE>
    __device__ __forceinline__ void multiply(const TokenTile<ROWS>& tokens, bool first, bool last, const Tile& then) {
        if (MORE) then.read(elements, thread, 0);
        if constexpr (APART) {
            float largest[COUNT];
            fence_sums(largest, now);
            start<0, 0, false>(largest, tokens, false, then);
            fence_sums(others);
            start<TERMS - 1, 1, MORE>(others, tokens, !first, then);
            wait_products<1>(largest);
            add(largest);
            wait_products<0>(others, now);
            if (last) add(others);
            if (MORE) take(__float_as_uint(others[0]) != NEVER);
        } else {
            float made[COUNT];
            fence_sums(made, now);
            start<TERMS - 1, 1, MORE>(made, tokens, false, then);
            wait_products<0>(made);
            add(made);
            fence_sums(made);
            start<0, 0, false>(made, tokens, false, then);
            wait_products<0>(made, now);
            add(made);
            if (MORE) take(__float_as_uint(made[0]) != NEVER);
        }
    }

    // Stores the sums, those of a token in a line of shared memory.
    template <int PITCH>
    __device__ __forceinline__ void store(float (&to)[ROWS][PITCH]) const {
        const int lane = thread % 32, col = thread / 32 * 16 + WideOrder<ALONG_K>::column(lane);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            to[i / 4 * 8 + lane % 4 * 2 + i % 2][col + i / 2 % 2 * WideOrder<ALONG_K>::SECOND] = sums[i];
        }
    }

  private:
    // Starts products of terms whose numbers add up to MOST, then to less, until LEAST. MORE: splits the next tile meanwhile.
    template <int MOST, int LEAST, bool MORE>
    __device__ __forceinline__ void start(float (&made)[COUNT], const TokenTile<ROWS>& tokens, bool adds, const Tile& then) {
        int started = 0;
#pragma unroll
        for (int order = MOST; order >= LEAST; --order) {
#pragma unroll
            for (int term = 0; term <= order; ++term) {
#pragma unroll
                for (int i = 0; i < 2; ++i, ++started) {
                    multiply_async<__nv_bfloat16>(made, now[i][term], tokens.at(order - term, i), adds || started > 0);
                    if (MORE && started < PAIRS && exists) split(started, then);
                }
            }
        }
        commit_products();
    }

    // Splits one of the thread's pairs of a tile that comes next. Of the 16 k in which a pair is, the elements are there.
    __device__ __forceinline__ void split(int pair, const Tile& tile) {
        const float x = elements[pair % 4 * 2], y = elements[pair % 4 * 2 + 1];
        if (pair == PAIRS / 2 - 1) tile.read(elements, thread, 1);
        watch.see(x);
        watch.see(y);
        unsigned terms[TERMS];
        split_pair(x, y, terms);
#pragma unroll
        for (int t = 0; t < TERMS; ++t) next[pair / 4][t][pair % 4] = terms[t];
    }

    // What was split comes to be multiplied.
    __device__ __forceinline__ void take(bool certainly) {
#pragma unroll
        for (int i = 0; i < 2 * TERMS * 4; ++i) {
            unsigned& term = now[i / (TERMS * 4)][i / 4 % TERMS][i % 4];
            term = certainly ? next[i / (TERMS * 4)][i / 4 % TERMS][i % 4] : term;
        }
    }

    __device__ __forceinline__ void add(const float (&made)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sums[i] += made[i];
    }

    const int thread, exists;
    float sums[COUNT] = {}, others[APART ? COUNT : 1];  // the latter made by tensor cores over a step
    float elements[8];                                  // of the next tile of B
    unsigned now[2][TERMS][4], next[2][TERMS][4];       // of B, of 16 k each: what is multiplied, and what comes next
};
