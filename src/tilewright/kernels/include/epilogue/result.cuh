// One matrix of the result, and the way of sums into it: scaled, C and the bias added, activated, converted, stored.
//
// All is computed in float32; there is one conversion, at the end.
#pragma once

#include "epilogue/activations.cuh"
#include "epilogue/biases.cuh"
#include "operands.cuh"
#include "tile_io.cuh"

template <typename T>
struct Result {
    T* D;
    const T* C;
    const T* bias;
    int m, n, ldd, ldc;
    float alpha, beta;

    // Matrix i of the batch.
    __device__ __forceinline__ Result(const Output<T>& output, const Sizes& sizes, int i)
        : D(output.D + i * output.batch_stride_d),
          C(output.C + i * output.batch_stride_c),
          bias(output.bias),
          m(sizes.m),
          n(sizes.n),
          ldd(output.ldd),
          ldc(output.ldc),
          alpha(output.alpha),
          beta(output.beta) {}

    // What the bias has for a row or a column; 0 where it has none for it.
    __device__ __forceinline__ float bias_of_row(int row) const {
        return BIAS::OF_ROWS && (!EDGES || row < m) ? to_float(bias[row]) : 0.0f;
    }
    __device__ __forceinline__ float bias_of_column(int col) const {
        return BIAS::OF_COLUMNS && (!EDGES || col < n) ? to_float(bias[col]) : 0.0f;
    }

    // Stores element (row, col), given alpha times its sum.
    __device__ __forceinline__ void store_scaled(int row, int col, float scaled, float of_row, float of_column) const {
        if (EDGES && (row >= m || col >= n)) return;
        if (beta != 0.0f) scaled += beta * to_float(*at(C, ldc, row, col));
        *at(D, ldd, row, col) = from_float<T>(finish(scaled, of_row, of_column));
    }

    // Stores element (row, col), given its sum.
    __device__ __forceinline__ void store(int row, int col, float sum) const {
        store_scaled(row, col, alpha * sum, bias_of_row(row), bias_of_column(col));
    }

    // Stores elements (row, col) to (row, col + 3), given their sums; col is a multiple of 4.
    __device__ __forceinline__ void store_quad(int row, int col, const float* sums, float of_row,
                                               const float* of_columns) const {
        if (EDGES && row >= m) return;
        T* const d = at(D, ldd, row, col);
        const T* const c = at(C, ldc, row, col);
        if (ALIGNED && (!EDGES || col + 4 <= n)) {
            float quad[] = {alpha * sums[0], alpha * sums[1], alpha * sums[2], alpha * sums[3]};
            if (beta != 0.0f) {
                float old[4];
                load_run<4>(old, c);
#pragma unroll
                for (int i = 0; i < 4; ++i) quad[i] += beta * old[i];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) quad[i] = finish(quad[i], of_row, of_columns[i]);
            store_run<4>(d, quad);
        } else {
            // One check of the row for four elements: with one each, the compiler gathers all old values first, and spills.
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (EDGES && col + i >= n) continue;
                const float scaled = beta == 0.0f ? alpha * sums[i] : alpha * sums[i] + beta * to_float(c[i]);
                d[i] = from_float<T>(finish(scaled, of_row, of_columns[i]));
            }
        }
    }

    __device__ __forceinline__ void store_quad(int row, int col, const float* sums) const {
        float of_columns[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) of_columns[i] = bias_of_column(col + i);
        store_quad(row, col, sums, bias_of_row(row), of_columns);
    }

  private:
    static __device__ __forceinline__ float finish(float x, float of_row, float of_column) {
        if (BIAS::OF_ROWS) x += of_row;
        if (BIAS::OF_COLUMNS) x += of_column;
        return ACTIVATION::of(x);
    }
};
