// Rung 16, split_k: k divided among the warps of a block and among blocks, so that small and skinny products fill a GPU.
//
// Over rung 15 nothing is relaid: a product of few tiles has no time for another kernel. cp.async copies the tiles of both
// factors, and transposes one whose neighbours in memory lie along k on its way.
//
// A small matrix has few tiles, and a block of few warps cannot keep a multiprocessor busy. K_SLICES groups of warps divide
// the k of every tile, each with sums of its own for all of the tile, which are added at the end (sliced-K). Blocks share
// the tiles left over from the last full wave (stream-K, schedule.cuh).
//
//     shared memory        stage 0         stage 1        ...        at the end of a tile of D, in their place:
//                      |  A  |   B   |  A  |   B   |      ...        all slices' sums, then rows off 16-byte boundaries
//                        k 0
//     slice 0            ...                                         a warp: 4 lanes along m, 8 along n, in pairs
//                        k BK/K_SLICES - 1                               lane   0  2  4 ... 14
//     slice 1            ...                                                    1  3  5 ... 15
//                                                                              16 18 20 ... 30     each with quads of
//                                                                              17 19 21 ... 31     rows and columns

#include "epilogue/tile.cuh"
#include "operands.cuh"
#include "pipeline/products.cuh"
#include "pipeline/schedule.cuh"
#include "pipeline/slices.cuh"
#include "pipeline/tile_copy.cuh"
#include "ptx/dependent_launch.cuh"
#include "ptx/dynamic_shared.cuh"

constexpr int LANES_M = 4;
constexpr int LANES_N = 8;
constexpr int WARPS_N = BN / (LANES_N * TN);
constexpr int SLICE_THREADS = 32 * (BM / (LANES_M * TM)) * WARPS_N;
constexpr int THREADS = SLICE_THREADS * K_SLICES;
constexpr int ROWS = TM / K_SLICES;  // of a thread, whose results it stores
constexpr bool STAGED = EDGES || !ALIGNED;
constexpr bool A_ALONG_K = !TRANSPOSED_A;  // neighbours in memory are neighbours along k
constexpr bool B_ALONG_K = TRANSPOSED_B;
using Element = decltype(either<COMPLEX>(float2{}, float{}));  // of A and B in memory, and in their tiles
constexpr int PARTS = sizeof(Element) / sizeof(float);
constexpr int DEPTH = BK / PARTS;   // of a tile, in elements
constexpr int COLUMNS = BN / PARTS;
constexpr int SLICE_DEPTH = DEPTH / K_SLICES;
constexpr int A_ELEMENTS = TILE_ELEMENTS<BM, DEPTH, A_ALONG_K>;
constexpr int STAGE = A_ELEMENTS + TILE_ELEMENTS<COLUMNS, DEPTH, B_ALONG_K>;

