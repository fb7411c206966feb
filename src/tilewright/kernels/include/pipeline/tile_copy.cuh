// Tiles of A and B on their way to shared memory by cp.async; EDGES and ALIGNED as in operands.cuh.
#pragma once

#include "ptx/async_copy.cuh"
#include "ptx/keep.cuh"
#include "tile_io.cuh"

// In shared memory a tile is DEPTH rows, one for each k, of SIDE rows of A or columns of B: floats, or pairs of them. One that
// is copied ALONG_K has 4 elements more behind every second row: a warp that writes 16 k of 2 columns then meets each bank at
// most twice, and so does one that writes pairs, 8 k of 4 columns.
//
//     k = 0  | 0 1 2 ...       SIDE - 1 |
//     k = 1  | 0 1 2 ...       SIDE - 1 | unused 0 1 2 3 |
//     k = 2  | ...
//
// One that is not has no gaps: 16-byte copies of a warp then fill whole lines of 128 bytes.
template <int SIDE, bool ALONG_K>
__device__ __forceinline__ constexpr int offset_in_tile(int k) {
    return k * SIDE + (ALONG_K ? k / 2 * 4 : 0);
}

template <int SIDE, int DEPTH, bool ALONG_K>
constexpr int TILE_ELEMENTS = DEPTH * SIDE + (ALONG_K ? DEPTH / 2 * 4 : 0);

// What one of THREADS threads copies of the tiles along k, of elements T: float or float2.
//
// ALONG_K: neighbours in memory are neighbours along k (A is row-major, B column-major). A warp copies 64 bytes along k of
// 2 rows at a time, or of pairs 4, an element a lane, and so transposes them. Else a row in memory is a row of the tile, and
// moves by 16 bytes a lane where it is aligned.
template <typename T, int SIDE, int DEPTH, int THREADS, bool ALONG_K>
class TileCopy {
  public:
    // Computed before the first tile is known, and kept: threads then have less to do before they start to copy.
    __device__ __forceinline__ TileCopy() {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        own_side = ALONG_K ? warp % WARPS_SIDE * LINES + lane / RUN : threadIdx.x % ABREAST * WIDTH;
        own_k = ALONG_K ? warp / WARPS_SIDE * RUN + lane % RUN : threadIdx.x / ABREAST;
        offset = offset_in_tile<SIDE, ALONG_K>(own_k) + own_side;
        keep(offset);
        keep(own_side);
    }

    // X: matrix in memory with `sides` rows of A or columns of B; the next tile begins at (side, k).
    __device__ __forceinline__ void go_to(const T* X, int ld_of_X, int sides, int side, int k) {
        ld = ld_of_X;
        left_side = sides - side - own_side;
        from = ALONG_K ? at(X, ld, side + own_side, k + own_k) : at(X, ld, k + own_k, side + own_side);
    }

    // Starts to copy the next tile, with left_k of k left from its first on. Elements outside the matrix become 0.
    __device__ __forceinline__ void start(T* tile, int left_k) {
        T* const to = tile + offset;
        const T* x = from;
        left_k -= own_k;
        if constexpr (ALONG_K) {
#pragma unroll
            for (int s = 0; s < SIDE; s += LINES * WARPS_SIDE) {
#pragma unroll
                for (int k = 0; k < DEPTH; k += RUN * (WARPS / WARPS_SIDE)) {
                    copy_async<ITEM>(to + offset_in_tile<SIDE, ALONG_K>(k) + s, x + k, !EDGES || (s < left_side && k < left_k));
                }
                x = at(x, ld, LINES * WARPS_SIDE, 0);
            }
            from += DEPTH;
        } else {
#pragma unroll
            for (int k = 0; k < DEPTH; k += ROWS) {
                if (ROWS > DEPTH && own_k >= DEPTH) break;
#pragma unroll
                for (int s = 0; s < SIDE; s += ABREAST * WIDTH) {
                    T* const into = to + offset_in_tile<SIDE, ALONG_K>(k) + s;
                    if (ALIGNED) {
                        const int inside = k < left_k ? min(max(left_side - s, 0), WIDTH) : 0;
                        copy_async_first(into, x + s, EDGES ? inside * ITEM : 16);
                    } else {
                        copy_async<ITEM>(into, x + s, !EDGES || (k < left_k && s < left_side));
                    }
                }
                x = at(x, ld, ROWS, 0);
            }
            from = at(from, ld, DEPTH, 0);
        }
    }

  private:
    static constexpr int WARPS = THREADS / 32;
    static constexpr int ITEM = sizeof(T);
    static constexpr int RUN = 64 / ITEM;     // lanes that copy neighbours along k
    static constexpr int LINES = 32 / RUN;    // rows of A or columns of B that a warp copies at a time
    static constexpr int WARPS_SIDE = WARPS < SIDE / LINES ? WARPS : SIDE / LINES;
    static constexpr int WIDTH = ALIGNED ? 16 / ITEM : 1;
    static constexpr int ABREAST = THREADS < SIDE / WIDTH ? THREADS : SIDE / WIDTH;  // threads along a row
    static constexpr int ROWS = THREADS / ABREAST;
    static_assert(ALONG_K || ROWS == 1 || ROWS % 2 == 0, "a thread's rows are as far apart in shared memory everywhere");

    const T* from;  // the first element that this thread copies next
    int ld;
    int own_side, own_k, offset;  // of it in the tile: rows of A or columns of B, k, and in shared memory
    int left_side;                // rows of A or columns of B from it on
};
