// Rung 26, tma_store: results go through shared memory, and the copy engine stores them.
//
// Over rung 25 no thread stores to global memory. A warp stores its own 16 rows of each 64, 64 columns at a time: lanes write
// them to shared memory that no other warp uses, and one lane asks the copy engine to store them, which computes the addresses
// and leaves out what lies outside of C. The warp goes on, and waits only before it writes there again. What should move:
// stores of threads to global memory, of which there are none, and the time that a consumer takes for a tile's end.
//
//   lanes        wait | write pairs, fence_async_shared | __syncwarp |      | wait | write ...
//   lane 0       wait_tiles_read                                     | store |      wait_tiles_read
//   copy engine                                                              | read lines, write C ...
//
// All else is rung 25's: producer and consumers pass stages by full[] and empty[], the consumers their turns by read[].
//
// In shared memory a row is a line of 128 bytes, its pieces exchanged as the tensor map says. So what a warp writes at a time,
// 8 rows x 4 pairs, is in 32 different banks. Where rows of C are not aligned, no tensor map describes it; and where
// they end within 16 bytes, the copy engine would store all of these, past the end of the row: threads store then.

#include "epilogue/ladder_wgmma.cuh"
#include "pipeline/stage_turn.cuh"
#include "pipeline/tile_order.cuh"
#include "ptx/cluster.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/wgmma.cuh"

using Element = __nv_bfloat16;

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
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
    unsigned char results[CONSUMERS][BM * LINE_BYTES];  // 64 columns of the consumer's tile
    Barrier full[STAGES], empty[STAGES];
    Barrier read[CONSUMERS];  // all stages of the consumer's tile
};

// Puts 16 x 64 results of a warp into `lines`, with element (row, col) of C at their corner.
__device__ __forceinline__ void stage_results(unsigned char* lines, const Element* C, int ldc, int M, int N, int row, int col,
                                              float alpha, const float* sums, float beta) {
    const int lane = threadIdx.x % 32;
    col += lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int line = lane / 4 + 8 * half;
        const Element* const c = at(C, ldc, row + line, col);
        const int left = row + line < M ? N - col : 0;  // elements of the row, from c on
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float pair[] = {alpha * sums[4 * i + 2 * half], alpha * sums[4 * i + 2 * half + 1]};
            if (beta != 0.0f && (!EDGES || 8 * i < left)) pair[0] += beta * to_float(c[8 * i]);
            if (beta != 0.0f && (!EDGES || 8 * i + 1 < left)) pair[1] += beta * to_float(c[8 * i + 1]);
            store_run<2>(reinterpret_cast<Element*>(lines + swizzled(line, i) + lane % 4 * 4), pair);
        }
    }
}

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __cluster_dims__(CLUSTER_M, 1, 1) __launch_bounds__(THREADS, 1)
    tma_store(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
              float beta, Element* C, int ldc, const __grid_constant__ TensorMap D) {
    DYNAMIC_SHARED(Shared, shared);

    const int rank = cluster_rank();
    const int steps = (K + BK - 1) / BK;
    const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);  // one number for a warp, as the compiler sees then

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared->full[stage], 1);
            barrier_init(&shared->empty[stage], 4 * CLUSTER_M);
        }
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) barrier_init(&shared->read[consumer], 4);
        fence_barrier_init();
    }
    cluster_sync();

    TileOrder<BM, BN, GROUP_M, CLUSTER_M> tile({M, N, K, 1}, blockIdx.x / CLUSTER_M, gridDim.x / CLUSTER_M);
    StageTurn<STAGES> turn;
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<40>();
        while (threadIdx.x % 128 == 0 && tile.next()) {
            for (int step = 0; step < steps; ++step, turn.next()) {
                Tiles& into = shared->stages[turn.stage];
                Barrier* const full = &shared->full[turn.stage];
                barrier_wait(&shared->empty[turn.stage], turn.parity ^ 1);  // returns at once in the first STAGES steps
                barrier_expect_bytes(full, sizeof(Tiles));
                load_tile(into.A, &A, step * BK, tile.row, 0, full);
#pragma unroll
                for (int block = 0; block < BN / 64; ++block) {
                    unsigned char* const share = into.B + block * BLOCK_BYTES + rank * SHARE * LINE_BYTES;
                    load_tile_to(ALL, share, &B, tile.col + block * 64, step * BK + rank * SHARE, 0, full);
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const int lane = threadIdx.x % 32, first = threadIdx.x % 128 / 32 * 16;  // of the warp's rows, of each 64
        unsigned char* const results = shared->results[warpgroup] + first * LINE_BYTES;
        const auto release = [&](int stage) {
            if (lane < CLUSTER_M) barrier_arrive_at(&shared->empty[stage], lane);
        };
        for (int number = 0; tile.next(); ++number) {
            if (number % CONSUMERS != warpgroup) {
                turn.skip(steps);
                continue;
            }
            // A phase is known by its parity alone: the tile before has to be read first.
            if (number > 0) barrier_wait(&shared->read[1 - warpgroup], (number - 1) / CONSUMERS & 1);
            float sums[BM / 64][BN / 2] = {};
            int before = 0;  // the stage of the step before
            for (int step = 0; step < steps; ++step, turn.next()) {
                const Tiles& from = shared->stages[turn.stage];
                barrier_wait(&shared->full[turn.stage], turn.parity);
                fence_sums(sums);
#pragma unroll
                for (int k = 0; k < BK; k += 16) {
                    const MatrixDescriptor b = matrix_descriptor(from.B, BLOCK_BYTES) + k * LINE_BYTES;
#pragma unroll
                    for (int i = 0; i < BM / 64; ++i) {
                        const MatrixDescriptor a = matrix_descriptor(from.A) + (i * 64 * LINE_BYTES + k * 2);
                        multiply_async<Major::along_k, Major::across_k, Element>(sums[i], a, b);
                    }
                }
                commit_products();
                wait_products<1>(sums);  // those of the step before are made
                if (step > 0) release(before);
                before = turn.stage;
            }
            if (lane == 0) barrier_arrive(&shared->read[warpgroup]);
            wait_products<0>(sums);
            if (steps > 0) release(before);

            if (tile.row >= M) continue;  // a cluster's last block may have no rows
            const int row = tile.row + first;
            if (ALIGNED) {
#pragma unroll
                for (int block = 0; block < BN / 64; ++block) {
                    const int col = tile.col + 64 * block;
                    if (lane == 0) wait_tiles_read<0>();
                    __syncwarp();
#pragma unroll
                    for (int i = 0; i < BM / 64; ++i) {
                        const float* const of_block = &sums[i][32 * block];
                        stage_results(results + i * 64 * LINE_BYTES, C, ldc, M, N, row + 64 * i, col, alpha, of_block, beta);
                    }
                    fence_async_shared();
                    __syncwarp();
                    for (int i = 0; i < BM / 64 && lane == 0; ++i) {
                        store_tile_async(&D, col, row + 64 * i, 0, results + i * 64 * LINE_BYTES);
                    }
                    if (lane == 0) commit_tiles();
                }
            } else {
#pragma unroll
                for (int i = 0; i < BM / 64; ++i) {
                    store_sums(C, ldc, M, N, tile.row + 64 * i, tile.col, alpha, sums[i], beta);
                }
            }
        }
        if (lane == 0) wait_tiles_read<0>();
    }
    __syncwarp();    // the instruction takes whole warps
    cluster_sync();  // until then others may reach into this block
}
