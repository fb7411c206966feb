// The sums of one tile that the blocks of a cluster have, each over its part of the k, added up: block i gets the totals of
// the i-th part of the columns, and stores these.
//
//   block 0   sums of columns 0 ..              block 0   totals of the first columns:  0 + 1 + 2 + 3
//   block 1   the same, other k       ->        block 1   of the next                   0 + 1 + 2 + 3
//   block 2                                     block 2
//   block 3                                     block 3
//
//   consumers of all blocks   | cluster_sync_relaxed: stages have been read | write sums | cluster_sync | add |
//   their producers           | cluster_sync_relaxed                        |            | cluster_sync | return
#pragma once

#include "ptx/cluster.cuh"

template <typename Sum>
struct FourOf {
    using type = float4;
};
template <>
struct FourOf<int> {
    using type = int4;
};

// BLOCKS: those that share a tile's k; their ranks are APART, as many as tiles are computed at a time.
// The threads of a block that have sums: THREADS, counted from 0 by `thread`. A thread has COUNT sums of its own of a tile, and
// float4s of them in the order of the columns. `slots` is shared memory of THREADS * COUNT / 4 float4s.
// Threads that have none call `attend` when the others call `add_up`, so that all sync alike: a cluster's barrier does not wait for
// threads that have returned, and they return next.
template <int BLOCKS, int THREADS, int COUNT, int APART = 1, typename Sum = float>
struct ClusterSums {
    using Four = typename FourOf<Sum>::type;
    static constexpr int PART = COUNT / 4 / BLOCKS;  // float4s of a thread that one block totals
    static_assert(COUNT % (4 * BLOCKS) == 0, "the blocks of a cluster total equal parts");

    Four* slots;
    int thread;

    // The totals of this block's columns. Until all threads of the cluster have called it, the slots may be in use.
    __device__ __forceinline__ void add_up(const Sum (&sums)[COUNT], Sum (&totals)[COUNT / BLOCKS]) const {
        cluster_sync_relaxed();
        give(sums);
        cluster_sync();  // all sums have been given
        take(totals);
    }

    static __device__ __forceinline__ void attend() {
        cluster_sync_relaxed();  // to be sure
        cluster_sync();  // to be sure
    }

  private:
    // Writes this thread's sums to the blocks that total them.
    __device__ __forceinline__ void give(const Sum (&sums)[COUNT]) const {
        const int tile = cluster_rank() % APART, part = cluster_rank() / APART;
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            Four* const there = in_block(slots + part * PART * THREADS + thread, block * APART + tile);
#pragma unroll
            for (int i = 0; i < PART; ++i) {
                const Sum* const four = &sums[4 * (block * PART + i)];
                there[i * THREADS] = Four{four[0], four[1], four[2], four[3]};
            }
        }
    }

    // Adds the blocks' sums in the order of their k.
    __device__ __forceinline__ void take(Sum (&totals)[COUNT / BLOCKS]) const {
#pragma unroll
        for (int i = 0; i < PART; ++i) {
            Four total = slots[i * THREADS + thread];
#pragma unroll
            for (int block = 1; block < BLOCKS; ++block) {
                const Four more = slots[(block * PART + i) * THREADS + thread];
                total = Four{total.x + more.x, total.y + more.y, total.z + more.z, total.w + more.w};
            }
            totals[4 * i] = total.x;
            totals[4 * i + 1] = total.y;
            totals[4 * i + 2] = total.z;
            totals[4 * i + 3] = total.w;
        }
    }
};
