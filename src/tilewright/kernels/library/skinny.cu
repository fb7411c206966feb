// Rung 17, skinny: products of few rows or few columns, which take no longer than reading their operands.
//
// Each element of the large operand is needed once or a few times, so unlike in rung 16 nothing goes through shared memory:
// the thread that uses an element loads it, as part of a float4, and has DEPTH of k on their way at a time. THREADS_N
// threads stand side by side along a row of B. A group, a warp or as many threads as stand so, walks along a range of k of
// its own, its lanes that do not stand along B's row side by side along A's rows. Groups of a block and blocks of a tile
// divide k among them. At the end the lanes of a warp exchange halves of their sums until each has few left to add up, the
// groups meet in shared memory, and the blocks in the workspace, always in the same order. What counts is DRAM's
// throughput; wavefronts of shared memory are next to none.

#include <dependent_launch.cuh>

#include "epilogue.cuh"

constexpr int GROUP = THREADS_N > 32 ? THREADS_N : 32;
constexpr int THREADS = GROUPS * GROUP;
constexpr int LANES_K = GROUP / THREADS_N;
constexpr int STEP = LANES_K * DEPTH;  // how far along k a group goes at a time
constexpr int BN = THREADS_N * TN;
// Neighbours along k, and along n, that a thread loads together.
constexpr int RUN = ALIGNED ? 4 : 1;
constexpr int WIDE = !ALIGNED ? 1 : TN % 4 == 0 ? 4 : TN % 2 == 0 ? 2 : 1;
// Rows of A whose elements are under way together: all where A is the large operand.
constexpr int ROWS = THREADS_N == 1 || TM < 2 ? TM : 2;

// Sums that a thread keeps once lanes that stand along k have exchanged theirs, by halves while there are any.
__host__ __device__ constexpr int kept_sums() {
    int count = TM * TN;
    for (int apart = 16; apart >= THREADS_N; apart /= 2) count /= count % 2 == 0 ? 2 : 1;
    return count;
}
constexpr int KEPT = kept_sums();
constexpr int PART = KEPT * GROUP;                                      // sums of a group, and so of a block
constexpr int ROUND = KEPT * THREADS > 4096 ? 4096 / THREADS : KEPT;    // of the sums kept, those added up at a time
constexpr int EACH = (PART + THREADS - 1) / THREADS;                    // sums of a part that fall to a thread, ...
constexpr int ADDERS = PART < THREADS ? THREADS / PART : 1;             // ... or threads that share the work on one
constexpr int UNDER_WAY = EACH <= 4 ? 8 : EACH <= 8 ? 4 : 2;            // parts that a thread loads together

// How far from a thread's first k its other ones lie, and from its first column the others.
__device__ constexpr int k_of(int d) { return d / RUN * (LANES_K * RUN) + d % RUN; }
__device__ constexpr int column_of(int j) { return j / WIDE * (THREADS_N * WIDE) + j % WIDE; }

// COUNT neighbouring elements.
template <int COUNT>
__device__ __forceinline__ void load_run(float* to, const float* from) {
    if (COUNT == 4) {
        load_four(to, from);
    } else if (COUNT == 2) {
        const float2 two = *reinterpret_cast<const float2*>(from);
        to[0] = two.x;
        to[1] = two.y;
    } else {
        to[0] = *from;
    }
}

// A thread's elements of one step of B, from its first row and column on. Columns past n are taken from the last ones, or
// from what fills up B's row; `wide` says how many there are from its first on, which is then the last.
__device__ __forceinline__ void load_b(float (&b)[DEPTH][TN], const float* B, int ldb, int wide) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
        for (int j = 0; j < TN; j += WIDE) {
            const int column = EDGES && j > 0 ? min(column_of(j), max(wide - 1, 0) & -WIDE) : column_of(j);
            load_run<WIDE>(&b[d][j], at(B, ldb, k_of(d), column));
        }
    }
}

