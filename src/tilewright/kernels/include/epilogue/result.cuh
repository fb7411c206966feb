// One matrix of the result, and the way of sums into it: scaled, C and the bias added, activated, converted, stored.
//
// All is computed in float32, of int32 results in int32, which wraps; there is one conversion, at the end. Each operation rounds: the
// compiler makes no FMA of a product and an addition in one form of a kernel and not in another, so all forms make the same bits of a
// sum.
#pragma once

#include "epilogue/activations.cuh"
#include "epilogue/biases.cuh"
#include "operands.cuh"
#include "ptx/prefetch.cuh"
#include "tile_io.cuh"

__device__ __forceinline__ float multiplied(float x, float y) { return __fmul_rn(x, y); }
__device__ __forceinline__ float added(float x, float y) { return __fadd_rn(x, y); }
__device__ __forceinline__ float multiplied_and_added(float x, float y, float z) { return fmaf(x, y, z); }
__device__ __forceinline__ int multiplied(int x, int y) { return static_cast<unsigned>(x) * static_cast<unsigned>(y); }
__device__ __forceinline__ int added(int x, int y) { return static_cast<unsigned>(x) + static_cast<unsigned>(y); }
__device__ __forceinline__ int multiplied_and_added(int x, int y, int z) { return added(multiplied(x, y), z); }

// The bias of every matrix of the result: 0 for rows where it has values of columns, and for columns where it has none.
template <typename T>
struct Bias {
    const T* values;
    int m, n;

    __device__ __forceinline__ Bias(const Output<T>& output, const Sizes& sizes)
        : values(output.bias), m(sizes.m), n(sizes.n) {}

    __device__ __forceinline__ Number<T> of_row(int row) const {
        return BIAS::OF_ROWS && (!EDGES || row < m) ? to_number(values[row]) : Number<T>{};
    }
    __device__ __forceinline__ Number<T> of_column(int col) const {
        return BIAS::OF_COLUMNS && (!EDGES || col < n) ? to_number(values[col]) : Number<T>{};
    }
    // Values of 16 bits as they are, those of two columns in a word; 0 for columns that the result does not have.
    __device__ __forceinline__ unsigned of_two_columns(int col) const {
        unsigned word = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (BIAS::OF_COLUMNS && col + i < n) reinterpret_cast<T*>(&word)[i] = values[col + i];
        }
        return word;
    }
};

// Starts to load what the bias has for a ROWS x COLS tile at (row, col) into the L2 cache. Called by a whole block.
template <int ROWS, int COLS, typename T>
__device__ __forceinline__ void prefetch_bias(const Output<T>& output, const Sizes& sizes, int row, int col) {
    constexpr int SECTOR = 32 / sizeof(T);  // elements that come together
    constexpr unsigned COUNT = BIAS::OF_ROWS ? ROWS : BIAS::OF_COLUMNS ? COLS : 0;
    const unsigned own = threadIdx.x * SECTOR;
    const int at = (BIAS::OF_ROWS ? row : col) + own;
    if (own < COUNT && (!EDGES || at < (BIAS::OF_ROWS ? sizes.m : sizes.n))) prefetch_to_l2(output.bias + at);
}

template <typename T>
struct Result {
    T* D;
    const T* C;
    Bias<T> bias;
    int m, n, ldd, ldc;
    Number<T> alpha, beta;

    // Matrix i of the batch.
    __device__ __forceinline__ Result(const Output<T>& output, const Sizes& sizes, int i)
        : D(output.D + i * output.batch_stride_d),
          C(output.C + i * output.batch_stride_c),
          bias(output, sizes),
          m(sizes.m),
          n(sizes.n),
          ldd(output.ldd),
          ldc(output.ldc),
          alpha(static_cast<Number<T>>(output.alpha)),
          beta(static_cast<Number<T>>(output.beta)) {}

    // alpha times a sum.
    __device__ __forceinline__ Number<T> scale(Number<T> sum) const { return multiplied(alpha, sum); }

    // Stores element (row, col), given alpha times its sum.
    __device__ __forceinline__ void store_scaled(int row, int col, Number<T> scaled, Number<T> of_row, Number<T> of_column) const {
        if (EDGES && (row >= m || col >= n)) return;
        if (beta != 0.0f) scaled = add_c(scaled, to_number(*at(C, ldc, row, col)));
        *at(D, ldd, row, col) = from_number<T>(finish(scaled, of_row, of_column));
    }

    // Stores element (row, col), given its sum.
    __device__ __forceinline__ void store(int row, int col, Number<T> sum) const {
        store_scaled(row, col, scale(sum), bias.of_row(row), bias.of_column(col));
    }

