// Products of a tile of B, split in registers, and of the tokens' terms in shared memory (token_tile.cuh): D^T = B^T A^T, of 64
// columns of B by a warpgroup.
//
// Six products of terms, the least first (stage_products.cuh). Tensor cores cut off what does not fit into a sum, so their sums
// begin anew with every tile, and threads add them up: the largest product, and apart all others. While tensor cores work the
// threads split the next tile. Of 128 tokens, the two halves take turns, so that there are registers for both kinds of sums:
//
//   tensor cores   | small 0      | large 0 | small 1      | large 1 |         | small 0 ...
//   threads        | split next tile | add small 0 | add large 0 | add small 1 | add large 1 |
#pragma once

#include "term_pairs.cuh"
#include "token_tile.cuh"
#include "wide_tile.cuh"
#include <wgmma.cuh>  // in brackets: the emulator has one of its own

template <bool ALONG_K, int COLS, int ROWS>
class TokenProducts {
    static constexpr int PARTS = ROWS > 64 ? 2 : 1, TOKENS = ROWS / PARTS, COUNT = TOKENS / 2;  // sums of a thread, of each part

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

    // Adds the products of the tile that was split last. meanwhile(): splits the next one, if there is one.
    template <typename Meanwhile>
    __device__ __forceinline__ void multiply(const TokenTile<ROWS>& tokens, const Meanwhile& meanwhile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int j = 0; j < TERMS * 4; ++j) now[i][j / 4][j % 4] = next[i][j / 4][j % 4];
        }
        float small[COUNT], large[COUNT];
        fence_sums(small, now);
        start<TERMS - 1, 1>(small, tokens, 0);
        fence_sums(large);
        start<0, 0>(large, tokens, 0);
        meanwhile();
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            wait_products<1>(small);
            add(part, small);
            if (part + 1 < PARTS) {
                fence_sums(small);
                start<TERMS - 1, 1>(small, tokens, part + 1);
                wait_products<1>(large);
            } else {
                wait_products<0>(large, now);
            }
            add(part, large);
            if (part + 1 < PARTS) {
                fence_sums(large);
                start<0, 0>(large, tokens, part + 1);
            }
        }
    }

    // Stores the sums, those of a token in a line of shared memory.
    template <int PITCH>
    __device__ __forceinline__ void store(float (&to)[ROWS][PITCH]) const {
        const int lane = thread % 32, col = thread / 32 * 16 + WideOrder<ALONG_K>::column(lane);
#pragma unroll
        for (int i = 0; i < PARTS * COUNT; ++i) {
            to[i / 4 * 8 + lane % 4 * 2 + i % 2][col + i / 2 % 2 * 8] = sums[i / COUNT][i % COUNT];
        }
    }

  private:
    // Starts products of terms whose numbers add up to MOST, then to less, until LEAST.
    template <int MOST, int LEAST>
    __device__ __forceinline__ void start(float (&made)[COUNT], const TokenTile<ROWS>& tokens, int part) {
#pragma unroll
        for (int order = MOST; order >= LEAST; --order) {
#pragma unroll
            for (int term = 0; term <= order; ++term) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const bool adds = order < MOST || term > 0 || i > 0;
                    multiply_async(made, now[i][term], tokens.at(order - term, part * TOKENS, i), adds);
                }
            }
        }
        commit_products();
    }

    __device__ __forceinline__ void add(int part, const float (&made)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sums[part][i] += made[i];
    }

    const int thread;
    float sums[PARTS][COUNT] = {};
    unsigned now[2][TERMS][4], next[2][TERMS][4];  // of B, of 16 k each: what is multiplied, and what comes next
};
