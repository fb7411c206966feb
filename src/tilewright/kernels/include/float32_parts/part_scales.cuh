// Scales of float32 factors that are split into parts of a type with a short range: a power of two for each 64 rows of A and
// each 64 columns of B, and each 64 k, by which the largest of these elements comes to lie between 2^14 and 2^15.
//
// Each matrix of a batch has its own, 64 k after 64 k, and of these a number for each 64 rows (or columns), in runs of
// `scale_run`.
#pragma once

constexpr float PART_STEP = SCALED ? 2048.0f : 1.0f;  // by which each part's elements are larger than they count
constexpr int SCALED_SIDES = 64;

// Numbers from one 64 k to the next: tiles may reach past the last row (or column), by less than 256.
__device__ __forceinline__ long long scale_run(int sides) {
    return ((sides + SCALED_SIDES - 1) / SCALED_SIDES + 256 / SCALED_SIDES + 3) / 4 * 4;
}

// Where the scale of row (or column) `side` of `sides` is, in run `run` of a matrix that has `runs`, one each 64 k.
__device__ __forceinline__ const float* scale_at(const float* scales, int matrix, int runs, int run, int sides, int side) {
    return scales + (matrix * runs + run) * scale_run(sides) + side / SCALED_SIDES;
}

// What a product is multiplied by: the inverse of what elements were. Null where SCALED is 0.
struct PartScales {
    const float *a, *b;

    // Goes on to the next 64 k of an m x n product.
    __device__ __forceinline__ void next(int m, int n) {
        a += scale_run(m);
        b += scale_run(n);
    }

    // What a thread's sums of 64 rows are multiplied by: the part's own, and of 64 columns each. Of no use where SCALED is 0.
    template <int COUNT>
    struct Part {
        float of_columns[(COUNT + 31) / 32];
        __device__ __forceinline__ float of(int sum) const { return of_columns[sum / 32]; }
    };
    template <int COUNT>
    __device__ __forceinline__ Part<COUNT> of_part(int part) const {
        Part<COUNT> found = {};
#pragma unroll
        for (int j = 0; SCALED && j < COUNT / 32; ++j) found.of_columns[j] = a[part] * b[j];
        return found;
    }
};
