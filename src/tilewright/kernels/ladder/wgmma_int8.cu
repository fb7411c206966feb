// Rung 31, wgmma_int8: integers of 8 bits on Hopper's tensor cores, which add up their products in int32, exactly.
//
// Over rung 25 an element has one byte: a line of 128 bytes is 128 k, and an instruction multiplies 32 of them, in the clocks
// in which it would multiply 16 of bfloat16. Of bytes wgmma reads tiles in shared memory along k alone, so B is column-major:
// its tile is lines of columns, as A's is lines of rows. Sums are int32 and wrap; whatever their order, they are the same. A
// result has four bytes, for half the time of products: consumers take turns, so that one stores while the other multiplies.
// What should move: operations a byte. An instruction reads 32 * (64 + BN) bytes of shared memory in BN / 2 clocks: of the
// 128 that shared memory gives in one, 85 with BN = 192. What the copy engine writes comes to that.
//
//   line of A, row i        | k 0 .. 31     | k 32 .. 63    | k 64 .. 95    | k 96 .. 127   |   16-byte pieces exchanged by the swizzle
//   line of B, column j     | k 0 .. 31     | k 32 .. 63    | k 64 .. 95    | k 96 .. 127   |
//   instructions of a step      first           second          third           fourth         of each 64 rows
//
//   As in rung 25, the producer waits for empty[stage], the consumer whose tile it is for full[stage], and for read[other].

#include "pipeline/stage_turn.cuh"
#include "pipeline/tile_order.cuh"
#include "ptx/cluster.cuh"
#include "ptx/dynamic_shared.cuh"
#include "ptx/register_budget.cuh"
#include "ptx/wgmma.cuh"
#include "tile_io.cuh"

constexpr int CONSUMERS = 2;
constexpr int THREADS = 128 * (1 + CONSUMERS);
constexpr int BK = LINE_BYTES;         // elements of a line
constexpr int SHARE = BN / CLUSTER_M;  // columns of B that a block loads
constexpr unsigned short ALL = (1 << CLUSTER_M) - 1;

struct Tiles {
    unsigned char A[BM * LINE_BYTES];
    unsigned char B[BN * LINE_BYTES];
};

struct Shared {
    Tiles stages[STAGES];
    Barrier full[STAGES], empty[STAGES];
    Barrier read[CONSUMERS];  // all stages of the consumer's tile
};

// Elements (row, col) and (row, col + 1) at c; col is even. Of the row `left` elements are left, from the first of the two.
// Unsigned numbers wrap as results do.
__device__ __forceinline__ void store_pair(int* c, int left, unsigned alpha, const int* sums, unsigned beta) {
    unsigned pair[] = {alpha * sums[0], alpha * sums[1]};
    if (ALIGNED && (!EDGES || left >= 2)) {
        if (beta != 0) {
            const int2 old = *reinterpret_cast<const int2*>(c);
            pair[0] += beta * old.x;
            pair[1] += beta * old.y;
        }
        *reinterpret_cast<int2*>(c) = make_int2(pair[0], pair[1]);
    } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (!EDGES || i < left) c[i] = beta == 0 ? pair[i] : pair[i] + beta * c[i];
        }
    }
}

// Without the 1, ptxas ignores the register budgets where a thread has few sums.
extern "C" __global__ void __cluster_dims__(CLUSTER_M, 1, 1) __launch_bounds__(THREADS, 1)
    wgmma_int8(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
               float beta, int* C, int ldc) {
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
                unsigned char* const share = into.B + rank * SHARE * LINE_BYTES;
                load_tile_to(ALL, share, &B, step * BK, tile.col + rank * SHARE, 0, full);
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const int lane = threadIdx.x % 32;
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
            int sums[BM / 64][BN / 2] = {};
            int before = 0;  // the stage of the step before
            for (int step = 0; step < steps; ++step, turn.next()) {
                const Tiles& from = shared->stages[turn.stage];
                barrier_wait(&shared->full[turn.stage], turn.parity);
                fence_sums(sums);
#pragma unroll
                for (int k = 0; k < LINE_BYTES; k += STEP_BYTES) {
                    const MatrixDescriptor b = matrix_descriptor(from.B) + k;
#pragma unroll
                    for (int i = 0; i < BM / 64; ++i) {
                        const MatrixDescriptor a = matrix_descriptor(from.A) + (i * 64 * LINE_BYTES + k);
                        multiply_async<Major::along_k, Major::along_k, int8>(sums[i], a, b);
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
            const int row = tile.row + threadIdx.x % 128 / 32 * 16 + lane / 4, col = tile.col + lane % 4 * 2;
#pragma unroll
            for (int i = 0; i < BM / 32; ++i) {  // rows of this thread: two in each 64
                if (EDGES && row + i / 2 * 64 + i % 2 * 8 >= M) continue;
                int* const c = at(C, ldc, row + i / 2 * 64 + i % 2 * 8, col);
#pragma unroll
                for (int j = 0; j < BN / 8; ++j) {
                    const int* const pair = &sums[i / 2][4 * j + i % 2 * 2];
                    store_pair(c + 8 * j, N - col - 8 * j, static_cast<int>(alpha), pair, static_cast<int>(beta));
                }
            }
        }
    }
    __syncwarp();    // the instruction takes whole warps
    cluster_sync();  // until then others may reach into this block
}
