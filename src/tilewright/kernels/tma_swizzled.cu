// Rung 18, tma_swizzled: the copy engine brings A as it lies in memory, and the block transposes it on the way.
//
// Rung 15 wants A transposed, by a kernel before: it costs a pass over A, and as much memory again. Here tiles of A come
// k-contiguous. While a tile is multiplied, the next one comes to `raw`; then each warp takes four k of every row from
// there to the one of two places for tiles that is not in use. A lane reads 16 bytes of its row; so that neighbours read
// from all banks, the copy engine exchanges the 16-byte pieces of each 128-byte row (swizzle).
//
// For deep products of small results, SLICES parts of a block's threads divide the k of every tile, as in rung 16, and
// blocks share tiles (stream-K).

#include <dependent_launch.cuh>
#include <dynamic_shared.cuh>
#include <mbarrier.cuh>
#include <tensor_map.cuh>

#include "epilogue.cuh"
#include "products.cuh"
#include "stream_k.cuh"

constexpr int LANES_M = 4;  // of a warp's lanes, 4 stand along m and 8 along n
constexpr int LANES_N = 8;
constexpr int WARPS_N = BN / (LANES_N * TN);
constexpr int PART = 32 * (BM / (LANES_M * TM)) * WARPS_N;  // threads of a slice
constexpr int THREADS = SLICES * PART;  // of which eight warps take the eight pieces of every row
constexpr int SLICE = 32;  // k of a slice, which make the 128 bytes of a swizzled row
constexpr int DEPTH = SLICES * SLICE;
constexpr int BATCH = SLICES * BM < 128 ? SLICES * BM / 32 : 4;  // rows that a thread loads before it stores them
constexpr int LOOP = SLICE / 2;  // k in the code of the inner loop, which has to stay in the instruction cache

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    tma_swizzled(int M, int N, int K, float alpha, const __grid_constant__ TensorMap A,
                 const __grid_constant__ TensorMap B, float beta, float* C, int ldc, float* workspace,
                 unsigned* tickets) {
    DYNAMIC_SHARED(float, raw);               // a tile of A as it came, slice after slice, each BM x SLICE
    float* const As = raw + BM * DEPTH;       // two, each DEPTH x BM
    float* const Bs = As + 2 * BM * DEPTH;    // two, each DEPTH x BN
    __shared__ Barrier full;

    const int tiles_n = (N + BN - 1) / BN;
    const int tiles = (M + BM - 1) / BM * tiles_n;
    const int steps = max((K + DEPTH - 1) / DEPTH, 1);  // of a tile; with k = 0 one that adds nothing
    const Shared shared(tiles, steps);
    const int slice = threadIdx.x / PART;
    const int warp = threadIdx.x % PART / 32;
    const int lane = threadIdx.x % 32;
    // A thread's rows and columns come in fours, as far apart as the warp's lanes reach together.
    const int thread_row = warp / WARPS_N * (LANES_M * TM) + lane / LANES_N * 4;
    const int thread_col = warp % WARPS_N * (LANES_N * TN) + lane % LANES_N * 4;

    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        fence_barrier_init();
        fence_async_shared();
    }
    int stage = 0;  // of As and Bs
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
        const int to = min(from + end - step, steps);
        const int tile_row = tile / tiles_n * BM;
        const int tile_col = tile % tiles_n * BN;
        step += to - from;

        const auto bring = [&](int k_step) {  // to `raw`, and to the stage of B that is not in use
            barrier_expect_bytes(&full, DEPTH * (BM + BN) * sizeof(float));
#pragma unroll
            for (int s = 0; s < SLICES; ++s) {
                load_tile(raw + s * BM * SLICE, &A, k_step * DEPTH + s * SLICE, tile_row, &full);
            }
            load_tile(Bs + (stage ^ 1) * DEPTH * BN, &B, tile_col, k_step * DEPTH, &full);
        };
        const auto turn = [&] {  // what has come to the stage that is not in use, and that to be used
            barrier_wait(&full, parity);
            parity ^= 1;
            stage ^= 1;
            const int piece = threadIdx.x / 32;
            const float* from = raw + lane * SLICE + (piece ^ lane % 8) * 4;
            float* to = As + stage * DEPTH * BM + piece * 4 * BM + lane;
#pragma unroll
            for (int rows = 0; rows < SLICES * BM; rows += 32 * BATCH) {  // a thread's rows are 32 apart
                float four[BATCH][4];
#pragma unroll
                for (int i = 0; i < BATCH; ++i) load_four(four[i], from + (rows + 32 * i) * SLICE);
#pragma unroll
                for (int i = 0; i < BATCH; ++i) {
                    const int row = rows + 32 * i;  // of all slices' rows, one slice's after the other's
#pragma unroll
                    for (int k = 0; k < 4; ++k) to[(row / BM * SLICE + k) * BM + row % BM] = four[i][k];
                }
            }
        };
        __syncthreads();  // the barrier is made, and the tile before has been read
        // With k > 0 the others touch no memory before the first tile has come.
        if (threadIdx.x == 0 || K == 0) wait_for_grid_before();
        if (K > 0) {
            if (threadIdx.x == 0) bring(from);
            turn();
        }
        float sums[TM][TN] = {};
        float a[2][TM] = {}, b[2][TN] = {};  // fragments of an even k and of an odd one
        for (int k_step = from; k_step < to && K > 0; ++k_step) {
            __syncthreads();  // the tile lies there, and every thread is done with the one before
            if (threadIdx.x == 0 && k_step + 1 < to) bring(k_step + 1);

            const float* Ak = As + stage * DEPTH * BM + slice * SLICE * BM + thread_row;
            const float* Bk = Bs + stage * DEPTH * BN + slice * SLICE * BN + thread_col;
            for (int done = 0; done < SLICE; done += LOOP) {
#pragma unroll
                for (int k = 0; k < LOOP; ++k) {
#pragma unroll
                    for (int i = 0; i < TM; i += 4) load_four(&a[k % 2][i], Ak + k * BM + i * LANES_M);
#pragma unroll
                    for (int j = 0; j < TN; j += 4) load_four(&b[k % 2][j], Bk + k * BN + j * LANES_N);
                    add_products(sums, a[(k + 1) % 2], b[(k + 1) % 2]);  // of the k before, perhaps of the tile before
                }
                Ak += LOOP * BM;
                Bk += LOOP * BN;
            }
            if (k_step + 1 < to) turn();
        }
        add_products(sums, a[1], b[1]);

#pragma unroll
        for (int other = 1; other < SLICES; ++other) {
            float* theirs = raw + threadIdx.x % PART;
            __syncthreads();
            if (slice == other) leave_sums<PART>(sums, theirs);
            fence_async_shared();  // the copy engine writes there later
            __syncthreads();
            if (slice == 0) add_sums<PART>(sums, theirs);
        }
        if (shares && to - from < steps &&
            !add_parts<8, PART>(sums, shared, sharer, first, first + steps - 1, workspace, tickets)) {
            continue;
        }
        if (slice > 0) continue;
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int row = tile_row + thread_row + i / 4 * 4 * LANES_M + i % 4;
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                store4(C, ldc, M, N, row, tile_col + thread_col + j * LANES_N, alpha, &sums[i][j], beta);
            }
        }
    }
}
