// Rung 17, skinny: products of few rows or few columns, which take no longer than loading their factors.
//
// Each element of the large factor is needed once or a few times, so unlike in rung 16 nothing goes through shared memory:
// the thread that uses an element loads it, with its neighbours in memory, and has DEPTH of k on their way at a time. What
// counts is DRAM's throughput; wavefronts of shared memory are next to none.
//
// The factor with few sides (rows of A) is `few`, the other one (columns of B) `wide`. THREADS_N threads are arranged along
// the wide factor's sides: several where its neighbours in memory are, 1 where they lie along k. Where A is large and
// column-major THREADS_M threads are arranged along m instead: few are then columns of B, wide rows of A.
//
//     THREADS_N = 8: a warp      k  |  0  1  2 ...  7 |     THREADS_N = 1:  k --> 0 1 2 ... 31, of each column
//     over B, row-major             |  8  9    ... 15 |
//                                   | 16 17    ... 23 |     Groups, warps or THREADS_N threads if more, have ranges of k
//                                   | 24 25    ... 31 |     of their own, and so have the blocks that share a tile.
//
// At the end the lanes of a warp add their sums by exchanging halves (lane_sums.cuh), then the groups through shared
// memory and the blocks through the workspace (block_sums.cuh).
#include "epilogue/result.cuh"
#include "operands.cuh"
#include "pipeline/block_sums.cuh"
#include "pipeline/direct_load.cuh"
#include "pipeline/factor_scales.cuh"
#include "pipeline/held_products.cuh"
#include "pipeline/lane_sums.cuh"
#include "ptx/dependent_launch.cuh"

constexpr bool SWAPPED = THREADS_M > 1;
constexpr int FEW = SWAPPED ? TN : TM;   // sides of a thread
constexpr int WIDE = SWAPPED ? TM : TN, THREADS_WIDE = SWAPPED ? THREADS_M : THREADS_N;
constexpr int GROUP = THREADS_WIDE > 32 ? THREADS_WIDE : 32;
constexpr int THREADS = GROUPS * GROUP;
constexpr int LANES_K = GROUP / THREADS_WIDE;
constexpr int STEP = LANES_K * DEPTH;  // how far along k a group goes at a time
constexpr int WIDE_TILE = THREADS_WIDE * WIDE;
// Sides of the few whose elements are on their way together: all where those may be the large factor's.
constexpr int TOGETHER = THREADS_WIDE == 1 && !AHEAD ? FEW : FEW % 2 == 0 ? 2 : 1;

// Neighbours that a thread loads by one instruction, of a multiple of `count`.
__device__ constexpr int run_of(int count) {
    int run = ALIGNED ? 16 / sizeof(FACTOR) : 1;
    while (count % run != 0) run /= 2;
    return run;
}
using LoadFew = DirectLoad<1, LANES_K, run_of(DEPTH), run_of(TOGETHER), SWAPPED ? TRANSPOSED_B : !TRANSPOSED_A>;
using LoadWide = DirectLoad<THREADS_WIDE, LANES_K, run_of(DEPTH), run_of(WIDE), SWAPPED ? !TRANSPOSED_A : TRANSPOSED_B>;

