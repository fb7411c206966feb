// The products of one step along k: of the tiles in a stage, onto sums in registers; of integers onto int32, exactly.
//
// A factor of float32 is the sum of SPLIT_PARTS matrices of 16-bit elements, each of which has the bits that those before it leave:
// x = x0 + x1 + x2. Products of parts whose numbers add up to less than SPLIT_PARTS are made, the least first:
//
//     SPLIT_PARTS = 3     a0 b2   a1 b1   a2 b0  |  a0 b1   a1 b0  |  a0 b0
//     size of a b   2^-16                  |  2^-8           |  1
//
// Tensor cores cut off what does not fit into a sum, so that errors of long sums all point one way. Where PROMOTE is not 0 they
// begin anew with every step, and threads add what they made to sums that round: first all products but the largest, then
// these. Where SCALED is 1 or FACTOR_SCALES 2, they multiply it by the scales of this step on the way.
//
// PARTIAL_BUFFERS 2: registers hold partial sums of tensor cores twice (of factors of one part in shared memory, 64 rows a warpgroup):
//
//     tensor cores   | step 0: partial[0] | step 1: partial[1] | step 2: partial[0] | ...
//     threads                          | add partial[0]     | add partial[1]     | ...
//
// Errors, on the emulator, which adds as tensor cores do:
//
//     gemm_bf16x6    an element's within 1.5 times that of sums in float32; the Frobenius error no larger from k = 64 on,
//                    except where one product is most of an element, which float32 rounds and tensor cores truncate. Exact
//                    where these are: identity, permutations, powers of two, integers up to 2^24.
//     gemm_fp16x3    within 2^-21 of |A| @ |B| (parts of each operand leave 2^-23 of it, the product that is not made 2^-22)
//                    and a rounding of 2^-24, or within 1.1 times float32's where that is more. Where k is 33 to 127, sums of
//                    one sign, which tensor cores cut off with every 16 of k and which are promoted once or twice, within
//                    2^-20. Elements 2^28 below the largest of their 64 x 64 lose bits; where that matters the product is
//                    computed in float32.
//     gemm_bf16x3    about 2^-16 of |A| @ |B|.
//
// Sums begin again with every step, 64 of k, and threads add them up, the smaller products first. More often is slower, and
// less exact where k is large, since each addition by threads rounds.
//
// Tests: tests/kernels/test_split_products.py has inputs of many kinds, test_out_of_range.py values that the parts
// cannot represent.
#pragma once

#include "elements.cuh"
#include "float32_parts/part_scales.cuh"
#include "pipeline/factor_scales.cuh"
#include "ptx/wgmma.cuh"

// Elements of what is multiplied: with SWAP_AB, A is the transpose of a problem's B.
using TypeOfA = decltype(either<SWAP_AB>(FACTOR_B(), FACTOR()));
using TypeOfB = decltype(either<SWAP_AB>(FACTOR(), FACTOR_B()));

// Steps whose products may still be in flight when `multiply_stage` returns.
constexpr int STEPS_IN_FLIGHT = PROMOTE == 0 || PARTIAL_BUFFERS > 1 ? 1 : 0;

// The scales that a consumer's products are multiplied by, step after step, from `step` of `steps` on: those of parts, or of float8
// factors by blocks. Of PARTS times 64 rows from element (row, col) of matrix `matrix` on.
template <int PARTS, typename Operand>
__device__ __forceinline__ auto step_scales(const Operand& a, const Operand& b, const Scales& of_factors, const Sizes& sizes,
                                            int matrix, int steps, int step, int row, int col) {
    if constexpr (FACTOR_SCALES == 2) {
        return BlockScales<PARTS>::template begin<(PARTIAL_BUFFERS > 1)>(of_factors, sizes.m, sizes.n, row, col, step, steps);
    } else {
        return PartScales{scale_at(a.scales, matrix * sizes.step_a, steps, step, sizes.m, row),
                          scale_at(b.scales, matrix * sizes.step_b, steps, step, sizes.n, col)};
    }
}

// sums += what tensor cores have made of a step, all of whose products have been waited for, times its scales; rounded once.
template <int COUNT, typename Scale>
__device__ __forceinline__ void promote(Sum (&sums)[COUNT], const Begun (&partial)[COUNT], const Scale& scale, float share = 1) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        sums[i] = SCALED || FACTOR_SCALES == 2 ? fmaf(share * scale.of(i), partial[i], sums[i]) : sums[i] + partial[i];
    }
}

