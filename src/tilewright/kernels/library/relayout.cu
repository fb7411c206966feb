// Copies of A and B as another kernel wants to read them: with rows that begin at multiples of 16 bytes, A perhaps
// transposed. The kernel that wants them may start up meanwhile.
//
// C is memory for the copies, one after the other: of A (M x K, or K x M) with OF_A = 1 or 2, and of B (K x N) with
// OF_B = 1; their rows are as long as they have to be, up to a multiple of four. alpha, beta and ldc are not used.
// A block moves a square, to be transposed through shared memory: neighbouring threads read and write neighbours,
// float4s where all rows are aligned.

#include <dependent_launch.cuh>

#include "epilogue.cuh"

constexpr int WIDTH = ALIGNED ? 4 : 1;  // elements that move together
constexpr int ROW = SIDE / WIDTH;
constexpr int TIMES = SIDE * ROW / THREADS;

// Moves one square of the matrix X (rows x cols) to its copy, or to that of its transpose.
template <bool TRANSPOSED>
__device__ __forceinline__ void move_square(const float* X, int ld, int rows, int cols, int number, float* copy) {
    __shared__ float square[TRANSPOSED ? SIDE : 1][SIDE + 1];  // a column more: a column's elements on distinct banks
    const int along = (cols + SIDE - 1) / SIDE;
    const int first_row = number / along * SIDE;
    const int first_col = number % along * SIDE;
    const int copy_rows = TRANSPOSED ? cols : rows;
    const int copy_cols = TRANSPOSED ? rows : cols;
    const int copy_ld = (copy_cols + 3) / 4 * 4;
    float moved[TIMES][WIDTH];
#pragma unroll
    for (int i = 0; i < TIMES; ++i) {
        const int row = first_row + (i * THREADS + threadIdx.x) / ROW;
        const int col = first_col + (i * THREADS + threadIdx.x) % ROW * WIDTH;
        if constexpr (WIDTH == 4) {
            const float4 four = load4(X, ld, rows, cols, row, col);
            moved[i][0] = four.x;
            moved[i][1] = four.y;
            moved[i][2] = four.z;
            moved[i][3] = four.w;
        } else {
            moved[i][0] = load(X, ld, rows, cols, row, col);
        }
    }
    if (TRANSPOSED) {
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            const int y = (i * THREADS + threadIdx.x) / ROW;
            const int x = (i * THREADS + threadIdx.x) % ROW * WIDTH;
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) square[x + j][y] = moved[i][j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TIMES; ++i) {
        const int y = (i * THREADS + threadIdx.x) / ROW;
        const int x = (i * THREADS + threadIdx.x) % ROW * WIDTH;
        const float* from = TRANSPOSED ? &square[y][x] : moved[i];
        const int row = (TRANSPOSED ? first_col : first_row) + y;
        const int col = (TRANSPOSED ? first_row : first_col) + x;
        if constexpr (WIDTH == 4) {
            store4(copy, copy_ld, copy_rows, copy_cols, row, col, 1.0f, from, 0.0f);
        } else {
            store(copy, copy_ld, copy_rows, copy_cols, row, col, 1.0f, *from, 0.0f);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    relayout(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
         int ldc) {
    wait_for_grid_before();
    let_grid_after_start();  // it starts when the last block here has, so it takes no place from one
    const int squares_of_a = OF_A ? (M + SIDE - 1) / SIDE * ((K + SIDE - 1) / SIDE) : 0;
    const long long floats_of_a = OF_A == 0   ? 0
                                  : OF_A == 1 ? static_cast<long long>(M) * ((K + 3) / 4 * 4)
                                              : static_cast<long long>(K) * ((M + 3) / 4 * 4);
    const int number = blockIdx.x;
    if (OF_A && number < squares_of_a) {
        move_square<OF_A == 2>(A, lda, M, K, number, C);
    } else if (OF_B) {
        move_square<false>(B, ldb, K, N, number - squares_of_a, C + floats_of_a);
    }
}
