// Rung 16, split_k: k divided among the warps of a block and among blocks, so that small and skinny products fill a GPU.
//
// Over rung 15 nothing is packed: a product of few tiles has no time for another kernel. cp.async transposes A on its
// way, 4 bytes at a time. Sixteen lanes stand along k and two along m, so that a warp reads two lines of memory and, with
// 4 columns more in the tile than it needs, writes each bank twice.
//
// A small matrix has few tiles, and a block of few warps cannot keep a multiprocessor busy. SLICES groups of warps take
// turns along k, each with sums of its own for the whole tile, which are added at the end (sliced-K). WAVE blocks share
// the tiles of the last wave, or all where there are fewer, each a range of k (stream-K, as in rung 15).

#include <async_copy.cuh>
#include <dependent_launch.cuh>
#include <dynamic_shared.cuh>

#include "epilogue.cuh"
#include "products.cuh"
#include "slices.cuh"
#include "stream_k.cuh"

constexpr int LANES_N = 32 / LANES_M;
constexpr int WARPS_N = BN / (LANES_N * TN);
constexpr int PART = 32 * (BM / (LANES_M * TM)) * WARPS_N;  // threads that compute a tile together
constexpr int THREADS = PART * SLICES;
constexpr int ROWS = TM / SLICES;  // of a thread, whose results it stores
constexpr int WARPS = THREADS / 32;
constexpr bool STAGED = EDGES || !ALIGNED;
constexpr int A_PITCH = BM + 4;
constexpr int STAGE = BK * (A_PITCH + BN);  // floats of a tile of A and one of B