    // Element (row, col), given its sum; any value outside of the matrix. ADDS_C: whether beta may be other than 0.
    template <bool ADDS_C = true>
    __device__ __forceinline__ Number<T> element(Number<T> sum, int row, int col, Number<T> of_row, Number<T> of_column) const {
        Number<T> x = scale(sum);
        if (ADDS_C && beta != 0.0f && (!EDGES || (row < m && col < n))) x = add_c(x, to_number(*at(C, ldc, row, col)));
        return finish(x, of_row, of_column);
    }

    // Makes two sums the elements (row, col) and (row, col + 1); col is even. What lies outside of the matrix gets any value.
    // ADDS_C: whether beta may be other than 0.
    template <bool ADDS_C = true>
    __device__ __forceinline__ void finish_pair(Number<T> (&pair)[2], int row, int col, Number<T> of_row,
                                                const Number<T>* of_columns) const {
        pair[0] = scale(pair[0]);
        pair[1] = scale(pair[1]);
        if (ADDS_C && beta != 0.0f && (!EDGES || row < m)) {
            Number<T> old[2] = {};
            const T* const c = at(C, ldc, row, col);
            if (ALIGNED && (!EDGES || col + 2 <= n)) {
                load_run<2>(old, c);
            } else {
                if (!EDGES || col < n) old[0] = to_number(c[0]);
                if (!EDGES || col + 1 < n) old[1] = to_number(c[1]);
            }
            pair[0] = add_c(pair[0], old[0]);
            pair[1] = add_c(pair[1], old[1]);
        }
        pair[0] = finish(pair[0], of_row, of_columns[0]);
        pair[1] = finish(pair[1], of_row, of_columns[1]);
    }

    // Stores elements (row, col) and (row, col + 1), given their sums; col is even.
    __device__ __forceinline__ void store_pair(int row, int col, const Number<T>* sums, Number<T> of_row,
                                               const Number<T>* of_columns) const {
        if (EDGES && row >= m) return;
        Number<T> pair[] = {sums[0], sums[1]};
        finish_pair(pair, row, col, of_row, of_columns);
        T* const d = at(D, ldd, row, col);
        if (ALIGNED && (!EDGES || col + 2 <= n)) {
            store_run<2>(d, pair);
        } else {
            if (!EDGES || col < n) d[0] = from_number<T>(pair[0]);
            if (!EDGES || col + 1 < n) d[1] = from_number<T>(pair[1]);
        }
    }

    // Stores elements (row, col) to (row, col + 3), given their sums; col is a multiple of 4.
    __device__ __forceinline__ void store_quad(int row, int col, const Number<T>* sums, Number<T> of_row,
                                               const Number<T>* of_columns) const {
        if (EDGES && row >= m) return;
        T* const d = at(D, ldd, row, col);
        const T* const c = at(C, ldc, row, col);
        if (ALIGNED && (!EDGES || col + 4 <= n)) {
            Number<T> quad[] = {scale(sums[0]), scale(sums[1]), scale(sums[2]), scale(sums[3])};
            if (beta != 0.0f) {
                Number<T> old[4];
                load_run<4>(old, c);
#pragma unroll
                for (int i = 0; i < 4; ++i) quad[i] = add_c(quad[i], old[i]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) quad[i] = finish(quad[i], of_row, of_columns[i]);
            store_run<4>(d, quad);
        } else {
            // One check of the row for four elements: with one each, the compiler gathers all old values first, and spills.
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (EDGES && col + i >= n) continue;
                const Number<T> sum = beta == 0.0f ? scale(sums[i]) : add_c(scale(sums[i]), to_number(c[i]));
                d[i] = from_number<T>(finish(sum, of_row, of_columns[i]));
            }
        }
    }

    __device__ __forceinline__ void store_quad(int row, int col, const Number<T>* sums) const {
        Number<T> of_columns[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) of_columns[i] = bias.of_column(col + i);
        store_quad(row, col, sums, bias.of_row(row), of_columns);
    }

  private:
    __device__ __forceinline__ Number<T> add_c(Number<T> scaled, Number<T> c) const { return multiplied_and_added(beta, c, scaled); }

    static __device__ __forceinline__ Number<T> finish(Number<T> x, Number<T> of_row, Number<T> of_column) {
        if (BIAS::OF_ROWS) x = added(x, of_row);
        if (BIAS::OF_COLUMNS) x = added(x, of_column);
        if constexpr (IS_INTEGER<T>) {
            return x;  // such results have no activation
        } else {
            return ACTIVATION::template of<T>(x);
        }
    }
};
