// What tensor cores make by themselves (wgmma, sm_90a): two warpgroups multiply a stage again and again, and nothing is loaded or
// stored. Macros: FACTOR, the elements' type; rows of A for each warpgroup (OWN_ROWS) and columns of B (BN); how often (REPEATS).
//
//   OF_A 0   A is in shared memory
//        1   A is in registers, loaded once
//        2   A is in registers, loaded from lines across k before each stage's products, as register_operand.cuh does
#include "ptx/dynamic_shared.cuh"
#include "ptx/float8.cuh"
#include "ptx/half.cuh"
#include "ptx/integers.cuh"

// What the headers of gemm_sm90 take as macros.
[[maybe_unused]] constexpr bool A_IN_REGISTERS = OF_A > 0, SWAP_AB = false, TRANSPOSED_A = false, TRANSPOSED_B = true;
[[maybe_unused]] constexpr int PROMOTE = 0, PARTIAL_BUFFERS = 1, SPLIT_PARTS = 1, SCALED = 0, FACTOR_SCALES = 0, EDGES = 0;
using FACTOR_B = FACTOR;

#include "pipeline/register_operand.cuh"
#include "pipeline/stage_tiles.cuh"

constexpr int THREADS = 256, SIXTY_FOURS = OWN_ROWS / 64;
using Stage = StageTiles<2 * OWN_ROWS, BN, 1, 1>;

// Multiplies a stage REPEATS times, from row `first` of A on.
template <int PARTS, int COUNT>
__device__ __forceinline__ void multiply(const Stage& stage, int first, Sum (&sums)[PARTS][COUNT], RegisterOperand<PARTS>& held) {
    constexpr int STEPS = LINE_BYTES / STEP_BYTES;
    if constexpr (OF_A == 1) {
        for (int k = 0; k < STEPS; ++k) {
            for (int i = 0; i < PARTS; ++i) held.load(stage.A[0], first + 64 * i, k, i);
        }
    }
#pragma unroll 1
    for (int time = 0; time < REPEATS; ++time) {
        if constexpr (OF_A == 1) {
            fence_sums(sums, held.elements);
#pragma unroll
            for (int k = 0; k < STEPS; ++k) {
#pragma unroll
                for (int i = 0; i < PARTS; ++i) held.multiply(sums[i], k, i, stage.B[0].at(0, k));
            }
            commit_products();
            wait_products<1>(sums);
        } else {
            Partial<COUNT> none;
            multiply_stage(stage, first, sums, none, none, PartScales{}, held);
        }
    }
    wait_products<0>(sums);
}

// from: as many bytes as a stage has. to: a number for each thread.
extern "C" __global__ void __launch_bounds__(THREADS, 1) bare_products(const uint4* from, float* to) {
    DYNAMIC_SHARED(Stage, stage);
    for (int i = threadIdx.x; i < static_cast<int>(sizeof(Stage) / sizeof(uint4)); i += THREADS) {
        reinterpret_cast<uint4*>(stage)[i] = from[i];
    }
    fence_async_shared();
    __syncthreads();

    Sum sums[SIXTY_FOURS][BN / 2] = {};
    RegisterOperand<SIXTY_FOURS> held{static_cast<int>(blockDim.x)};
    multiply(*stage, threadIdx.x / 128 * OWN_ROWS, sums, held);
    float all = 0;
    for (int i = 0; i < SIXTY_FOURS; ++i) {
        for (int j = 0; j < BN / 2; ++j) all += sums[i][j];
    }
    to[blockIdx.x * THREADS + threadIdx.x] = all;
}
