// gemm_tma, of rungs 15 and 18: tiles loaded by the Tensor Memory Accelerator, and a loop of shared loads and multiply-adds.
//
// No thread holds an element on its way, computes an address or checks an edge; the registers that this frees hold the
// fragments of two k, so that loads run ahead of use. Fragments are read from tiles that are contiguous along m or n. A
// factor that memory has so (column-major A, row-major B) is loaded to where it is read. One that is contiguous along k
// (row-major A, column-major B) is loaded to `raw`, and while its tile is multiplied, the next comes; then the warps
// transpose it with ldmatrix. K_SLICES groups of threads divide the k of every tile, and blocks divide tiles (stream-K).
//
//   shared memory of a block, in floats (factor_tiles.cuh):
//     A:  | raw BM x BK | A_BUFFERS tiles BK x BM |  or  | stage 0 | stage 1 |   BK * (1 + A_BUFFERS) * BM
//     B:  | raw BN x BK | B_BUFFERS tiles BK x BN |  or  | stage 0 | stage 1 |   BK * (1 + B_BUFFERS) * BN, or BK * 2 * BN
//   the same at the end of a tile: | sums of K_SLICES slices, BM x BN each |, then, where rows of D are not aligned,
//     | alpha * sums, BM x BN |
//
//   copy engine   | load step 1      | load step 2      | ...        one barrier; announced by thread 0
//   all threads   | multiply step 0  | wait, transpose 1, meet | multiply step 1 | wait, transpose 2, meet | ...
#include "epilogue/tile.cuh"
#include "pipeline/factor_tiles.cuh"
#include "pipeline/products.cuh"
#include "pipeline/schedule.cuh"
#include "pipeline/slices.cuh"
#include "ptx/bundle.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/keep.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tensor_map.cuh"

constexpr int LANES_M = 4;  // of a warp's lanes, 4 lie along m and 8 along n
constexpr int LANES_N = 8;
constexpr int WARPS_N = BN / (LANES_N * TN);
constexpr int SLICE_THREADS = 32 * (BM / (LANES_M * TM)) * WARPS_N;
constexpr int THREADS = K_SLICES * SLICE_THREADS;
constexpr int WARPS = THREADS / 32;
constexpr int ROWS = TM / K_SLICES;    // of a thread, whose results it stores
constexpr int SLICE = BK / K_SLICES;   // k of a slice
constexpr int A_FLOATS = BK * (1 + A_BUFFERS) * BM;
constexpr int TILES = A_FLOATS + BK * (TRANSPOSED_B ? 1 + B_BUFFERS : 2) * BN;
constexpr int SUMS = K_SLICES * BM * BN;
constexpr int SHARED = TILES > SUMS ? TILES : SUMS;

// 128 registers are enough for 64 sums. With more NVRTC 13.0 chooses some with bank conflicts in the loop.
constexpr bool FEW_REGISTERS = TM * TN <= 64 && MIN_BLOCKS * THREADS < 512;
constexpr int LEAST_BLOCKS = FEW_REGISTERS ? 512 / (BUNDLE * THREADS) : MIN_BLOCKS / BUNDLE;
constexpr bool BIAS_AHEAD = BIAS::EXISTS && K_SLICES > 1;  // without slices NVRTC 13.5 would add bank conflicts to the loop

using TilesOfA = FactorTiles<!TRANSPOSED_A, BM, BK, WARPS, A_BUFFERS, LANES_M>;
using TilesOfB = FactorTiles<TRANSPOSED_B, BN, BK, WARPS, B_BUFFERS, LANES_N>;
// With one buffer the tile that is transposed replaces the one being read: the block syncs in between, once.
constexpr bool SYNCS_FOR_A = !TRANSPOSED_A && A_BUFFERS == 1;
constexpr bool SYNCS_FOR_B = TRANSPOSED_B && B_BUFFERS == 1 && !SYNCS_FOR_A;

