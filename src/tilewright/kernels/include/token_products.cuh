// Products of a tile of B, split in registers, and of the tokens' terms in shared memory (token_tile.cuh): D^T = B^T A^T, of 64
// columns of B by a warpgroup.
//
// Six products of terms, the least first (stage_products.cuh). Tensor cores cut off what does not fit into a sum, so their sums
// begin anew with every tile, and threads add them up: the largest product, and apart all others. While tensor cores work the
// threads split the next tile:
//
//   tensor cores   | others          | largest |         | others ...         up to 64 tokens: sums of both kinds
//   threads        | split next tile | add others | add largest |
//
//   tensor cores   | others          |            | largest |                 128 tokens: registers for one kind at a time; another
//   threads        | split next tile | add others |         | add largest |   warpgroup multiplies meanwhile
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
    static constexpr int COUNT = ROWS / 2;        // sums of a thread
    static constexpr bool APART = ROWS <= 64;     // whether there are registers for sums of both kinds
    static constexpr unsigned NEVER = 0x7fa5a5a5;  // a NaN that no tensor core makes

  public:
    TermWatch watch;

    // thread: of those that have the columns of a tile of B, 64 each warpgroup.
    __device__ __forceinline__ explicit TokenProducts(int thread) : thread(thread) {}

    // Loads the thread's elements of a tile of B that comes next, and splits them.
    __device__ __forceinline__ void split(const WideTile<ALONG_K, COLS>& tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float x[8];
            tile.read(x, thread, i);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                watch.see(x[2 * j]);
                watch.see(x[2 * j + 1]);
                unsigned pair[TERMS];
                split_pair(x[2 * j], x[2 * j + 1], pair);
#pragma unroll
                for (int t = 0; t < TERMS; ++t) next[i][t][j] = pair[t];
            }
        }
    }

    // What was split comes to be multiplied.
    __device__ __forceinline__ void take(bool certainly = true) {
#pragma unroll
        for (int i = 0; i < 2 * TERMS * 4; ++i) {
            unsigned& term = now[i / (TERMS * 4)][i / 4 % TERMS][i % 4];
            term = certainly ? next[i / (TERMS * 4)][i / 4 % TERMS][i % 4] : term;
        }
    }

    // Adds the products of the tile that was taken last, and takes the next. meanwhile(): splits that, if there is one.
    template <typename Meanwhile>
    __device__ __forceinline__ void multiply(const TokenTile<ROWS>& tokens, const Meanwhile& meanwhile) {
        float made[COUNT];
        fence_sums(made, now);
        start<TERMS - 1, 1>(made, tokens);
        if constexpr (APART) {
            float largest[COUNT];
            fence_sums(largest);
            start<0, 0>(largest, tokens);
            meanwhile();
            wait_products<1>(made);
            add(made);
            wait_products<0>(largest, now);
            add(largest);
            take(__float_as_uint(largest[0]) != NEVER);
        } else {
            meanwhile();
            wait_products<0>(made);
            add(made);
            fence_sums(made);
            start<0, 0>(made, tokens);
            wait_products<0>(made, now);
            add(made);
            take(__float_as_uint(made[0]) != NEVER);
        }
    }

    // Stores the sums, those of a token in a line of shared memory.
    template <int PITCH>
    __device__ __forceinline__ void store(float (&to)[ROWS][PITCH]) const {
        const int lane = thread % 32, col = thread / 32 * 16 + WideOrder<ALONG_K>::column(lane);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) to[i / 4 * 8 + lane % 4 * 2 + i % 2][col + i / 2 % 2 * 8] = sums[i];
    }

  private:
    // Starts products of terms whose numbers add up to MOST, then to less, until LEAST.
    template <int MOST, int LEAST>
    __device__ __forceinline__ void start(float (&made)[COUNT], const TokenTile<ROWS>& tokens) {
#pragma unroll
        for (int order = MOST; order >= LEAST; --order) {
#pragma unroll
            for (int term = 0; term <= order; ++term) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const bool adds = order < MOST || term > 0 || i > 0;
                    multiply_async<__nv_bfloat16>(made, now[i][term], tokens.at(order - term, i), adds);
                }
            }
        }
        commit_products();
    }

    __device__ __forceinline__ void add(const float (&made)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sums[i] += made[i];
    }

    const int thread;
    float sums[COUNT] = {};
    unsigned now[2][TERMS][4], next[2][TERMS][4];  // of B, of 16 k each: what is multiplied, and what comes next
};
