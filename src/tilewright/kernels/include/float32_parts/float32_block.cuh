// A tile of float32 factors (float32_tile.cuh) by threads of a block that all copy and multiply:
//
//   copies        | 0 | 1 |   2   |   3   |   4   | ...     each a part of A and of B
//   multiply          |   |   0   |   1   |   2   | ...
#pragma once

#include "float32_parts/float32_tile.cuh"

template <int ROWS, int COLS, int THREADS>
class Float32Block {
    static constexpr int DEPTH = 16, PARTS = 3;  // of k; in shared memory or in flight
    using Tile = Float32Tile<ROWS, COLS, THREADS, DEPTH>;
    using CopiesOfA = PartCopies<ROWS, DEPTH, THREADS, false>;
    using CopiesOfB = PartCopies<COLS, DEPTH, THREADS, false>;

  public:
    struct Shared {
        typename Tile::Part parts[PARTS];
        typename CopiesOfA::Raw no_lines_of_a;
        typename CopiesOfB::Raw no_lines_of_b;
        typename Tile::SliceSums sums;
    };

    // Computes the tile at (row, col). thread: of THREADS. sync(): syncs these, which were synced before.
    template <typename T, typename Sync>
    static __device__ __forceinline__ void compute(const InPlace& a, const InPlace& b, int depth, const Result<T>& result, int row,
                                                   int col, int thread, Shared& shared, const Sync& sync) {
        CopiesOfA of_a(a, thread);
        CopiesOfB of_b(b, thread);
        int to_load = 0, to_read = 0;
        const auto load = [&] {
            if (to_load * DEPTH < depth) {
                typename Tile::Part& to = shared.parts[to_load % PARTS];
                of_a.start(to.A, shared.no_lines_of_a, depth - to_load * DEPTH, thread);
                of_b.start(to.B, shared.no_lines_of_b, depth - to_load * DEPTH, thread);
            }
            ++to_load;
            commit_copies();
        };
        for (int part = 0; part < PARTS - 1; ++part) load();
        const auto begin = [&]() -> const typename Tile::Part& {
            wait_copies<PARTS - 2>();
            sync();  // this step's part has arrived for all, and all have read that of the step before
            load();
            return shared.parts[to_read++ % PARTS];
        };
        Tile::compute(depth, result, row, col, thread, shared.sums, begin, [] {}, [] {});
    }
};