// sums[i] += the product of 64 rows of `stage.A`, those from first + 64 * i on, and of `stage.B` (stage_tiles.cuh).
// scales: of this step, `step_scales`.
template <typename Stage, int PARTS, int COUNT, typename StepScales>
__device__ __forceinline__ void multiply_stage(const Stage& stage, int first, Sum (&sums)[PARTS][COUNT],
                                               const StepScales& scales) {
    constexpr Major A = Stage::MAJOR_A, B = Stage::MAJOR_B;
    constexpr int STEPS = LINE_BYTES / STEP_BYTES;
    if constexpr (PROMOTE == 0) {
        fence_sums(sums);
#pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            const MatrixDescriptor b = stage.B[0].at(0, k);
#pragma unroll
            for (int i = 0; i < PARTS; ++i) multiply_async<A, B, TypeOfA, TypeOfB>(sums[i], stage.A[0].at(first + 64 * i, k), b);
        }
        commit_products();
        wait_products<STEPS_IN_FLIGHT>(sums);
    } else {
#pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            Begun partial[COUNT];
            const auto scale = scales.template of_part<COUNT>(i);
            const auto start = [&](int of_a, int of_b, int k, bool adds) {
                multiply_async<A, B, TypeOfA, TypeOfB>(partial, stage.A[of_a].at(first + 64 * i, k), stage.B[of_b].at(0, k), adds);
            };
            const auto add = [&](float share) {
                commit_products();
                wait_products<0>(partial);
                promote(sums[i], partial, scale, share);
            };
            fence_sums(partial);
#pragma unroll
            for (int order = SPLIT_PARTS - 1; order > 0; --order) {
#pragma unroll
                for (int part = 0; part <= order; ++part) {
#pragma unroll
                    for (int k = 0; k < STEPS; ++k) start(part, order - part, k, order < SPLIT_PARTS - 1 || part > 0 || k > 0);
                }
            }
            if constexpr (SPLIT_PARTS > 1) {
                add(1 / PART_STEP);
                fence_sums(partial);
            }
#pragma unroll
            for (int k = 0; k < STEPS; ++k) start(0, 0, k, k > 0);
            add(1);
        }
    }
}

// Partial sums of one step, where PARTIAL_BUFFERS is 2.
template <int COUNT>
using Partial = Begun[PARTIAL_BUFFERS > 1 ? COUNT : 1];

// sums += what was made of the step before, while the product of 64 rows of `stage.A`, from `first` on, and of `stage.B` is made.
// scales: of the step before.
template <typename Stage, int COUNT, typename StepScales>
__device__ __forceinline__ void multiply_ahead(const Stage& stage, int first, Sum (&sums)[COUNT], Begun (&partial)[COUNT],
                                               Begun (&partial_before)[COUNT], const StepScales& scales) {
    fence_sums(partial);
#pragma unroll
    for (int k = 0; k < LINE_BYTES / STEP_BYTES; ++k) {
        multiply_async<Stage::MAJOR_A, Stage::MAJOR_B, TypeOfA, TypeOfB>(partial, stage.A[0].at(first, k), stage.B[0].at(0, k), k > 0);
    }
    commit_products();
    wait_products<1>(partial_before);
    promote(sums, partial_before, scales.template of_part<COUNT>(0));
    pin(sums);  // nothing is added later, when tensor cores have these registers again
}

// Ends with the last step.
template <int PARTS, int COUNT, typename StepScales>
__device__ __forceinline__ void finish_products(Sum (&sums)[PARTS][COUNT], Partial<COUNT>& partial, const StepScales& scales) {
    if constexpr (PARTIAL_BUFFERS > 1) {
        wait_products<0>(partial);
        promote(sums[0], partial, scales.template of_part<COUNT>(0));
    } else {
        wait_products<0>(sums);
    }
}

// Calls multiply(step, partial, partial of the step before) for each of some steps, and finish(partial of the last). ptxas sees which
// registers are the tensor cores' if each of two is always used by name.
template <int COUNT, typename Multiply, typename Finish>
__device__ __forceinline__ void multiply_steps(int steps, const Multiply& multiply, const Finish& finish) {
    if constexpr (PARTIAL_BUFFERS == 1) {
        Partial<COUNT> none;
        for (int step = 0; step < steps; ++step) multiply(step, none, none);
        finish(none);
    } else {
        Partial<COUNT> odd = {};  // before the first step, 0
        for (int step = 1; step < steps; step += 2) {
            Partial<COUNT> even;
            multiply(step - 1, even, odd);
            multiply(step, odd, even);
        }
        if (steps % 2 == 0) return finish(odd);
        Partial<COUNT> even;
        multiply(steps - 1, even, odd);
        finish(even);
    }
}
