// Rung 18, tma_transposed: the copy engine brings A as it lies in memory, and the block transposes it on the way.
//
// Rung 15 wants A transposed, by a kernel before: it costs a pass over A, and as much memory again. Here tiles of A come
// k-contiguous. While a tile is multiplied, the next one comes to `raw`; then the warps take it from there, four rows at a
// time, to the one of two places for tiles that is not in use: the loads of matrices hand every lane four rows of one k.
//
// For deep products of small results, SLICES parts of a block's threads divide the k of every tile, as in rung 16, and
// blocks share tiles (stream-K).

#include <bundle.cuh>
#include <dependent_launch.cuh>
#include <mbarrier.cuh>
#include <tensor_map.cuh>

#include "epilogue.cuh"
#include "keep.cuh"
#include "products.cuh"
#include "slices.cuh"
#include "stream_k.cuh"
#include "transposition.cuh"

constexpr int LANES_M = 4;  // of a warp's lanes, 4 stand along m and 8 along n
constexpr int LANES_N = 8;
constexpr int WARPS_N = BN / (LANES_N * TN);
constexpr int PART = 32 * (BM / (LANES_M * TM)) * WARPS_N;  // threads of a slice
constexpr int THREADS = SLICES * PART;
constexpr int WARPS = THREADS / 32;
constexpr int ROWS = TM / SLICES;  // of a thread, whose results it stores
constexpr int SLICE = BK / SLICES;  // k of a slice
constexpr int TILES = BK * ((1 + PLACES) * BM + 2 * BN);  // floats of tiles in shared memory, ...
constexpr int SUMS = SLICES * BM * BN;  // ... of all slices' sums, or of a tile of C, in their place, ...
constexpr int SHARED = TILES > SUMS ? TILES : SUMS;  // ... and what a block has of it

using Turn = Transposition<BM, BK, WARPS>;