extern "C" __global__ void __launch_bounds__(BUNDLE * THREADS, LEAST_BLOCKS)
    gemm_tma(Sizes sizes, const __grid_constant__ TensorMap A, const __grid_constant__ TensorMap B, Output<RESULT> output,
             Workspace workspace) {
    DYNAMIC_SHARED_OF_BLOCK(float, memory, SHARED);
    SHARED_OF_BLOCK(Barrier, full);

    const int K = depth_of(sizes, output);
    Schedule<BM, BN, BK> work(sizes);
    const int slice = threadIdx.x / SLICE_THREADS;
    const int warp = threadIdx.x % SLICE_THREADS / 32;
    const int lane = threadIdx.x % 32;
    // A thread's rows and columns come in quads, as far apart as the warp's lanes reach together.
    const int thread_row = warp / WARPS_N * (LANES_M * TM) + lane / LANES_N * 4;
    const int thread_col = warp % WARPS_N * (LANES_N * TN) + lane % LANES_N * 4;
    TilesOfA a_tiles(memory, slice * SLICE * BM + thread_row);
    TilesOfB b_tiles(memory + A_FLOATS, slice * SLICE * BN + thread_col);

    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        fence_barrier_init();
        fence_async_shared();
    }
    int stage = 0;  // whose tiles are read
    int parity = 0;
    while (work.next()) {
        const auto load = [&](int step) {
            barrier_expect_bytes(&full, BK * (BM + BN) * sizeof(float));
            a_tiles.load(&A, work.row, step * BK, work.matrix * sizes.step_a, stage, &full);
            b_tiles.load(&B, work.col, step * BK, work.matrix * sizes.step_b, stage, &full);
        };
        const auto go_on = [&] {  // to what was loaded
            barrier_wait(&full, parity);
            parity ^= 1;
            stage ^= 1;
            a_tiles.transpose<SYNCS_FOR_A>(stage);
            b_tiles.transpose<SYNCS_FOR_B>(stage);
        };
        sync_block<THREADS>();  // the barrier is made, and the tile before has been read
        // With K > 0 the others touch no memory before the first tile has come.
        if (threadIdx.x == 0 || K == 0) grid_dependency_wait();
        if (K > 0) {
            if (threadIdx.x == 0) load(work.from);
            if (BIAS_AHEAD) prefetch_bias<BM, BN>(output, sizes, work.row, work.col);
            go_on();
        }
        float sums[TM][TN] = {};
        float a[2][TM] = {}, b[2][TN] = {};  // fragments of an even k and of an odd one
        a_tiles.keep_in_registers();
        b_tiles.keep_in_registers();
        for (int left = K > 0 ? work.to - work.from : 0; left > 0; --left) {
            sync_block<THREADS>();  // the tile is stored, and every thread is done with the one before
            if (threadIdx.x == 0 && left > 1) load(work.to - left + 1);

            const float* a_at[TilesOfA::POINTERS];
            const float* b_at[TilesOfB::POINTERS];
            a_tiles.point(a_at, stage);
            b_tiles.point(b_at, stage);
            const int depth = K_SLICES > 1 ? SLICE : min(K - (work.to - left) * BK, BK);  // the last tiles end in zeros
            for (int done = 0; done < depth; done += UNROLL) {
#pragma unroll
                for (int k = 0; k < UNROLL; ++k) {
                    add_products(sums, a[(k + 1) % 2], b[(k + 1) % 2]);  // of the k before, perhaps of the tile before
                    TilesOfA::fragment(a[k % 2], a_at, k);
                    TilesOfB::fragment(b[k % 2], b_at, k);
                }
#pragma unroll
                for (int i = 0; i < TilesOfA::POINTERS; ++i) a_at[i] += UNROLL * BM;
#pragma unroll
                for (int i = 0; i < TilesOfB::POINTERS; ++i) b_at[i] += UNROLL * BN;
            }
            if (left > 1) go_on();
        }
        add_products(sums, a[1], b[1]);

        const auto row_of = [=](int i) {
            const int own = slice * ROWS + i;  // among the thread's rows
            return TilesOfA::row(thread_row / 4 + own / 4 * LANES_M, own % 4);
        };
        TileBias<RESULT, !ALIGNED, ROWS, TN, 4 * LANES_N> bias(output, sizes);
        if (BIAS_AHEAD) bias.load(work.row, work.col, row_of, thread_col);
        float totals[ROWS][TN];
        add_slices<K_SLICES, SLICE_THREADS>(totals, sums, memory);
        if (K_SLICES > 1) fence_async_shared();  // the copy engine writes there later
        if (!work.reduce<THREADS>(totals, workspace)) continue;
        TilesOfB::sort(totals, thread_col / 4);
        if (!ALIGNED) sync_block<THREADS>();  // all have loaded their sums: the tile replaces them
        const Result<RESULT> result(output, sizes, work.matrix);
        if (!BIAS_AHEAD) bias.load(work.row, work.col, row_of, thread_col);
        store_results<BN>(result, work.row, work.col, row_of, thread_col, totals, bias, memory);
        reconverge();
        if (!ALIGNED) {
            sync_block<THREADS>();
            store_tile<BM, BN, WARPS, 4>(result, work.row, work.col, memory);
            fence_async_shared();  // the copy engine may write where the tile was
        }
    }
}
