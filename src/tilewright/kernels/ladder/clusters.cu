// Rung 23, clusters: blocks of a cluster load a tile of B together, each a part for all of them.
//
// Over rung 22 blocks run in clusters of CLUSTER_M, on neighbouring multiprocessors. They compute tiles one below the other,
// so that all of them multiply the same tile of B. Each loads its own tile of A, and its share of the rows of B, which
// the copy engine writes into every block: at the same place, and with the same barrier counting the bytes. So a stage
// is empty only when the consumers of all blocks have read it, and they say so to all blocks. Below the last tile row a
// block loads zeros for A, and B for the others, and stores nothing. What should move: bytes asked of the L2 cache.
//
//                       block 0: tile row 2i                     block 1: tile row 2i + 1
//                       +---+-------------+--------------+       +---+-------------+--------------+
//   stage s             | A | B rows 0-31 | B rows 32-63 |       | A | B rows 0-31 | B rows 32-63 |
//                       +---+-------------+--------------+       +---+-------------+--------------+
//   producer 0 loads     yes      yes                                      yes
//   producer 1 loads                            yes               yes                   yes
//   consumers           wait for full s, multiply, arrive at empty s of block 0 and of block 1
//   producers           wait for empty s of the own block: 8 arrivals from each block
//                                                                   (here with clusters of 2)

#include "epilogue/ladder_wgmma.cuh"
#include "ptx/cluster.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/wgmma.cuh"

using Element = __nv_bfloat16;

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int ROWS = BM / CONSUMERS;  // of a consumer
constexpr int BK = LINE;
constexpr int BLOCK_BYTES = BK * LINE_BYTES;  // of 64 columns of B
constexpr int SHARE = BK / CLUSTER_M;           // rows of B that a block loads
constexpr unsigned short ALL = (1 << CLUSTER_M) - 1;

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
extern "C" __global__ void __cluster_dims__(CLUSTER_M, 1, 1) __launch_bounds__(THREADS, 1)
    clusters(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
             float beta, Element* C, int ldc) {
    DYNAMIC_SHARED(Shared, shared);

    const int rank = cluster_rank();
    const int tiles_n = (N + BN - 1) / BN;
    const int tiles = (M + CLUSTER_M * BM - 1) / (CLUSTER_M * BM) * tiles_n;  // of clusters
    const int steps = (K + BK - 1) / BK;
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1);
            barrier_init(&shared->empty[stage], 4 * CONSUMERS * CLUSTER_M);
        }
        fence_barrier_init();
    }
    cluster_sync();

    Turn turn;
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<40>();
        for (int tile = blockIdx.x / CLUSTER_M; tile < tiles && threadIdx.x % 128 == 0; tile += gridDim.x / CLUSTER_M) {
            const int tile_row = (tile / tiles_n * CLUSTER_M + rank) * BM, tile_col = tile % tiles_n * BN;
            for (int step = 0; step < steps; ++step, turn.next()) {
                Tiles& into = shared->stages[turn.stage];
                Barrier* const full = &shared->full[turn.stage];
                barrier_wait(&shared->empty[turn.stage], turn.parity ^ 1);  // returns at once in the first STAGES steps
                barrier_expect_bytes(full, sizeof(Tiles));
                load_tile(into.A, &A, step * BK, tile_row, 0, full);
#pragma unroll
                for (int block = 0; block < BN / 64; ++block) {
                    unsigned char* const share = into.B + block * BLOCK_BYTES + rank * SHARE * LINE_BYTES;
                    load_tile_to(ALL, share, &B, tile_col + block * 64, step * BK + rank * SHARE, 0, full);
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const auto release = [&](int stage) {
            if (threadIdx.x % 32 < CLUSTER_M) barrier_arrive_at(&shared->empty[stage], threadIdx.x % 32);
        };
        for (int tile = blockIdx.x / CLUSTER_M; tile < tiles; tile += gridDim.x / CLUSTER_M) {
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
                const int row = (tile / tiles_n * CLUSTER_M + rank) * BM + warpgroup * ROWS + 64 * i;
                if (row < M) store_sums(C, ldc, M, N, row, tile % tiles_n * BN, alpha, sums[i], beta);
            }
        }
    }
    __syncwarp();    // the instruction takes whole warps
    cluster_sync();  // until then others may reach into this block
}