// Adds so many steps along k to the sums, none of them the last of all where there are edges.
//
// A, B: this thread's first elements, then those behind these steps. wide: columns of n from its first on, or less than 1. rows: what is left of m; rows
// past it are taken from the last one. Sums of what lies outside are dropped.
__device__ __forceinline__ void multiply(float (&sums)[TM][TN], const float*& A, int lda, const float*& B, int ldb,
                                         int steps, int rows, int wide) {
    float b[DEPTH][TN];
    if (AHEAD && steps > 0) load_b(b, B, ldb, wide);
    for (; steps > 0; --steps, A += STEP) {
        float next[DEPTH][TN];
        if (!AHEAD) load_b(b, B, ldb, wide);
        B = at(B, ldb, STEP, 0);
        if (AHEAD && steps > 1) load_b(next, B, ldb, wide);
        if (AHEAD) __syncwarp();  // else the compiler moves these loads to where their values are used
        const float* row = A;
#pragma unroll
        for (int top = 0; top < TM; top += ROWS) {
            float a[ROWS][DEPTH];
#pragma unroll
            for (int i = 0; i < ROWS && top + i < TM; ++i) {
#pragma unroll
                for (int d = 0; d < DEPTH; d += RUN) load_run<RUN>(&a[i][d], row + k_of(d));
                if (!EDGES || top + i + 1 < rows) row = at(row, lda, 1, 0);
            }
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
                for (int i = 0; i < ROWS && top + i < TM; ++i) {
#pragma unroll
                    for (int j = 0; j < TN; ++j) sums[top + i][j] += a[i][d] * b[d][j];
                }
            }
        }
        if (AHEAD) {
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
                for (int j = 0; j < TN; ++j) b[d][j] = next[d][j];
            }
        }
    }
}

// Adds the last step of all, of which `deep` of k are left from the thread's first on.
__device__ __forceinline__ void multiply_last(float (&sums)[TM][TN], const float* A, int lda, const float* B, int ldb,
                                              int rows, int deep, int wide) {
    float b[DEPTH][TN];
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            b[d][j] = load(at(B, ldb, k_of(d), column_of(j)), k_of(d) < deep && column_of(j) < wide);
        }
    }
    const float* row = A;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        float a[DEPTH];
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) a[d] = load(row + k_of(d), k_of(d) < deep);
        if (i + 1 < rows) row = at(row, lda, 1, 0);
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
#pragma unroll
            for (int j = 0; j < TN; ++j) sums[i][j] += a[d] * b[d][j];
        }
    }
}

// Adds the sums of a warp's lanes that stand along k, APART and less from each other. Two lanes exchange halves of their
// sums and go on with one half each, so that at the end a lane has KEPT of them, for all. Where they cannot be halved both
// lanes have all.
template <int APART, int COUNT>
__device__ __forceinline__ void add_lanes(float* sums) {
    if constexpr (APART >= THREADS_N) {
        constexpr bool HALVES = COUNT % 2 == 0;
        constexpr int LEFT = HALVES ? COUNT / 2 : COUNT;
        const bool upper = HALVES && threadIdx.x & APART;
#pragma unroll
        for (int i = 0; i < LEFT; ++i) {
            const float mine = upper ? sums[i + COUNT - LEFT] : sums[i];
            const float theirs = upper ? sums[i] : sums[i + COUNT - LEFT];
            sums[i] = mine + __shfl_xor_sync(0xffffffff, theirs, APART);
        }
        add_lanes<APART / 2, LEFT>(sums);
    }
}

