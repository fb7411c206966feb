// The tiles, and the steps along k of each, that a block computes: whole tiles first, stream-K for the last wave.
//
// The tiles of all matrices of a batch are counted through, matrix by matrix and row by row. As many waves as are full
// have one block a tile. The tiles left over, fewer than workers, are laid end to end along k and cut into ranges, one a
// worker, whose lengths differ by a step at most. Where tiles divide workers, no range reaches into a second tile. The host
// divides (kernels/library/schedule.py):
//
//     block      0    1   ...  whole-1 | whole, whole+1, ...: the workers
//     tile       0    1   ...  whole-1 |    whole    |   whole+1   |  ...
//     steps k   |---||---| ... |-----| |--worker 0--|--worker 1--|--worker 2--| ...
//
// A worker computes the end of one tile, then the beginning of the next. The workers of one tile add their partial sums in
// one step, or as a tree where they are many: of neighbouring groups, those done first store their sums in the workspace, and
// the one done last adds them, in the groups' order, and goes on for all. So no block waits for another, many partial sums are
// added in few steps, and the result is the same whichever worker is last.
#pragma once

#include "operands.cuh"
#include "pipeline/partial_sums.cuh"
#include "ptx/bundle.cuh"

// What a block computes next. ROWS x COLS: a tile; DEPTH: k of a step. ONE_TILE: each block has one, so that there is no loop
// in the machine code; a kernel may say so where WORKERS = 0. (With the loop the compiler may find better registers.)
//
//     for (Schedule<BM, BN, BK> work(sizes); work.next();) { ... steps work.from to work.to - 1 of the tile ... }
template <int ROWS, int COLS, int DEPTH, bool ONE_TILE = false>
class Schedule {
  public:
    int from = -1, to;    // steps along k, to - from of them; with k = 0 a tile has one, and with alpha = 0 they add nothing
    int matrix;           // of the batch
    int row, col;         // the tile's first element

    // With WORKERS = 0 every tile has a block of its own.
    __device__ __forceinline__ explicit Schedule(const Sizes& sizes)
        : batch(sizes.batch),
          tiles_m((sizes.m - 1) / ROWS + 1),
          tiles_n((sizes.n - 1) / COLS + 1),
          steps((sizes.k - 1) / DEPTH + 1),
          whole(sizes.whole),
          workers(sizes.workers),
          share(sizes.share),
          longer(sizes.longer) {
        const int block = block_number();
        worker = block - whole;
        if (WORKERS == 0 || worker < 0) {
            tile = block;
            last_tile = block + 1;
            to = last_step = 0;
        } else if (worker < workers) {
            // Worker i begins at step i * (share + longer / workers), rounded down: the longer ranges lie evenly.
            const int before = worker * longer / workers;  // longer ranges
            const bool is_longer = (worker + 1) * longer - before * workers >= workers;
            const long long first = static_cast<long long>(worker) * share + before;
            const int of_left = static_cast<int>(first / steps);
            to = static_cast<int>(first - static_cast<long long>(of_left) * steps);
            last_step = to + share + is_longer;  // a worker has no more steps than a tile
            tile = whole + of_left;
            last_tile = tile + (last_step >= steps);
            if (last_step >= steps) last_step -= steps;
        } else {
            tile = last_tile = to = last_step = 0;  // a block too many
        }
    }

    // Goes on to the block's next tile; false where it has done its last.
    __device__ __forceinline__ bool next() {
        if (ONE_TILE && from == 0) return false;
        if (to == steps) {
            ++tile;
            to = 0;
        }
        from = to;
        to = tile == last_tile ? last_step : steps;
        matrix = batch == 1 ? 0 : tile / (tiles_m * tiles_n);
        const int in_matrix = tile - matrix * (tiles_m * tiles_n);
        row = in_matrix / tiles_n * ROWS;
        col = in_matrix % tiles_n * COLS;
        return ONE_TILE || from < to;
    }

    // Adds the partial sums of the tile that all THREADS threads of this block have to those of the tile's other workers.
    // Says whether the block now has the totals; if not, it is done with the tile.
    //
    // workspace.sums: for every worker, partial sums of two tiles: of one that another worker begins, and of the one that
    // it begins itself. A group stores its sums in those of the group's first worker.
    // workspace.counters: one for each worker, 0 before and after. The counter of the worker that begins the second of the
    // groups to be added counts the groups that have stored their sums. No other tile uses it: a tile's workers after its
    // first begin no other tile before it.
    template <int THREADS, int OWN_ROWS, int OWN_COLS>
    __device__ __forceinline__ bool reduce(float (&sums)[OWN_ROWS][OWN_COLS], const Workspace& workspace) const {
        if (WORKERS == 0 || to - from == steps) return true;
        SHARED_OF_BLOCK(int, stored);
        constexpr int AT_ONCE = OWN_ROWS * OWN_COLS < 32 ? 32 / (OWN_ROWS * OWN_COLS) : 1;  // groups whose sums are in flight
        const long long first_step = static_cast<long long>(tile - whole) * steps;
        const int first = worker_of(first_step);
        const int count = worker_of(first_step + steps - 1) - first + 1;  // of the tile's workers
        const int place = worker - first;
        const auto sums_of = [&](int group) {
            const long long number = 2LL * (first + group) + (group == 0);
            return workspace.sums + number * (THREADS * OWN_ROWS * OWN_COLS) + threadIdx.x;
        };
        const int most = count <= MOST ? MOST : FAN;  // groups of a step
        for (int size = 1; size < count; size *= most) {
            const int own = place / size * size;  // where this group begins, and the first of those to be added:
            const int begin = place / (most * size) * (most * size);
            const int groups = min((count - begin + size - 1) / size, most);
            if (groups == 1) continue;
            unsigned* const counter = &workspace.counters[first + begin + size];
            // Two groups may be added in either order: the one that finds the other's sums need not store its own.
            if (threadIdx.x == 0) stored = groups == 2 ? atomicAdd(counter, 0) : 0;
            sync_block<THREADS>();
            if (stored == 0) {
                store_sums<THREADS>(sums, sums_of(own));
                __threadfence();
                sync_block<THREADS>();
                if (threadIdx.x == 0) stored = atomicAdd(counter, 1);
                sync_block<THREADS>();
                if (stored < groups - 1) return false;
            }
            __threadfence();
            if (groups == 2) {
                add_sums<THREADS>(sums, sums_of(own == begin ? begin + size : begin));
            } else {
                load_sums<THREADS>(sums, sums_of(begin));
#pragma unroll(AT_ONCE)
                for (int group = 1; group < groups; ++group) add_sums<THREADS>(sums, sums_of(begin + group * size));
            }
            sync_block<THREADS>();  // all have read `stored`
            if (threadIdx.x == 0) *counter = 0;
        }
        return true;
    }

  private:
    static constexpr int MOST = 32, FAN = 8;  // a step takes about 2 us on an H200, each partial sum 0.1 to 0.2 us

    // The worker that does a step, of those of the tiles left over.
    __device__ __forceinline__ int worker_of(long long step) const {
        return static_cast<int>(((step + 1) * workers - 1) / (static_cast<long long>(workers) * share + longer));
    }

    int batch;
    int tiles_m, tiles_n, steps;  // tiles of a matrix along m and n, steps of a tile
    int whole;                    // tiles with a block of their own
    int workers;                  // blocks that share the tiles left over
    int share, longer;            // steps of a worker, and how many have one more
    int worker;                   // that this block is
    int tile, last_tile, last_step;
};
