// gemm_sm90: products of 16-bit factors by Hopper's warpgroups, with operands in either order (sm_90a alone).
//
// Rung 22 with its types in headers. One warpgroup loads tiles by TMA, two multiply: the upper and the lower half of a
// tile's rows. A block computes tile after tile, of all matrices of a batch, in the order of tile_order.cuh; its stages go on
// from one tile to the next, so that the next is loaded while one is stored. Every order of A and B is read as it lies:
// tensor map and descriptor say which (swizzled_tile.cuh).
//
//   shared memory of a block:
//     | stage 0: A, B | stage 1: A, B | ... | full[STAGES] | empty[STAGES] |
//     A, row-major      BM lines of 64 k                  each line 128 bytes, its pieces exchanged
//        column-major   BM / 64 blocks: 64 k, a line of 64 rows each
//     B, column-major   BN lines of 64 k
//        row-major      BN / 64 blocks, rounded up: 64 k, a line of 64 columns each
//
//   producer (one thread)  | tile 0: load 0 .. 7          | tile 1: load 0 .. 3, wait for empty | load 4 ..   | ...
//   tensor cores               | multiply 0 .. 7              |               | multiply 0 .. 7               | ...
//   consumers                  | wait for full, start, arrive at empty ...    | store tile 0    | ...           | ...
//                                                              (here with 8 steps along k and 4 stages)
#include <dependent_launch.cuh>
#include <dynamic_shared.cuh>
#include <register_budget.cuh>
#include <wgmma.cuh>

#include "epilogue/warpgroup.cuh"
#include "swizzled_tile.cuh"
#include "tile_order.cuh"

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int ROWS = BM / CONSUMERS;  // of a consumer
constexpr int BK = LINE;
constexpr Major MAJOR_A = TRANSPOSED_A ? Major::across_k : Major::along_k;
constexpr Major MAJOR_B = TRANSPOSED_B ? Major::along_k : Major::across_k;

struct Tiles {
    SwizzledTile<MAJOR_A, BM> A;
    SwizzledTile<MAJOR_B, BN> B;
};

struct Shared {
    Tiles stages[STAGES];
    Barrier full[STAGES], empty[STAGES];
};

// The stage of a step, of this tile and all before, and the parity of its phase.
struct Turn {
    int stage = 0, parity = 0;

    __device__ __forceinline__ void next() {
        if (++stage < STAGES) return;
        stage = 0;
        parity ^= 1;
    }
};

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm_sm90(Sizes sizes, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, Output<RESULT> output) {
    DYNAMIC_SHARED(Shared, shared);

    const int depth = depth_of(sizes, output);
    const int steps = depth / BK + (depth % BK != 0);
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1);
            barrier_init(&shared->empty[stage], 4 * CONSUMERS);
        }
        fence_barrier_init();
    }
    __syncthreads();
    wait_for_grid_before();

    TileOrder<BM, BN, BAND> tile(sizes);
    Turn turn;
    if (warpgroup == CONSUMERS) {
        give_registers<40>();
        if (threadIdx.x % 128 != 0) return;
        while (tile.next()) {
            for (int step = 0; step < steps; ++step, turn.next()) {
                Tiles& into = shared->stages[turn.stage];
                Barrier* const full = &shared->full[turn.stage];
                barrier_wait(&shared->empty[turn.stage], turn.parity ^ 1);  // returns at once in the first STAGES steps
                barrier_expect_bytes(full, sizeof(Tiles));
                into.A.load(&A, tile.row, step * BK, tile.matrix * sizes.step_a, full);
                into.B.load(&B, tile.col, step * BK, tile.matrix * sizes.step_b, full);
            }
        }
        return;
    }

    take_registers<232>();
    const auto release = [&](int stage) {
        if (threadIdx.x % 32 == 0) barrier_arrive(&shared->empty[stage]);
    };
    while (tile.next()) {
        float sums[ROWS / 64][BN / 2] = {};
        int before = 0;  // the stage of the step before
        for (int step = 0; step < steps; ++step, turn.next()) {
            const Tiles& from = shared->stages[turn.stage];
            barrier_wait(&shared->full[turn.stage], turn.parity);
            fence_sums(sums);
#pragma unroll
            for (int k = 0; k < BK / 16; ++k) {
                const MatrixDescriptor b = from.B.at(0, k);
#pragma unroll
                for (int i = 0; i < ROWS / 64; ++i) {
                    const MatrixDescriptor a = from.A.at(warpgroup * ROWS + 64 * i, k);
                    multiply_async<MAJOR_A, MAJOR_B, FACTOR>(sums[i], a, b);
                }
            }
            commit_products();
            wait_products<1>(sums);  // those of the step before are made
            if (step > 0) release(before);
            before = turn.stage;
        }
        wait_products<0>(sums);
        if (steps > 0) release(before);
        const Result<RESULT> result(output, sizes, tile.matrix);
#pragma unroll
        for (int i = 0; i < ROWS / 64; ++i) {
            store_warpgroup(result, tile.row + warpgroup * ROWS + 64 * i, tile.col, sums[i]);
        }
    }
}
