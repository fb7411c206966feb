// Tiles of float32 factors (float32_tile.cuh) by a block whose warpgroups have roles: one copies parts of A and of B, the others
// multiply them together. They need not sync: the copies are ahead by up to PARTS.
//
//   copying      | start part 0 | start 1, finish 0 | start 2, finish 1 | wait for 0, start 3, finish 2 | ...      PARTS = 3
//   multiplying                           | wait for 0, multiply, 0 is read | wait for 1, multiply, ...
//
// Registers and shared memory are divided as tensor cores want them: two warps a scheduler multiply, 8 x 8 elements of D a thread. Where a
// tile has 64 x 128 elements or fewer, each warpgroup multiplies half of the k.
#pragma once

#include "float32_parts/float32_tile.cuh"
#include "float32_parts/warp_sync.cuh"
#include "pipeline/stage_turn.cuh"
#include "ptx/thread_index.cuh"

// Tiles of TILE_ROWS x TILE_COLS by WARPGROUPS that multiply.
template <int TILE_ROWS, int TILE_COLS, int WARPGROUPS>
class Float32Warpgroups {
    static constexpr int DEPTH = 32;  // of k, of a part
    static constexpr int PARTS = 3;   // one is multiplied, one has arrived, one is in flight
    static constexpr int LINES = 2;   // parts whose lines along k are on their way or being transposed
    static constexpr int COPIERS = 128, THREADS = 128 * WARPGROUPS;
    // What is computed at a time. Where it is small, the warpgroups divide its k: so each thread has 8 x 8 sums.
    static constexpr int ROWS = TILE_ROWS % 128 == 0 ? 128 : 64, COLS = TILE_COLS <= 128 ? TILE_COLS : TILE_COLS / 2;
    static constexpr int SLICES = ROWS * COLS <= 64 * THREADS / 2 ? 2 : 1;
    using Tile = Float32Tile<ROWS, COLS, THREADS, DEPTH, SLICES>;
    using Part = typename Tile::Part;
    using CopiesOfA = PartCopies<ROWS, DEPTH, COPIERS, true>;
    using CopiesOfB = PartCopies<COLS, DEPTH, COPIERS, true>;

  public:
    struct Memory {
        Part parts[PARTS];
        __align__(16) typename CopiesOfA::Raw lines_of_a[LINES];
        __align__(16) typename CopiesOfB::Raw lines_of_b[LINES];
        typename Tile::SliceSums sums;
    };

    // By one thread, before the block syncs.
    __device__ __forceinline__ void init() {
        for (int part = 0; part < PARTS; ++part) {
            barrier_init(&full[part], COPIERS / 32);
            barrier_init(&empty[part], THREADS / 32);
        }
        barrier_init(&synced, THREADS / 32);
    }

    // By the warpgroup that copies: what the others multiply of tiles, from their column first_col on. tiles_from(sizes, i): these
    // tiles from number i on.
    template <typename TilesFrom, typename Operand>
    __device__ __forceinline__ void copy(const TilesFrom& tiles_from, int first_col, const Operand& a, const Operand& b, const Sizes& sizes,
                                         Memory& memory) {
        StageTurn<PARTS> turn;
        StageTurn<LINES> lines;
        bool in_flight = false;  // whether a part is
        const auto finish_one_before = [&] {
            commit_copies();
            wait_copies<1>();
            if (in_flight) {
                const int arrived = (turn.stage + PARTS - 1) % PARTS, as_lines = (lines.stage + LINES - 1) % LINES;
                Part& part = memory.parts[arrived];
                __syncwarp();
                CopiesOfA::finish(InPlace::way_of(a), part.A, memory.lines_of_a[as_lines], thread_index() % COPIERS);
                CopiesOfB::finish(InPlace::way_of(b), part.B, memory.lines_of_b[as_lines], thread_index() % COPIERS);
                __syncwarp();
                if (thread_index() % 32 == 0) barrier_arrive(&full[arrived]);
            }
            in_flight = true;
            turn.next();
            lines.next();
        };
        for_each(tiles_from, first_col, sizes, [&](int matrix, int row, int col) {
            CopiesOfA of_a(InPlace(a, matrix, row), thread_index() % COPIERS);
            CopiesOfB of_b(InPlace(b, matrix, col), thread_index() % COPIERS);
            for (int left = sizes.k; left > 0; left -= DEPTH) {
                barrier_wait(&empty[turn.stage], turn.parity ^ 1);  // returns at once for the first PARTS
                Part& part = memory.parts[turn.stage];
                of_a.start(part.A, memory.lines_of_a[lines.stage], left, thread_index() % COPIERS);
                of_b.start(part.B, memory.lines_of_b[lines.stage], left, thread_index() % COPIERS);
                finish_one_before();
            }
        });
        finish_one_before();
    }

    // By the warpgroups that multiply.
    template <typename TilesFrom, typename T>
    __device__ __forceinline__ void multiply(const TilesFrom& tiles_from, int first_col, const Sizes& sizes,
                                             const Output<T>& output, Memory& memory) {
        const unsigned thread = thread_index();
        StageTurn<PARTS> turn;
        unsigned syncs = 0;
        const auto begin = [&]() -> const Part& {
            barrier_wait(&full[turn.stage], turn.parity);
            return memory.parts[turn.stage];
        };
        const auto end = [&] {
            __syncwarp();
            if (thread % 32 == 0) barrier_arrive(&empty[turn.stage]);
            turn.next();
        };
        const auto sync = [&] { this->sync(syncs++); };
        for_each(tiles_from, first_col, sizes, [&](int matrix, int row, int col) {
            Tile::compute(sizes.k, Result<T>(output, sizes, matrix), row, col, thread, memory.sums, begin, end, sync);
        });
    }

    // By the warps that multiply, which have been synced there `phase` times before.
    __device__ __forceinline__ void sync(unsigned phase) { sync_warps(&synced, phase); }

  private:
    // Calls work(matrix, row, col) for what is computed at a time of each tile.
    template <typename TilesFrom, typename Work>
    static __device__ __forceinline__ void for_each(const TilesFrom& tiles_from, int first_col, const Sizes& sizes,
                                                    const Work& work) {
        for (int number = 0;; ++number) {
            auto tile = tiles_from(sizes, number);
            if (!tile.next()) return;
#pragma unroll 1
            for (int part = 0; part < TILE_ROWS / ROWS * (TILE_COLS / COLS); ++part) {
                const int row = tile.row + part % (TILE_ROWS / ROWS) * ROWS;
                const int col = tile.col + first_col + part / (TILE_ROWS / ROWS) * COLS;
                if (row < sizes.m && col < sizes.n) work(tile.matrix, row, col);
            }
        }
    }

    Barrier full[PARTS], empty[PARTS];  // parts that have arrived, and that have been read
    Barrier synced;                        // the warps that multiply
};
