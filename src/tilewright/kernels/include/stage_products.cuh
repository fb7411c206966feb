// The products of one step along k: of the tiles in a stage, onto sums in registers.
//
// A factor of float32 is the sum of TERMS matrices of 16-bit elements, each of which has the bits that those before it leave:
// x = x0 + x1 + x2. Products of terms whose numbers add up to less than TERMS are made, the least first:
//
//     TERMS = 3     a0 b2   a1 b1   a2 b0  |  a0 b1   a1 b0  |  a0 b0
//     size of a b   2^-16                  |  2^-8           |  1
//
// Tensor cores cut off what does not fit into a sum, so that errors of long sums all point one way. Where PROMOTE is not 0 they
// begin anew with every step, and threads add what they made to sums that round: first all products but the largest, then
// these, every PROMOTE of k. Where SCALED is 1 or FACTOR_SCALES 2, they multiply it by the scales of this step on the way.
#pragma once

#include <wgmma.cuh>

#include "elements.cuh"
#include "factor_scales.cuh"
#include "term_scales.cuh"

// Steps whose products may still be under way when `multiply_stage` returns.
constexpr int STEPS_UNDER_WAY = PROMOTE == 0 ? 1 : 0;

// Instructions along k from one promotion to the next.
constexpr int APART = PROMOTE == 0 ? 1 : PROMOTE * static_cast<int>(sizeof(FACTOR)) / STEP_BYTES;

// The scales that a consumer's products are multiplied by, step after step, from `step` of `steps` on: those of terms, or of float8
// factors by blocks. Of PARTS times 64 rows from element (row, col) of matrix `matrix` on.
template <int PARTS, typename Operand>
__device__ __forceinline__ auto step_scales(const Operand& a, const Operand& b, const Scales& of_factors, const Sizes& sizes,
                                            int matrix, int steps, int step, int row, int col) {
    if constexpr (FACTOR_SCALES == 2) {
        return BlockScales<PARTS>(of_factors, sizes.m, sizes.n, row, col, step);
    } else {
        return TermScales{scale_at(a.scales, matrix * sizes.step_a, steps, step, sizes.m, row),
                          scale_at(b.scales, matrix * sizes.step_b, steps, step, sizes.n, col)};
    }
}

// sums[i] += the product of 64 rows of `stage.A`, those from first + 64 * i on, and of `stage.B` (stage_tiles.cuh).
// scales: of this step, `step_scales`.
template <typename Stage, int PARTS, int COUNT, typename StepScales>
__device__ __forceinline__ void multiply_stage(const Stage& stage, int first, float (&sums)[PARTS][COUNT],
                                               const StepScales& scales) {
    constexpr Major A = Stage::MAJOR_A, B = Stage::MAJOR_B;
    constexpr int STEPS = LINE_BYTES / STEP_BYTES;
    if constexpr (PROMOTE == 0) {
        fence_sums(sums);
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            const MatrixDescriptor b = stage.B[0].at(0, k);
#pragma unroll
            for (int i = 0; i < PARTS; ++i) multiply_async<A, B, FACTOR, FACTOR_B>(sums[i], stage.A[0].at(first + 64 * i, k), b);
        }
        commit_products();
        wait_products<STEPS_UNDER_WAY>(sums);
    } else {
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            float made[COUNT];
            const auto scale = scales.template of_part<COUNT>(i);
            const auto start = [&](int of_a, int of_b, int k, bool adds) {
                multiply_async<A, B, FACTOR, FACTOR_B>(made, stage.A[of_a].at(first + 64 * i, k), stage.B[of_b].at(0, k), adds);
            };
            const auto promote = [&](float share) {
                commit_products();
                wait_products<0>(made);
#pragma unroll
                for (int j = 0; j < COUNT; ++j) {
                    sums[i][j] += SCALED || FACTOR_SCALES == 2 ? share * scale.of(j) * made[j] : made[j];
                }
            };
            fence_sums(made);
#pragma unroll
            for (int order = TERMS - 1; order > 0; --order) {
#pragma unroll
                for (int term = 0; term <= order; ++term) {
#pragma unroll
                    for (int k = 0; k < STEPS; ++k) start(term, order - term, k, order < TERMS - 1 || term > 0 || k > 0);
                }
            }
            if constexpr (TERMS > 1) promote(1 / TERM_STEP);
#pragma unroll
            for (int k = 0; k < STEPS; ++k) {
                if (k % APART == 0) fence_sums(made);
                start(0, 0, k, k % APART != 0);
                if ((k + 1) % APART == 0) promote(1);
            }
        }
    }
}
