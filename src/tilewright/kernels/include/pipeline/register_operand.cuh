// A factor of floats or of 8 bits that lies across k, of which wgmma takes no descriptor: a warpgroup's threads load A to registers.
//
// Which row of A's tile is which row of wgmma is free where the result agrees on it. Here rows r and r + 8 of a warp are neighbours
// in memory, so a thread loads both at once, and stores both at once where they are columns of D (epilogue/swap_ab.cuh).
//
// Of floats lanes 0-15 and then 16-31 load at the same time: at each of 4 k, whose pieces of 16 bytes are exchanged
// (swizzled_tile.cuh), two pieces that are 4 apart, which are all 8 pieces of a line then:
//
//     lane             0-3     4-7     8-11    12-15   16-19   20-23   24-27   28-31      k: lane % 4, and 4 further
//     rows, warp 0     0 1     2 3     16 17   18 19   4 5     6 7     20 21   22 23
//           warp 1     8 9     10 11   24 25   26 27   12 13   14 15   28 29   30 31      warps 2 and 3: 32 further
//
// Of 8 bits a warp's 16 rows are one piece of each line, and ldmatrix hands lanes the bytes of two rows at two k. It reads eight lines
// at a time, whose pieces are all on different banks, as these lines are different modulo 8, whether a line has 128 bytes or 64; lanes
// 2 and 3 of a quad get the later half of their k first:
//
//     lines of k   0 1 4 5 10 11 14 15 | 2 3 6 7 8 9 12 13 | the same, 16 further
//     lane % 4     0   1   2     3     | 0   1   2   3     |
//
//     tensor cores   | step 3 of the stage before  | step 0   | step 1   | step 2   | ...
//     threads        | load step 0, start | load 1, start | load 2, start | load 3 once step 3 of the stage before is done, ...
//
// Where sums begin anew with every stage, of 64 rows (a part) after the other:
//
//     tensor cores             | all steps of part 0 |                                     | all of part 1 | ...
//     threads         | load 0 | wait                | load 1, add what was made of part 0 | wait          | ...
//
// TF32: wgmma looks at the first 19 bits of an element and cuts off the rest, which errs more than rounding to nearest, always
// toward zero; so the tensor maps have the element type that the copy engine rounds as it loads (`TensorLayout.rounds`).
// Triton's tests have it round to nearest, ties to even, and leave infinity and NaN as they are. Subnormals up to 2^-137 become
// 0. Sums stay in the tensor cores over all of k: on inputs of one sign they drift toward zero. gemm_tf32, gemm_tf32_nn and
// gemm_tf32_tt add up in the same order, so batch-invariant products may use any.
//
// Registers of a step of A are loaded when that step of the stage before is done, while three products are in flight: a thread
// needs 16 registers for each 64 rows of wgmma. The loads have a predicate that is always true, unknown to ptxas, so that it
// gives these registers to nothing else before; a test reads the machine code.
//
// Parameters of gemm_tf32_nn are those of D^T = B^T A^T: BM counts columns of D, and CLUSTER_M blocks next to each other. In
// order TN, gemm_tf32_nn has A copied alone, gemm_tf32_tt B alone. `relayout` does not round, so a cached copy has all bits.
#pragma once

#include "pipeline/stage_products.cuh"
#include "pipeline/stage_tiles.cuh"

// PARTS times 64 rows of A. Nothing where wgmma reads A from shared memory.
template <int PARTS, bool EXISTS = A_IN_REGISTERS>
struct RegisterOperand {
    static constexpr int STEPS = LINE_BYTES / STEP_BYTES;
    static constexpr int STEP_LINES = STEP_BYTES / sizeof(FACTOR);  // k of an instruction
    static constexpr bool BYTES = sizeof(FACTOR) == 1;
    static constexpr int STRIDE = 1;  // from a thread's first row of 64 to its second
    const int exists;                                     // a number that is not 0, as the compiler does not see
    unsigned elements[STEPS][PROMOTE == 0 ? PARTS : 1][4];  // where sums are promoted, of one part after the other

    // Which row of 64 is the first of a thread's two.
    static __device__ __forceinline__ int row() {
        const int thread = threadIdx.x % 128;
        return BYTES ? thread / 32 * 16 + thread % 32 / 4 * 2 : thread / 64 * 32 + piece() * 4 + thread / 4 % 2 * 2;
    }

