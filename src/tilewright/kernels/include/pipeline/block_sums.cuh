// Sums of the groups of a block, and then of the blocks that share a tile, always added in the same order.
#pragma once

#include "operands.cuh"

// KEPT sums of each thread; TEAMS groups of TEAM threads have such sums of the same TEAM x KEPT elements, and so have the
// blocks that share a tile: `splits` of them, this one being number `split`. Calls finish(number, total) for each element, by
// some thread of the block that is last; number % TEAM is the thread of the group that has it, number / TEAM which of its.
//
//     registers       group 0    group 1   ...        KEPT sums a thread
//                         \      /
//     shared memory    ROUND x THREADS                a round: as many of the KEPT as there is room for
//                          |
//     workspace        block 0 of the tile, 1, ...    TEAM x KEPT sums each; the block that is last adds them
template <int TEAMS, int TEAM, int KEPT>
class BlockSums {
  public:
    static constexpr int COUNT = KEPT * TEAM;

    template <typename T, typename Finish>
    static __device__ __forceinline__ void add(const T* sums, const Workspace& workspace, int tile, int tiles, int split,
                                               int splits, const Finish& finish) {
        __shared__ T gathered[ROUND][THREADS];
        __shared__ bool last;
        T* own = reinterpret_cast<T*>(workspace.sums) + (static_cast<long long>(split) * tiles + tile) * COUNT;
#pragma unroll
        for (int top = 0; top < KEPT; top += ROUND) {
            if (top > 0) __syncthreads();  // the round before has been read
#pragma unroll
            for (int i = 0; i < ROUND && top + i < KEPT; ++i) gathered[i][threadIdx.x] = sums[top + i];
            __syncthreads();
#pragma unroll 1
            for (int i = threadIdx.x; i < min(ROUND, KEPT - top) * TEAM; i += THREADS) {
                T sum = {};
#pragma unroll
                for (int g = 0; g < TEAMS; ++g) sum += gathered[i / TEAM][g * TEAM + i % TEAM];
                if (splits > 1) {
                    own[top * TEAM + i] = sum;
                } else {
                    finish(top * TEAM + i, sum);
                }
            }
        }
        if (splits == 1) return;

        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            last = atomicInc(&workspace.counters[tile], splits - 1) == splits - 1;
            __threadfence();
        }
        __syncthreads();
        if (!last) return;
        T totals[EACH] = {};
        const int adder = ADDERS > 1 ? threadIdx.x / COUNT : 0;
        const T* all = reinterpret_cast<const T*>(workspace.sums) + static_cast<long long>(tile) * COUNT + (threadIdx.x - adder * COUNT);
        for (int first = adder; adder < ADDERS && first < splits; first += TOGETHER * ADDERS) {
#pragma unroll
            for (int t = 0; t < TOGETHER; ++t) {
                const int s = first + t * ADDERS;
                const T* theirs = all + static_cast<long long>(s) * tiles * COUNT;
#pragma unroll
                for (int i = 0; i < EACH; ++i) {
                    const bool exists = ADDERS > 1 || threadIdx.x + i * THREADS < COUNT;
                    totals[i] += s < splits && exists ? theirs[i * THREADS] : T{};
                }
            }
        }
        if (ADDERS > 1) {
            gathered[0][threadIdx.x] = totals[0];
            __syncthreads();
            if (adder > 0) return;
#pragma unroll
            for (int other = 1; other < ADDERS; ++other) totals[0] += gathered[0][other * COUNT + threadIdx.x];
        }
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int number = threadIdx.x + i * THREADS;
            if (number < COUNT) finish(number, totals[i]);
        }
    }

  private:
    static constexpr int THREADS = TEAMS * TEAM;
    static constexpr int ROUND = KEPT * THREADS > 4096 ? 4096 / THREADS : KEPT;
    static constexpr int EACH = (COUNT + THREADS - 1) / THREADS;          // of a block's sums, those that a thread adds, ...
    static constexpr int ADDERS = COUNT < THREADS ? THREADS / COUNT : 1;  // ... or threads that divide the blocks of one
    static constexpr int TOGETHER = EACH <= 4 ? 8 : EACH <= 8 ? 4 : 2;    // blocks whose sums a thread loads together
};