__device__ __forceinline__ const Element* elements(const float* floats) { return reinterpret_cast<const Element*>(floats); }

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    split_k(Sizes sizes, Factor<FACTOR> A, Factor<FACTOR> B, Output<RESULT> output, Workspace workspace) {
    DYNAMIC_SHARED(float, stages);
    Element* const tiles = reinterpret_cast<Element*>(stages);

    TileCopy<Element, BM, DEPTH, THREADS, A_ALONG_K> a_copy;
    TileCopy<Element, COLUMNS, DEPTH, THREADS, B_ALONG_K> b_copy;
    const int K = depth_of(sizes, output);
    const int warp = threadIdx.x % SLICE_THREADS / 32;
    const int lane = threadIdx.x % 32;
    // Neighbours are arranged in pairs along m: half a warp at a time is served the 16 bytes that each lane reads of shared
    // memory where neighbours read the same, else a quarter.
    const int lane_row = lane / (2 * LANES_N) * 2 + lane % 2;
    const int lane_col = lane / 2 % LANES_N;
    const int slice = threadIdx.x / SLICE_THREADS;
    const int first_k = slice * SLICE_DEPTH;  // of the slice in a tile
    // A thread's rows and columns come in quads, as far apart as the warp's lanes reach together.
    const int thread_row = warp / WARPS_N * (LANES_M * TM) + lane_row * 4;
    const int thread_col = warp % WARPS_N * (LANES_N * TN) + lane_col * 4;

    int stage = 0;
    for (Schedule<BM, BN, BK, WORKERS == 0> work(sizes); work.next();) {
        a_copy.go_to(elements(A.matrix(work.matrix)), A.ld / PARTS, sizes.m, work.row, work.from * DEPTH);
        b_copy.go_to(elements(B.matrix(work.matrix)), B.ld / PARTS, sizes.n / PARTS, work.col / PARTS, work.from * DEPTH);
        int left_k = K / PARTS - work.from * DEPTH;
        const auto start = [&](int into) {
            a_copy.start(tiles + into * STAGE, left_k);
            b_copy.start(tiles + into * STAGE + A_ELEMENTS, left_k);
            left_k -= DEPTH;
        };
        grid_dependency_wait();
        __syncthreads();  // the stages of the tile before have been read
#pragma unroll
        for (int ahead = 0; ahead < STAGES - 1; ++ahead) {
            if (K > 0 && work.from + ahead < work.to) start((stage + ahead) % STAGES);
            commit_copies();  // a group a step, be it empty, so that to count groups is to count steps
        }
        prefetch_bias<BM, BN>(output, sizes, work.row, work.col);
        float sums[TM][TN] = {};
        for (int step = work.from; step < work.to && K > 0; ++step) {
            wait_copies<STAGES - 2>();
            __syncthreads();  // this stage is complete, and all are done with the one before
            if (step + STAGES - 1 < work.to) start(stage == 0 ? STAGES - 1 : stage - 1);
            commit_copies();

            const float* As = stages + PARTS * (stage * STAGE + offset_in_tile<BM, A_ALONG_K>(first_k) + thread_row);
            const float* Bs = stages + PARTS * (stage * STAGE + A_ELEMENTS + offset_in_tile<COLUMNS, B_ALONG_K>(first_k)) + thread_col;
            float a[2][PARTS * TM], b[2][TN];
            const auto load = [&](int k) {
                const float* const bs = Bs + PARTS * offset_in_tile<COLUMNS, B_ALONG_K>(k);
                const float* const as = As + PARTS * offset_in_tile<BM, A_ALONG_K>(k);
#pragma unroll
                for (int j = 0; j < TN; j += 4) load_float4(&b[k % 2][j], bs + j * LANES_N);
#pragma unroll
                for (int i = 0; i < TM; i += 4) {
#pragma unroll
                    for (int half = 0; half < PARTS; ++half) load_float4(&a[k % 2][PARTS * i + 4 * half], as + PARTS * i * LANES_M + 4 * half);
                }
            };
            load(0);
#pragma unroll
            for (int k = 0; k < SLICE_DEPTH; ++k) {
                if (k + 1 < SLICE_DEPTH) load(k + 1);
                add_products<CONJUGATE_A, CONJUGATE_B>(sums, a[k % 2], b[k % 2]);
            }
            if (++stage == STAGES) stage = 0;
        }

        const auto row_of = [=](int i) {
            const int own = slice * ROWS + i;  // among the thread's rows
            return thread_row + own / 4 * 4 * LANES_M + own % 4;
        };
        TileBias<RESULT, STAGED, ROWS, TN, 4 * LANES_N> bias(output, sizes);
        bias.load(work.row, work.col, row_of, thread_col);
        float totals[ROWS][TN];
        add_slices<K_SLICES, SLICE_THREADS>(totals, sums, stages);
        if (!work.reduce<THREADS>(totals, workspace)) continue;
        if (STAGED) __syncthreads();  // the last stage, or the slices' sums, have been read
        const Result<RESULT> result(output, sizes, work.matrix);
        store_results<BN>(result, work.row, work.col, row_of, thread_col, totals, bias, stages);
        if (STAGED) {
            __syncthreads();
            store_tile<BM, BN, THREADS / 32>(result, work.row, work.col, stages);
        }
    }
}