// How lanes stand over the tile of A when they copy it, and warps, each with the rows and columns of its lanes.
constexpr int COPY_LANES_K = 16;
constexpr int COPY_LANES_M = 2;
constexpr int COPY_M = WARPS < BM / COPY_LANES_M ? WARPS : BM / COPY_LANES_M;
constexpr int COPY_K = WARPS / COPY_M;
// The same over an unaligned tile of B, each 32 columns at a time.
constexpr int COPY_N = WARPS < BN / 32 ? WARPS : BN / 32;
constexpr int B_ROWS = ALIGNED ? THREADS * 4 / BN : WARPS / COPY_N;  // of B's tile, copied at a time

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    split_k(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
            int ldc, float* workspace, unsigned* tickets) {
    DYNAMIC_SHARED(float, stages);

    const int tiles_n = (N + BN - 1) / BN;
    const int tiles = (M + BM - 1) / BM * tiles_n;
    const int steps = max((K + BK - 1) / BK, 1);  // of a tile; with k = 0 one that adds nothing
    const Shared shared(tiles, steps);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    // Neighbours stand below each other, in pairs: half a warp at a time is served the 16 bytes that each lane reads of
    // shared memory where neighbours read the same, else a quarter.
    const int lane_row = lane / (2 * LANES_N) * 2 + lane % 2;
    const int lane_col = lane / 2 % LANES_N;
    const int slice = threadIdx.x / PART;
    const int part_warp = threadIdx.x % PART / 32;
    // A thread's rows and columns come in fours, as far apart as the warp's lanes reach together.
    const int thread_row = part_warp / WARPS_N * (LANES_M * TM) + lane_row * 4;
    const int thread_col = part_warp % WARPS_N * (LANES_N * TN) + lane_col * 4;
    // The first element of A that this thread copies of each tile.
    const int copy_row = warp % COPY_M * COPY_LANES_M + lane / COPY_LANES_K;
    const int copy_k = warp / COPY_M * COPY_LANES_K + lane % COPY_LANES_K;
    // The same of B: four columns of an aligned row, or one.
    const int b_row = ALIGNED ? threadIdx.x / (BN / 4) : warp / COPY_N;
    const int b_col = ALIGNED ? threadIdx.x % (BN / 4) * 4 : warp % COPY_N * 32 + lane;

    int stage = 0;
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

        // What this thread copies next of A and of B, and how many of m, n and k there are from there on.
        const float* a_next = at(A, lda, tile_row + copy_row, from * BK + copy_k);
        const float* b_next = at(B, ldb, from * BK + b_row, tile_col + b_col);
        const int left_m = M - tile_row - copy_row;
        const int left_n = N - tile_col - b_col;
        int left_k = K - from * BK;
        const auto bring = [&](int into) {
            float* As = stages + into * STAGE + copy_k * A_PITCH + copy_row;
            float* Bs = stages + into * STAGE + BK * A_PITCH + b_row * BN + b_col;
            const float* a = a_next;
#pragma unroll
            for (int m = 0; m < BM; m += COPY_LANES_M * COPY_M) {
#pragma unroll
                for (int k = 0; k < BK; k += COPY_LANES_K * COPY_K) {
                    copy_async<4>(As + k * A_PITCH + m, a + k, !EDGES || (m < left_m && k < left_k - copy_k));
                }
                a = at(a, lda, COPY_LANES_M * COPY_M, 0);
            }
            const float* b = b_next;
#pragma unroll
            for (int k = 0; k < BK; k += B_ROWS) {
                if (B_ROWS > BK && b_row >= BK) break;
                const bool inside = k < left_k - b_row;
                if (ALIGNED) {
                    copy_async_first(Bs + k * BN, b, !EDGES ? 16 : inside ? min(max(left_n, 0), 4) * 4 : 0);
                } else {
#pragma unroll
                    for (int n = 0; n < BN; n += 32 * COPY_N) {
                        copy_async<4>(Bs + k * BN + n, b + n, !EDGES || (inside && n < left_n));
                    }
                }
                b = at(b, ldb, B_ROWS, 0);
            }
            a_next += BK;
            b_next = at(b_next, ldb, BK, 0);
            left_k -= BK;
        };
        wait_for_grid_before();
        __syncthreads();  // the stages of the tile before have been read
#pragma unroll
        for (int ahead = 0; ahead < STAGES - 1; ++ahead) {
            if (K > 0 && from + ahead < to) bring((stage + ahead) % STAGES);
            commit_copies();  // a group a step, be it empty, so that to count groups is to count steps
        }
        float sums[TM][TN] = {};
        for (int k_step = from; k_step < to && K > 0; ++k_step) {
            wait_copies<STAGES - 2>();
            __syncthreads();  // all threads' copies of this stage have come, and all are done with the one before
            if (k_step + STAGES - 1 < to) bring(stage == 0 ? STAGES - 1 : stage - 1);
            commit_copies();

            const float* As = stages + stage * STAGE + slice * (BK / SLICES * A_PITCH) + thread_row;
            const float* Bs = stages + stage * STAGE + BK * A_PITCH + slice * (BK / SLICES * BN) + thread_col;
            float a[2][TM], b[2][TN];
            const auto fetch = [&](int k) {
#pragma unroll
                for (int j = 0; j < TN; j += 4) load_four(&b[k % 2][j], Bs + k * BN + j * LANES_N);
#pragma unroll
                for (int i = 0; i < TM; i += 4) load_four(&a[k % 2][i], As + k * A_PITCH + i * LANES_M);
            };
            fetch(0);
#pragma unroll
            for (int k = 0; k < BK / SLICES; ++k) {
                if (k + 1 < BK / SLICES) fetch(k + 1);
                add_products(sums, a[k % 2], b[k % 2]);
            }
            if (++stage == STAGES) stage = 0;
        }

        float mine[ROWS][TN];
        add_slices<SLICES, PART>(mine, sums, stages);
        if (WAVE && to - from < steps &&
            !add_parts<8, THREADS>(mine, shared, sharer, first, first + steps - 1, workspace, tickets)) {
            continue;
        }
        if (STAGED) __syncthreads();  // the last stage has been read: the tile takes the stages' place
        const auto row_of = [=](int i) {
            const int place = slice * ROWS + i;  // among the thread's rows
            return thread_row + place / 4 * 4 * LANES_M + place % 4;
        };
        store_results<STAGED, BN, 4 * LANES_N>(C, ldc, M, N, tile_row, tile_col, row_of, thread_col, alpha, mine, beta,
                                               stages);
        if (STAGED) {
            __syncthreads();
            store_tile<BM, BN, WARPS>(C, ldc, M, N, tile_row, tile_col, stages, beta);
        }
    }
}
