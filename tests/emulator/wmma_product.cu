// Fragments of one type. ELEMENT, STORED and DEPTH are macros: the element type, how it is stored, a fragment's reach along k.

#include <ptx/wmma.cuh>

using Sums = wmma::fragment<wmma::accumulator, 16, 16, DEPTH, float>;
template <typename Layout>
using Left = wmma::fragment<wmma::matrix_a, 16, 16, DEPTH, ELEMENT, Layout>;
template <typename Layout>
using Right = wmma::fragment<wmma::matrix_b, 16, 16, DEPTH, ELEMENT, Layout>;

// D = A * B + C on one 16 x 16 tile.
template <typename LayoutA, typename LayoutB>
__device__ void multiply(const STORED* a, int lda, const STORED* b, int ldb, const float* c, float* d, int ldc,
                         wmma::layout_t layout) {
    Left<LayoutA> left;
    Right<LayoutB> right;
    Sums sums;
    wmma::load_matrix_sync(left, a, lda);
    wmma::load_matrix_sync(right, b, ldb);
    wmma::load_matrix_sync(sums, c, ldc, layout);
    wmma::mma_sync(sums, left, right, sums);
    wmma::store_matrix_sync(d, sums, ldc, layout);
}

// The matrices of warp w begin w * 16 rows (or columns, where they lie by columns) after those of warp 0.
extern "C" __global__ void product(const STORED* a, int lda, int a_by_columns, const STORED* b, int ldb, int b_by_columns,
                                   const float* c, float* d, int ldc, int c_by_columns) {
    const int first = threadIdx.x / 32 * 16;
    a += first * lda;
    b += first * ldb;
    c += first * ldc;
    d += first * ldc;
    const auto layout = c_by_columns ? wmma::mem_col_major : wmma::mem_row_major;
    if (a_by_columns && b_by_columns) {
        multiply<wmma::col_major, wmma::col_major>(a, lda, b, ldb, c, d, ldc, layout);
    } else if (a_by_columns) {
        multiply<wmma::col_major, wmma::row_major>(a, lda, b, ldb, c, d, ldc, layout);
    } else if (b_by_columns) {
        multiply<wmma::row_major, wmma::col_major>(a, lda, b, ldb, c, d, ldc, layout);
    } else {
        multiply<wmma::row_major, wmma::row_major>(a, lda, b, ldb, c, d, ldc, layout);
    }
}

// Every element of a tile of A is doubled in its fragment; D = 2 * A * B + 3.
extern "C" __global__ void doubled(const STORED* a, int lda, const STORED* b, int ldb, float* d, int ldd) {
    Left<wmma::row_major> left;
    Right<wmma::row_major> right;
    Sums sums;
    wmma::load_matrix_sync(left, a, lda);
    wmma::load_matrix_sync(right, b, ldb);
    for (int i = 0; i < left.num_elements; ++i) left.x[i] = STORED(2 * float(left.x[i]));
    wmma::fill_fragment(sums, 3.0f);
    wmma::mma_sync(sums, left, right, sums);
    wmma::store_matrix_sync(d, sums, ldd, wmma::mem_row_major);
}

#if DEPTH == 8
extern "C" __global__ void rounded(const float* in, float* out, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = wmma::__float_to_tf32(in[i]);
}
#endif