extern "C" __global__ void __launch_bounds__(BUNDLE * THREADS, BLOCKS / BUNDLE)
    tma_transposed(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A,
                 const __grid_constant__ TensorMap B, float beta, float* C, int ldc, float* workspace,
                 unsigned* tickets) {
    DYNAMIC_SHARED_OF_BLOCK(float, raw, SHARED);  // a tile of A as it came, BM x BK
    float* const As = raw + BM * BK;              // PLACES, each BK x BM
    float* const Bs = As + PLACES * BM * BK;      // two, each BK x BN
    SHARED_OF_BLOCK(Barrier, full);

    const int tiles_n = (N + BN - 1) / BN;
    const int tiles = (M + BM - 1) / BM * tiles_n;
    const int steps = max((K + BK - 1) / BK, 1);  // of a tile; with k = 0 one that adds nothing
    const Shared shared(tiles, steps);
    const int slice = threadIdx.x / PART;
    const int warp = threadIdx.x % PART / 32;
    const int lane = threadIdx.x % 32;
    // A thread's rows and columns come in fours, as far apart as the warp's lanes reach together.
    const int thread_row = warp / WARPS_N * (LANES_M * TM) + lane / LANES_N * 4;
    const int thread_col = warp % WARPS_N * (LANES_N * TN) + lane % LANES_N * 4;

    Turn transposition;
    int a_begin = slice * SLICE * BM + thread_row;
    int b_begin = slice * SLICE * BN + thread_col;

    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        fence_barrier_init();
        fence_async_shared();
    }
    int stage = 0;  // of As and Bs
    int parity = 0;
    const bool shares = WAVE && block_number() >= shared.first_tile;
    const int sharer = block_number() - shared.first_tile;
    if (shares && sharer >= shared.sharers) return;
    int step = shares ? shared.first_step(sharer) : 0;
    const int end = shares ? shared.first_step(sharer + 1) : steps;
    while (step < end) {
        const int tile = shares ? shared.first_tile + step / steps : block_number();
        const int first = step / steps * steps;  // of the tile
        const int from = step - first;
        const int to = min(from + end - step, steps);
        const int tile_row = tile / tiles_n * BM;
        const int tile_col = tile % tiles_n * BN;
        step += to - from;

        const auto bring = [&](int k_step) {  // to `raw`, and to the stage of B that is not in use
            barrier_expect_bytes(&full, BK * (BM + BN) * sizeof(float));
            load_tile(raw, &A, k_step * BK, tile_row, &full);
            load_tile(Bs + (stage ^ 1) * BK * BN, &B, tile_col, k_step * BK, &full);
        };
        const auto turn = [&] {  // what has come to the place that is not in use, and that to be used
            barrier_wait(&full, parity);
            parity ^= 1;
            stage ^= 1;
            transposition.run<PLACES == 1>(raw, As + (PLACES > 1 ? stage * BK * BM : 0));
        };
        sync_block<THREADS>();  // the barrier is made, and the tile before has been read
        // With k > 0 the others touch no memory before the first tile has come.
        if (threadIdx.x == 0 || K == 0) wait_for_grid_before();
        if (K > 0) {
            if (threadIdx.x == 0) bring(from);
            turn();
        }
        float sums[TM][TN] = {};
        float a[2][TM] = {}, b[2][TN] = {};  // fragments of an even k and of an odd one
        keep(transposition.taken);
        keep(transposition.put);
        keep(a_begin);
        keep(b_begin);
        for (int left = K > 0 ? to - from : 0; left > 0; --left) {
            sync_block<THREADS>();  // the tile lies there, and every thread is done with the one before
            if (threadIdx.x == 0 && left > 1) bring(to - left + 1);

            // Fours of rows stand in another order at each of four k (`Turn::place`): this thread's and those four places on,
            // which it has too, are exchanged at an odd k, and pairs of lanes take each other's at the last two.
            const float* Ak = As + (PLACES > 1 ? stage * BK * BM : 0) + a_begin;
            const float* Ak_of_pair = As + (PLACES > 1 ? stage * BK * BM : 0) + (a_begin ^ 8);
            const float* Bk = Bs + stage * BK * BN + b_begin;
            const int depth = SLICES > 1 ? SLICE : min(K - (to - left) * BK, BK);  // the last tiles end in zeros
            for (int done = 0; done < depth; done += UNROLL) {
#pragma unroll
                for (int k = 0; k < UNROLL; ++k) {
#pragma unroll
                    for (int i = 0; i < TM; i += 4) {
                        load_four(&a[k % 2][i], (k / 2 % 2 ? Ak_of_pair : Ak) + k * BM + (i ^ k % 2 * 4) * LANES_M);
                    }
#pragma unroll
                    for (int j = 0; j < TN; j += 4) load_four(&b[k % 2][j], Bk + k * BN + j * LANES_N);
                    add_products(sums, a[(k + 1) % 2], b[(k + 1) % 2]);  // of the k before, perhaps of the tile before
                }
                Ak += UNROLL * BM;
                Ak_of_pair += UNROLL * BM;
                Bk += UNROLL * BN;
            }
            if (left > 1) turn();
        }
        add_products(sums, a[1], b[1]);

        float mine[ROWS][TN];
        add_slices<SLICES, PART>(mine, sums, raw);
        if (SLICES > 1) fence_async_shared();  // the copy engine writes there later
        if (shares && to - from < steps &&
            !add_parts<8, THREADS>(mine, shared, sharer, first, first + steps - 1, workspace, tickets)) {
            continue;
        }
        if (!ALIGNED) sync_block<THREADS>();  // all have taken their sums: the tile takes the place of those
        const auto row_of = [=](int i) {
            const int place = slice * ROWS + i;  // among the thread's rows
            return Turn::row(thread_row / 4 + place / 4 * LANES_M, place % 4);
        };
        store_results<!ALIGNED, BN, 4 * LANES_N>(C, ldc, M, N, tile_row, tile_col, row_of, thread_col,
                                                 alpha, mine, beta, raw);
        if (!ALIGNED) {
            sync_block<THREADS>();
            store_tile<BM, BN, WARPS, 4>(C, ldc, M, N, tile_row, tile_col, raw, beta);
            fence_async_shared();  // the copy engine may write where the tile lay
        }
    }
}