// Which of a thread's sums the first is that a lane keeps, or -1 where it has the same ones as another lane.
__device__ __forceinline__ int first_kept(int lane) {
    int first = 0, count = TM * TN;
#pragma unroll
    for (int apart = 16; apart >= THREADS_N; apart /= 2) {
        const bool upper = lane & apart;
        if (count % 2 == 0) {
            count /= 2;
            if (upper) first += count;
        } else if (upper) {
            return -1;
        }
    }
    return first;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    skinny(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
           int ldc, float* workspace, unsigned* tickets) {
    __shared__ float gathered[ROUND][THREADS];
    __shared__ bool last;

    const int tiles_m = (M + TM - 1) / TM;
    const int tiles = tiles_m * ((N + BN - 1) / BN);
    const int tile = blockIdx.x % tiles;
    const int split = blockIdx.x / tiles;
    const int tile_row = tile % tiles_m * TM;
    const int tile_col = tile / tiles_m * BN;
    // Of the blocks that there are for the tile, as many as give each of their groups a step.
    const int steps = (K + STEP - 1) / STEP;
    const int splits = max(min(static_cast<int>(gridDim.x) / tiles, (steps + GROUPS - 1) / GROUPS), 1);
    if (split >= splits) return;

    // This group's range of steps. With edges the last step of all is taken apart: only it may reach past k, and only in
    // its last row is there nothing behind column n that could be read.
    const int thread = threadIdx.x % GROUP;
    const int group = split * GROUPS + threadIdx.x / GROUP;
    const int share = steps / (splits * GROUPS);
    const int more = steps - share * (splits * GROUPS);  // groups that take a step more
    const int first = group * share + min(group, more);
    const int end = first + share + (group < more);
    const bool ends = EDGES && first < end && end == steps;

    float sums[TM][TN] = {};
    const int col = tile_col + thread % THREADS_N * WIDE;
    const int k = first * STEP + thread / THREADS_N * RUN;
    const float* a = at(A, lda, tile_row, k);
    const float* b = at(B, ldb, k, EDGES ? min(col, (N - 1) & -WIDE) : col);
    wait_for_grid_before();
    multiply(sums, a, lda, b, ldb, end - first - ends, M - tile_row, N - col);
    if (ends) {
        const int deep = K - (steps - 1) * STEP - thread / THREADS_N * RUN;
        multiply_last(sums, a, lda, b, ldb, M - tile_row, deep, N - col);
    }
    add_lanes<16, TM * TN>(&sums[0][0]);

    // A sum's place among those of a group: `thread` of the group has it, as the i-th that it keeps.
    const auto finish = [&](int place, float sum) {
        const int keeper = place % GROUP;
        const int kept = first_kept(keeper % 32);
        if (kept < 0) return;
        const int index = kept + place / GROUP;
        const int column = keeper % THREADS_N * WIDE + column_of(index % TN);
        store(C, ldc, M, N, tile_row + index / TN, tile_col + column, alpha, sum, beta);
    };
    float* part = workspace + static_cast<long long>(blockIdx.x) * PART;
#pragma unroll
    for (int top = 0; top < KEPT; top += ROUND) {
        if (top > 0) __syncthreads();  // the round before has been read
#pragma unroll
        for (int i = 0; i < ROUND && top + i < KEPT; ++i) gathered[i][threadIdx.x] = (&sums[0][0])[top + i];
        __syncthreads();
#pragma unroll 1
        for (int place = threadIdx.x; place < min(ROUND, KEPT - top) * GROUP; place += THREADS) {
            float sum = 0.0f;
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) sum += gathered[place / GROUP][g * GROUP + place % GROUP];
            if (splits > 1) {
                part[top * GROUP + place] = sum;
            } else {
                finish(top * GROUP + place, sum);
            }
        }
    }
    if (splits == 1) return;

    // Each block leaves its part, and the one that comes last adds them up.
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicInc(&tickets[tile], splits - 1) == splits - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    float totals[EACH] = {};
    const int adder = ADDERS > 1 ? threadIdx.x / PART : 0;
    const float* parts = workspace + static_cast<long long>(tile) * PART + (threadIdx.x - adder * PART);
    for (int first_part = adder; adder < ADDERS && first_part < splits; first_part += UNDER_WAY * ADDERS) {
#pragma unroll
        for (int u = 0; u < UNDER_WAY; ++u) {
            const int s = first_part + u * ADDERS;
            const float* theirs = parts + static_cast<long long>(s) * tiles * PART;
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                const bool mine = ADDERS > 1 || threadIdx.x + i * THREADS < PART;
                totals[i] += s < splits && mine ? theirs[i * THREADS] : 0.0f;
            }
        }
    }
    if (ADDERS > 1) {
        gathered[0][threadIdx.x] = totals[0];
        __syncthreads();
        if (adder > 0) return;
#pragma unroll
        for (int other = 1; other < ADDERS; ++other) totals[0] += gathered[0][other * PART + threadIdx.x];
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int place = threadIdx.x + i * THREADS;
        if (place < PART) finish(place, totals[i]);
    }
}
