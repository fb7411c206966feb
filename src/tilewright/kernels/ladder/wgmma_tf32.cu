// Rung 30, wgmma_tf32: float32 matrices on Hopper's tensor cores, which look at 19 bits of each element (TF32).
//
// Over rung 22 elements have 32 bits, and of those wgmma reads tiles in shared memory along k alone. A row-major A lies so, a
// row-major B lies across k. But wgmma's first factor may come from registers, which threads fill as they like. So the first
// factor is B, and the product is C^T = B^T A^T: an instruction's 64 rows are columns of C, its columns are BM rows of C. What
// should move: against rung 13 loads from shared memory, since the tensor cores read A themselves.
//
// Which column of C is which of the 64 rows is free, as long as loads and stores agree. A lane reads B at k = lane % 4, and
// 4 further. At these 4 k the swizzle exchanges pieces of 4 columns by 0 to 3, so pieces p and p + 4 are on all banks:
//
//     lane        0 1 2 3    4 5 6 7    8 .. 11    12 .. 15  | 16 .. 19   20 .. 23   24 .. 27   28 .. 31
//     column      0          1          2          3         | 16         17         18         19        warps 1, 3: 8 further
//     second row  4          5          6          7         | 20         21         22         23        warps 2, 3: 32 further
//
//   consumer 0     | wait for full, load B to registers | start 4 products, wait | release, wait for full, load B | ...
//   consumer 1     | ... wait                | wait for full, load B to registers | start 4 products, wait        | ...
//   tensor cores                             |             of 0                   |            of 1               | ...

#include "epilogue/ladder.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int BN = 64 * CONSUMERS;
constexpr int BK = LINE_BYTES / sizeof(float);  // also columns of B in a line
constexpr int BLOCK_BYTES = BK * LINE_BYTES;    // of 32 columns of B
constexpr int STEPS = BK / 8;                   // products of a stage

struct Tiles {
    unsigned char A[BM * LINE_BYTES];
    unsigned char B[BN / BK * BLOCK_BYTES];
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

// The column of a block's tile that is a thread's first row of wgmma. That of the second is 4 further.
__device__ __forceinline__ int own_column() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return warp / 2 * 32 + warp % 2 * 8 + lane / 16 * 16 + lane / 4 % 4;
}

// What a thread hands wgmma of a step along k: register v1 + 2 * v2 is of column v1 and of k = lane % 4 + 4 * v2.
__device__ __forceinline__ void load_b(unsigned (&to)[4], const unsigned char* B, int step) {
    const unsigned char* const block = B + own_column() / BK * BLOCK_BYTES;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int k = step * 8 + threadIdx.x % 4 + i / 2 * 4, column = own_column() % BK + i % 2 * 4;
        to[i] = *reinterpret_cast<const unsigned*>(block + swizzled(k, column / 4) + column % 4 * sizeof(float));
    }
}

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma_tf32(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
               float beta, float* C, int ldc) {
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
                load_tile(into.A, &A, step * BK, tile_row, 0, full);  // rounds to TF32, as the map says
#pragma unroll
                for (int block = 0; block < BN / BK; ++block) {
                    load_tile(into.B + block * BLOCK_BYTES, &B, tile_col + block * BK, step * BK, 0, full);
                }
            }
        }
        return;
    }

    setmaxnreg_inc<232>();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sums[BM / 2] = {};
        for (int step = 0; step < steps; ++step, turn.next()) {
            const Tiles& from = shared->stages[turn.stage];
            barrier_wait(&shared->full[turn.stage], turn.parity);
            unsigned b[STEPS][4];
#pragma unroll
            for (int k = 0; k < STEPS; ++k) load_b(b[k], from.B, k);
            fence_sums(sums, b);
#pragma unroll
            for (int k = 0; k < STEPS; ++k) {
                multiply_async<float>(sums, b[k], matrix_descriptor(from.A) + k * STEP_BYTES);
            }
            commit_products();
            wait_products<0>(sums, b);  // the other consumer's are made meanwhile
            __syncwarp();               // all lanes have read B, and one of them says so
            if (threadIdx.x % 32 == 0) barrier_arrive(&shared->empty[turn.stage]);
        }
        const int row = tile / tiles_n * BM + threadIdx.x % 4 * 2, col = tile % tiles_n * BN + own_column();
#pragma unroll
        for (int i = 0; i < BM / 2; ++i) {
            store(C, ldc, M, N, row + i / 4 * 8 + i % 2, col + i / 2 % 2 * 4, alpha, sums[i], beta);
        }
    }
}
