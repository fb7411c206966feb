// Rung 15, tma_packed: nothing in the inner loop but shared loads and multiply-adds, and those in an order that the
// register file can feed.
//
// A comes transposed (k x m; the kernel `pack` runs before this one), so both tiles lie in shared memory as they are
// read, and the copy engine brings them there, STAGES deep: no thread holds an element on its way, computes an address or
// checks an edge. The registers that this frees hold the fragments of two k at a time, so that loads run ahead of use.
//
// What limits it then are the register banks: an FFMA reads three registers, of which the two banks deliver two a cycle.
// So consecutive FFMAs share a factor, which the operand cache holds: products are taken by fours, in serpentine.
//
// The last wave of tiles seldom fills the GPU: with WAVE > 0, so many blocks share what is left of them (stream-K).
//
// A long sum errs more than short ones that are added: with CHUNK > 0, a block adds its sums to C after so many k, in
// whole tiles, and begins new ones.

#include <dependent_launch.cuh>
#include <dynamic_shared.cuh>
#include <mbarrier.cuh>
#include <tensor_map.cuh>

#include "epilogue.cuh"
#include "products.cuh"
#include "stream_k.cuh"
#include "tile_order.cuh"

constexpr int LANES_M = 4;  // of a warp's lanes, 4 stand along m and 8 along n
constexpr int LANES_N = 8;
constexpr int WARPS_N = BN / (LANES_N * TN);
constexpr int WARPS = BM / (LANES_M * TM) * WARPS_N;
constexpr int THREADS = 32 * WARPS;
constexpr int STAGE = BK * (BM + BN);  // floats of a tile of A and one of B
constexpr int LOOP = BK > 32 ? BK / 2 : BK;  // k in the code of the inner loop, which has to stay in the instruction cache

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    tma_packed(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B,
               float beta, float* C, int ldc, float* workspace, unsigned* tickets) {
    DYNAMIC_SHARED(float, stages);
    __shared__ Barrier full[STAGES];

    const int tiles_m = (M + BM - 1) / BM;
    const int tiles_n = (N + BN - 1) / BN;
    const int tiles = tiles_m * tiles_n;
    const int steps = max((K + BK - 1) / BK, 1);  // of a tile; with k = 0 one that adds nothing
    const Shared shared(tiles, steps);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    // A thread's rows and columns come in fours, as far apart as the warp's lanes reach together.
    const int thread_row = warp / WARPS_N * (LANES_M * TM) + lane / LANES_N * 4;
    const int thread_col = warp % WARPS_N * (LANES_N * TN) + lane % LANES_N * 4;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) barrier_init(&full[stage], 1);
        fence_barrier_init();
        fence_async_shared();
    }
    int stage = 0;
    int parity = 0;
    const bool shares = WAVE && blockIdx.x >= shared.first_tile;
    const int sharer = blockIdx.x - shared.first_tile;
    if (shares && sharer >= shared.sharers) return;
    int step = shares ? shared.first_step(sharer) : 0;
    const int end = shares ? shared.first_step(sharer + 1) : steps;
    while (step < end) {
        const int tile = shares ? shared.first_tile + step / steps : blockIdx.x;
        const int first = step / steps * steps;  // of the tile
        const int from = step - first;
        const int to = min(from + min(end - step, CHUNK && !shares ? (CHUNK + BK - 1) / BK : steps), steps);
        const float beta_now = from > 0 && !shares ? 1.0f : beta;  // C holds the chunks before this one
        const TilePlace place = place_of(tile, tiles_m, tiles_n);
        const int tile_row = place.row * BM;
        const int tile_col = place.col * BN;
        step += to - from;

        const auto bring = [&](int k_step, int into) {
            float* As = stages + into * STAGE;
            barrier_expect_bytes(&full[into], STAGE * sizeof(float));
            load_tile(As, &A, tile_row, k_step * BK, &full[into]);
            load_tile(As + BK * BM, &B, tile_col, k_step * BK, &full[into]);
        };
        __syncthreads();  // the barriers are made, and the stages of the tile before have been read
        // `pack` may still run. With k > 0 the others touch no memory before the first tile has come.
        if (threadIdx.x == 0 || K == 0) wait_for_grid_before();
        if (threadIdx.x == 0 && K > 0) {
            for (int ahead = 0; ahead < STAGES - 1 && from + ahead < to; ++ahead) {
                bring(from + ahead, (stage + ahead) % STAGES);
            }
        }
        float sums[TM][TN] = {};
        float a[2][TM] = {}, b[2][TN] = {};  // fragments of an even k and of an odd one
        for (int k_step = from; k_step < to && K > 0; ++k_step) {
            barrier_wait(&full[stage], parity);
            __syncthreads();  // every thread is done with the stage before this one, which is filled anew
            const int ahead = k_step + STAGES - 1;
            if (threadIdx.x == 0 && ahead < to) bring(ahead, stage == 0 ? STAGES - 1 : stage - 1);

            const float* As = stages + stage * STAGE + thread_row;
            const float* Bs = stages + stage * STAGE + BK * BM + thread_col;
            const int depth = LOOP < BK ? min(K - k_step * BK, BK) : BK;  // the last tiles end in zeros
            for (int done = 0; done < depth; done += LOOP) {
#pragma unroll
                for (int k = 0; k < LOOP; ++k) {
#pragma unroll
                    for (int i = 0; i < TM; i += 4) load_four(&a[k % 2][i], As + k * BM + i * LANES_M);
#pragma unroll
                    for (int j = 0; j < TN; j += 4) load_four(&b[k % 2][j], Bs + k * BN + j * LANES_N);
                    add_products(sums, a[(k + 1) % 2], b[(k + 1) % 2]);  // of the k before, which another stage may hold
                }
                As += LOOP * BM;
                Bs += LOOP * BN;
            }
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
        add_products(sums, a[1], b[1]);

        if (shares && to - from < steps &&
            !add_parts<2, THREADS>(sums, shared, sharer, first, first + steps - 1, workspace, tickets)) {
            continue;
        }
        if (!ALIGNED) __syncthreads();  // the last stage has been read: the tile takes the stages' place
        const auto row_of = [=](int i) { return thread_row + i / 4 * 4 * LANES_M + i % 4; };
        store_results<!ALIGNED, BN, 4 * LANES_N>(C, ldc, M, N, tile_row, tile_col, row_of, thread_col,
                                                 alpha, sums, beta_now, stages);
        if (!ALIGNED) {
            __syncthreads();
            store_tile<BM, BN, WARPS>(C, ldc, M, N, tile_row, tile_col, stages, beta_now);
            fence_async_shared();  // the copy engine may write where the tile lay
        }
    }
}