    // Loads what an instruction takes of 64 rows, from row `first` of the tile on.
    template <typename Tile>
    __device__ __forceinline__ void load(const Tile& tile, int first, int step, int part) {
        unsigned(&to)[4] = elements[step][part];
        const unsigned char* const lines =
            tile.lines + first / Tile::WIDTH * Tile::BLOCK_BYTES + step * STEP_LINES * Tile::OWN_BYTES;
        if constexpr (BYTES) {
            const int lane = threadIdx.x % 32, pair = lane / 2 % 4, later = lane / 8 % 2 != pair / 2;
            const int k = lane / 16 * 16 + pair * 4 + later * 2 + lane % 2;
            const int at = first % Tile::WIDTH / 16 + threadIdx.x % 128 / 32;  // piece of a line
            load_factor(to, lines + swizzled<Tile::OWN_BYTES>(k, at), lane % 4 < 2 ? 0x6420u : 0x2064u, exists);
        } else {
#pragma unroll
            for (int half = 0; half < 2; ++half) {  // of its k
                const int k = threadIdx.x % 4 + half * STEP_LINES / 2;
                const unsigned at = swizzled(k, piece()) + threadIdx.x / 4 % 2 * 8 + threadIdx.x % 128 / 64 * Tile::BLOCK_BYTES;
                load_factor(to[2 * half], to[2 * half + 1], lines + at, exists);
            }
        }
    }

    // The same of all instructions of a stage, of the only part.
    template <typename Tile>
    __device__ __forceinline__ void load_all(const Tile& tile, int first) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) load(tile, first, step, 0);
    }

    // Starts the product of 64 rows of A, loaded so, and of B.
    template <int COUNT>
    __device__ __forceinline__ void multiply(Sum (&sums)[COUNT], int step, int part, MatrixDescriptor b, bool adds = true) const {
        multiply_async<TypeOfA, TypeOfB>(sums, elements[step][part], b, adds);
    }

  private:
    // Of a line of floats, that the thread reads where k is 0.
    static __device__ __forceinline__ int piece() {
        return threadIdx.x / 32 % 2 * 2 + threadIdx.x / 16 % 2 + threadIdx.x / 8 % 2 * 4;
    }
};
template <int PARTS>
struct RegisterOperand<PARTS, false> {
    static constexpr int STRIDE = 8;
    const int exists;

    static __device__ __forceinline__ int row() { return own_row<64>(); }
};

// The products of a stage that begin anew, of one part of A after the other.
template <typename Stage, int PARTS, int COUNT, typename StepScales>
__device__ __forceinline__ void multiply_parts(const Stage& stage, int first, Sum (&sums)[PARTS][COUNT], const StepScales& scales,
                                               RegisterOperand<PARTS>& a_registers) {
    Begun partial[COUNT];
    a_registers.load_all(stage.A[0], first);
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
        fence_sums(partial, a_registers.elements);
#pragma unroll
        for (int k = 0; k < RegisterOperand<PARTS>::STEPS; ++k) a_registers.multiply(partial, k, 0, stage.B[0].at(0, k), k > 0);
        commit_products();
        wait_products<0>(partial);
        if (i + 1 < PARTS) a_registers.load_all(stage.A[0], first + 64 * (i + 1));
        promote(sums[i], partial, scales.template of_part<COUNT>(i));
    }
}

// multiply_stage (stage_products.cuh), with what a thread holds of A.
template <typename Stage, int PARTS, int COUNT, typename StepScales>
__device__ __forceinline__ void multiply_stage(const Stage& stage, int first, Sum (&sums)[PARTS][COUNT], Partial<COUNT>& partial,
                                               Partial<COUNT>& partial_before, const StepScales& scales, RegisterOperand<PARTS>& a_registers) {
    if constexpr (PARTIAL_BUFFERS > 1) {
        multiply_ahead(stage, first, sums[0], partial, partial_before, scales);
    } else if constexpr (!A_IN_REGISTERS) {
        multiply_stage(stage, first, sums, scales);
    } else if constexpr (PROMOTE > 0) {
        multiply_parts(stage, first, sums, scales, a_registers);
    } else {
        constexpr int STEPS = RegisterOperand<PARTS>::STEPS;
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            wait_products<STEPS - 1>(sums);  // those of this step of the stage before have been made
#pragma unroll
            for (int i = 0; i < PARTS; ++i) a_registers.load(stage.A[0], first + 64 * i, k, i);
            fence_sums(sums, a_registers.elements[k]);
#pragma unroll
            for (int i = 0; i < PARTS; ++i) a_registers.multiply(sums[i], k, i, stage.B[0].at(0, k));
            commit_products();
        }
    }
    if (A_IN_REGISTERS) __syncwarp();  // all lanes have read A, and one of them says so
}
