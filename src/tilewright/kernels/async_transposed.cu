// Rung 19, async_transposed: rung 18 for rows that begin anywhere, and for GPUs without a copy engine.
//
// The copy engine needs rows that begin at multiples of 16 bytes, and a copy of both operands where they do not, which
// costs small products more than their time. Here cp.async brings the tiles, 16 bytes at a time or 4. A comes as it lies, to
// `raw`, where each warp transposes what it has copied itself, so the block need not meet for that.
//
// Copies look at the end of k in the last step of a tile only.

#include <async_copy.cuh>
#include <dependent_launch.cuh>
#include <dynamic_shared.cuh>

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
constexpr int LOOP = SLICE % 16 == 0 ? 16 : SLICE / 2;  // k in the inner loop's code, for the instruction cache to hold it
constexpr bool STAGED = EDGES || !ALIGNED;
constexpr int PITCH = BK % 32 == 0 ? BK + 16 : BK;  // of `raw`; rows that are loaded together lie on distinct banks

using Turn = Transposition<BM, BK, PITCH, WARPS>;

// How a warp's lanes copy: of A UNIT_ROWS rows at a time, each ALIGNED lane four k of one, else each lane one of every
// second row; of B whole rows.
constexpr int A_STEP = ALIGNED ? Turn::UNIT_ROWS : 32 / Turn::UNIT_DEPTH;
constexpr int B_LANES = ALIGNED ? BN / 4 : 32;
constexpr int B_STEP = THREADS / B_LANES;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    async_transposed(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                     float* C, int ldc, float* workspace, unsigned* tickets) {
    DYNAMIC_SHARED(float, raw);               // a tile of A as it lies, in rows PITCH apart
    float* const As = raw + BM * PITCH;       // PLACES, each BK x BM
    float* const Bs = As + PLACES * BM * BK;  // two, each BK x BN

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
    // What this thread copies first: of A, where ALIGNED, the piece that it names when matrices are loaded.
    const int a_row = ALIGNED ? transposition.taken / PITCH
                              : threadIdx.x / 32 * Turn::UNIT_ROWS + lane / Turn::UNIT_DEPTH;
    const int a_k = ALIGNED ? transposition.taken % PITCH : lane % Turn::UNIT_DEPTH;
    const int b_k = threadIdx.x / B_LANES;
    const int b_col = threadIdx.x % B_LANES * (ALIGNED ? 4 : 1);

    int stage = 0;  // of As and Bs
    const bool shares = WAVE && blockIdx.x >= shared.first_tile;
    const int sharer = blockIdx.x - shared.first_tile;
    if (shares && sharer >= shared.sharers) return;
    int step = shares ? shared.first_step(sharer) : 0;
    const int end = shares ? shared.first_step(sharer + 1) : steps;
    wait_for_grid_before();
    while (step < end) {
        const int tile = shares ? shared.first_tile + step / steps : blockIdx.x;
        const int first = step / steps * steps;  // of the tile
        const int from = step - first;
        const int to = min(from + end - step, steps);
        const int tile_row = tile / tiles_n * BM;
        const int tile_col = tile % tiles_n * BN;
        step += to - from;

        const float* a_next = at(A, lda, tile_row + a_row, from * BK + a_k);
        const float* b_next = at(B, ldb, from * BK + b_k, tile_col + b_col);
        const int left_m = M - tile_row - a_row;
        const int left_n = N - tile_col - b_col;
        int left_k = K - from * BK;
        const auto copy = [&](bool ends) {  // to `raw`, and to the stage of B that is not in use
            float* const to_a = raw + a_row * PITCH + a_k;
            float* const to_b = Bs + (stage ^ 1) * BK * BN + b_k * BN + b_col;
#pragma unroll
            for (int round = 0; round < BM; round += Turn::ROUND) {
#pragma unroll
                for (int m = round; m < round + Turn::UNIT_ROWS; m += A_STEP) {
                    const float* a = at(a_next, lda, m, 0);
#pragma unroll
                    for (int k = 0; k < BK; k += Turn::UNIT_DEPTH) {
                        const int inside = !EDGES || m < left_m ? ends ? left_k - a_k - k : 4 : 0;  // k, from here on
                        if (ALIGNED) {
                            copy_async_first(to_a + m * PITCH + k, a + k, min(max(inside, 0), 4) * 4);
                        } else {
                            copy_async<4>(to_a + m * PITCH + k, a + k, inside > 0);
                        }
                    }
                }
            }
            const float* b = b_next;
#pragma unroll
            for (int k = 0; k < BK; k += B_STEP) {
                const bool inside = !ends || k < left_k - b_k;
                if (ALIGNED) {
                    copy_async_first(to_b + k * BN, b, !EDGES ? inside * 16 : inside ? min(max(left_n, 0), 4) * 4 : 0);
                } else {
#pragma unroll
                    for (int n = 0; n < BN; n += B_LANES) {
                        copy_async<4>(to_b + k * BN + n, b + n, inside && (!EDGES || n < left_n));
                    }
                }
                b = at(b, ldb, B_STEP, 0);
            }
        };
        const auto bring = [&] {
            if (!EDGES || left_k >= BK) {
                copy(false);
            } else {
                copy(true);
            }
            commit_copies();
            a_next += BK;
            b_next = at(b_next, ldb, BK, 0);
            left_k -= BK;
        };
        const auto turn = [&] {  // what has come to the place that is not in use, and that to be used
            wait_copies<0>();
            __syncwarp();
            stage ^= 1;
            transposition.run<PLACES == 1>(raw, As + (PLACES > 1 ? stage * BK * BM : 0));
        };
        __syncthreads();  // the tile before has been read
        if (K > 0) {
            bring();
            turn();
        }
        float sums[TM][TN] = {};
        float a[2][TM] = {}, b[2][TN] = {};  // fragments of an even k and of an odd one
        keep(transposition.taken);
        keep(transposition.put);
        keep(a_begin);
        keep(b_begin);
        for (int left = K > 0 ? to - from : 0; left > 0; --left) {
            const int depth = SLICES > 1 ? SLICE : min(left_k + BK, BK);  // the last tiles end in zeros
            __syncthreads();  // the tile lies there, and every thread is done with the one before
            if (left > 1) bring();

            const float* Ak = As + (PLACES > 1 ? stage * BK * BM : 0) + a_begin;
            const float* Bk = Bs + stage * BK * BN + b_begin;
            for (int done = 0; done < depth; done += LOOP) {
#pragma unroll
                for (int k = 0; k < LOOP; ++k) {
#pragma unroll
                    for (int i = 0; i < TM; i += 4) {
                        load_four(&a[k % 2][i], Ak + k * BM + Turn::place(i, k) * LANES_M);
                    }
#pragma unroll
                    for (int j = 0; j < TN; j += 4) load_four(&b[k % 2][j], Bk + k * BN + j * LANES_N);
                    add_products(sums, a[(k + 1) % 2], b[(k + 1) % 2]);  // of the k before, perhaps of the tile before
                }
                Ak += LOOP * BM;
                Bk += LOOP * BN;
            }
            if (left > 1) turn();
        }
        add_products(sums, a[1], b[1]);

        float mine[ROWS][TN];
        add_slices<SLICES, PART>(mine, sums, raw);
        if (shares && to - from < steps &&
            !add_parts<8, THREADS>(mine, shared, sharer, first, first + steps - 1, workspace, tickets)) {
            continue;
        }
        if (STAGED) __syncthreads();  // the tiles have been read: that of C takes their place
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const int place = slice * ROWS + i;  // among the thread's rows
            const int row = Turn::row(thread_row / 4 + place / 4 * LANES_M, place % 4);
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const int col = thread_col + j * LANES_N;
                if (!STAGED) {
                    store4(C, ldc, M, N, tile_row + row, tile_col + col, alpha, &mine[i][j], beta);
                } else {
#pragma unroll
                    for (int q = 0; q < 4; ++q) raw[in_shared<BN>(row, col + q)] = alpha * mine[i][j + q];
                }
            }
        }
        if (STAGED) {
            __syncthreads();
            store_tile<BM, BN, WARPS>(C, ldc, M, N, tile_row, tile_col, raw, beta);
        }
    }
}