using FewType = decltype(either<SWAPPED>(FACTOR_B{}, FACTOR{}));
using WideType = decltype(either<SWAPPED>(FACTOR{}, FACTOR_B{}));

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    skinny(Sizes sizes, Factor<FACTOR> A, Factor<FACTOR_B> B, Output<RESULT> output, Workspace workspace, Scales scales) {
    const auto few = either<SWAPPED>(B, A);
    const auto wide = either<SWAPPED>(A, B);
    const int few_sides = SWAPPED ? sizes.n : sizes.m, wide_sides = SWAPPED ? sizes.m : sizes.n;
    const int K = depth_of(sizes, output);

    const int tiles_few = (few_sides - 1) / FEW + 1;
    const int tiles_of_matrix = tiles_few * ((wide_sides - 1) / WIDE_TILE + 1);
    const int tiles = tiles_of_matrix * sizes.batch;
    const int tile = blockIdx.x % tiles, split = blockIdx.x / tiles, matrix = tile / tiles_of_matrix;
    const int few_side = tile % tiles_of_matrix % tiles_few * FEW;
    const int wide_tile = tile % tiles_of_matrix / tiles_few * WIDE_TILE;
    // Of the blocks that there are for the tile, those used: each of their groups has a step.
    const int steps = (K - 1) / STEP + (K > 0);
    const int splits = max(min(static_cast<int>(gridDim.x) / tiles, (steps + GROUPS - 1) / GROUPS), 1);
    if (split >= splits) return;

    // This group's range of steps. With edges the last step of all is done separately: only it may reach past k, and only in its
    // last row is there nothing behind a row in memory that could be read.
    const int thread = threadIdx.x % GROUP;
    const int group = split * GROUPS + threadIdx.x / GROUP;
    const int each = steps / (splits * GROUPS);
    const int more = steps - each * (splits * GROUPS);  // groups that have a step more
    const int first_step = group * each + min(group, more);
    const int end = first_step + each + (group < more);
    const bool ends = EDGES && first_step < end && end == steps;

    const int own_side = thread % THREADS_WIDE * LoadWide::WIDTH;
    const int wide_side = wide_tile + own_side;
    const int k = first_step * STEP + thread / THREADS_WIDE * run_of(DEPTH);
    const int left_few = few_sides - few_side, left_wide = wide_sides - wide_side;
    auto few_next = LoadFew::at(as_bytes(few.matrix(matrix)), few.ld, few_side, k);
    auto wide_next = LoadWide::at(
        as_bytes(wide.matrix(matrix)), wide.ld, EDGES ? min(wide_side, (wide_sides - 1) & -LoadWide::WIDTH) : wide_side, k);

    Sum sums[FEW][WIDE] = {};
    Sum a[TOGETHER][DEPTH], b[WIDE][DEPTH], b_next[WIDE][DEPTH];
    const auto load_wide = [&](Sum (&to)[WIDE][DEPTH]) {
        auto side = wide_next;
        LoadWide::load(to, side, wide.ld, 0, left_wide);
        wide_next = LoadWide::at(wide_next, wide.ld, 0, STEP);
    };
    grid_dependency_wait();
    prefetch_bias<SWAPPED ? WIDE_TILE : FEW, SWAPPED ? FEW : WIDE_TILE>(output, sizes, SWAPPED ? wide_tile : few_side,
                                                                        SWAPPED ? few_side : wide_tile);
    int left = end - first_step - ends;
    if (AHEAD && left > 0) load_wide(b);
    for (; left > 0; --left) {
        if (!AHEAD) load_wide(b);
        if (AHEAD && left > 1) load_wide(b_next);
        if (AHEAD) __syncwarp();  // else the compiler moves these loads to where their values are used
        auto side = few_next;
#pragma unroll
        for (int first = 0; first < FEW; first += TOGETHER) {
            LoadFew::load(a, side, few.ld, first, left_few);
            add_held_products<FewType, WideType>(sums, first, a, b);
        }
        few_next = LoadFew::at(few_next, few.ld, 0, STEP);
#pragma unroll
        for (int j = 0; AHEAD && j < WIDE; ++j) {
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) b[j][d] = b_next[j][d];
        }
    }
    if (ends) {
        const int left_k = K - (steps - 1) * STEP - thread / THREADS_WIDE * run_of(DEPTH);
        LoadWide::load_last(b, wide_next, wide.ld, 0, left_wide, left_k);
#pragma unroll
        for (int first = 0; first < FEW; ++first) {
            Sum one[1][DEPTH];
            LoadFew::load_last(one, few_next, few.ld, first, left_few, left_k);
            add_held_products<FewType, WideType>(sums, first, one, b);
        }
    }
    add_lanes<16, THREADS_WIDE, FEW * WIDE>(&sums[0][0]);

    using Sums = BlockSums<GROUPS, GROUP, kept_sums<FEW * WIDE, THREADS_WIDE>()>;
    Sums::add(&sums[0][0], workspace, tile, tiles, split, splits, [&](int number, Sum sum) {
        const int kept = first_kept<FEW * WIDE, THREADS_WIDE>(number % GROUP % 32);
        if (kept < 0) return;
        const int index = kept + number / GROUP;
        const int of_few = few_side + index / WIDE;
        const int of_wide = wide_tile + number % GROUP % THREADS_WIDE * LoadWide::WIDTH + LoadWide::side_of(index % WIDE);
        const int row = SWAPPED ? of_wide : of_few, col = SWAPPED ? of_few : of_wide;
        Number<RESULT> total = static_cast<Number<RESULT>>(sum);
        if (FACTOR_SCALES && !IS_INTEGER<RESULT> && K > 0) total = scaled(scales, sizes, row, col, total);
        Result<RESULT>(output, sizes, matrix).store(row, col, total);
    });
}
