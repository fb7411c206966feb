// Rung 22, persistent: as many blocks as there are multiprocessors, each of which computes tile after tile.
//
// Over rung 21 the producer does not stop at the end of a tile: while the consumers store one, the next one's first stages
// are loaded. Barriers are made once, and the phases of stages go on from tile to tile. What should move: the time that
// the tensor cores wait between tiles.
//
//   producer       | tile 0: load 0 .. 7            | tile 1: load 0 .. 3, wait for empty  | load 4 ..      | ...
//   tensor cores       | multiply 0 .. 7                |                | multiply 0 .. 7                  | ...
//   consumers          | wait, start, release ...       | store tile 0   | wait, start, release ...         | ...
//                                                         (here with 8 steps along k and 4 stages)
//   wait: for full[stage], which the bytes of the producer's loads complete. release: arrive at empty[stage], 8 warps

#include "epilogue/ladder_wgmma.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

using Element = __nv_bfloat16;

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int ROWS = BM / CONSUMERS;  // of a consumer
constexpr int BK = LINE;
constexpr int BLOCK_BYTES = BK * LINE_BYTES;  // of 64 columns of B

struct Tiles {
    unsigned char A[BM * LINE_BYTES];
    unsigned char B[BN / 64 * BLOCK_BYTES];
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
    persistent(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
               float beta, Element* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);

    const int tiles_n = (N + BN - 1) / BN;
    const int tiles = (M + BM - 1) / BM * tiles_n;
    const int steps = (K + BK - 1) / BK;
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1);
            barrier_init(&shared->empty[stage], 4 * CONSUMERS);
        }
        fence_barrier_init();
    }
    __syncthreads();

    Turn turn;
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<40>();
        if (threadIdx.x % 128 != 0) return;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int tile_row = tile / tiles_n * BM, tile_col = tile % tiles_n * BN;
            for (int step = 0; step < steps; ++step, turn.next()) {
                Tiles& into = shared->stages[turn.stage];
                Barrier* const full = &shared->full[turn.stage];
                barrier_wait(&shared->empty[turn.stage], turn.parity ^ 1);  // returns at once in the first STAGES steps
                barrier_expect_bytes(full, sizeof(Tiles));
                load_tile(into.A, &A, step * BK, tile_row, 0, full);
#pragma unroll
                for (int block = 0; block < BN / 64; ++block) {
                    load_tile(into.B + block * BLOCK_BYTES, &B, tile_col + block * 64, step * BK, 0, full);
                }
            }
        }
        return;
    }

    setmaxnreg_inc<232>();
    const auto release = [&](int stage) {
        if (threadIdx.x % 32 == 0) barrier_arrive(&shared->empty[stage]);
    };
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sums[ROWS / 64][BN / 2] = {};
        int before = 0;  // the stage of the step before
        for (int step = 0; step < steps; ++step, turn.next()) {
            const Tiles& from = shared->stages[turn.stage];
            barrier_wait(&shared->full[turn.stage], turn.parity);
            fence_sums(sums);
#pragma unroll
            for (int k = 0; k < BK; k += 16) {
                const MatrixDescriptor b = matrix_descriptor(from.B, BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
                for (int i = 0; i < ROWS / 64; ++i) {
                    const int row = warpgroup * ROWS + i * 64;
                    const MatrixDescriptor a = matrix_descriptor(from.A) + (row * LINE_BYTES + k * 2);
                    multiply_async<Major::along_k, Major::across_k, Element>(sums[i], a, b);
                }
            }
            commit_products();
            wait_products<1>(sums);  // those of the step before are made
            if (step > 0) release(before);
            before = turn.stage;
        }
        wait_products<0>(sums);
        if (steps > 0) release(before);
#pragma unroll
        for (int i = 0; i < ROWS / 64; ++i) {
            const int row = tile / tiles_n * BM + warpgroup * ROWS + 64 * i;
            store_sums(C, ldc, M, N, row, tile % tiles_n * BN, alpha, sums[i], beta);
        }
    }
}
