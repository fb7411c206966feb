// A warpgroup's sums (wgmma.cuh), from registers to memory.
//
// Of 8 columns, the four lanes of a quad have a pair each. Pairs of 16-bit elements are exchanged between the lanes, so that
// each stores a piece of 16 bytes, and the quad 64 bytes in a row:
//
//     columns   0-7      8-15     16-23    24-31               0-7      8-15     16-23    24-31
//     lane      0 1 2 3  0 1 2 3  0 1 2 3  0 1 2 3     ->      0 0 0 0  1 1 1 1  2 2 2 2  3 3 3 3
//
// Pieces start at multiples of 16 bytes. Where a row starts `shift` elements behind one, its pairs move on by shift / 2 places,
// and the place says which piece a lane stores; if shift is odd, each piece moves on by one more element. shift = 5:
//
//     place             0     1     2     3     0     1     2     3     0     1     2     3
//     lane                          0     1     2     3     0     1     2     3     0     1
//     its columns                   0 1   2 3   4 5   6 7   8 9  10 11 12 13 14 15 16 17 18 19
//     pieces         |  -  -  -  -  -  0  1 2 | 3 4   5 6   7 8   9 10 |11 12 13 14 15 16 17 18 |
//
// Other tiles may have the rest of a row's first and last piece, of which each element is stored on its own.
#pragma once

#include "epilogue/result.cuh"
#include "epilogue/warp_biases.cuh"

// How a row of 16-bit elements lies in memory, by positions: 0 is the last multiple of 16 bytes before its first element. All
// rows of a thread lie alike: 8 rows are a multiple of 16 bytes.
struct Pieces {
    int shift, end;  // the row's first position, and the one behind its last
    int from, to;    // whole pieces lie between these

    template <typename T>
    __device__ __forceinline__ Pieces(const T* row, int columns)
        : shift(ALIGNED ? 0 : reinterpret_cast<unsigned long long>(row) / sizeof(T) % 8),
          end(shift + columns),
          from((shift + 7) & ~7),
          to(end & ~7) {}
};

// words[i] of the lane at place j becomes words[j] of the one at place i.
__device__ __forceinline__ void transpose_in_quad(unsigned (&words)[4], int place, int shift) {
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) {
        const bool upper = place & distance;
        // Moved on by 1 or 3 places, the lanes at places 0 and 1, and those at 2 and 3, are 0 and 3, and 1 and 2.
        const int stride = distance == 1 ? 1 | (shift & 2) : distance;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & distance) continue;
            unsigned &low = words[i], &high = words[i + distance];
            const unsigned got = __shfl_xor_sync(0xffffffff, upper ? low : high, stride);
            (upper ? low : high) = got;
        }
    }
}

// Stores 32 columns of a row, or those of them that the row has, from column `first` on. origin: position 0; words: this
// thread's pair of each 8 columns; before: its pair of the 8 columns before these, then of the last 8 of these. WHOLE: the row
// consists of whole pieces.
template <bool WHOLE, typename T>
__device__ __forceinline__ void store_32_columns(T* origin, bool exists, const Pieces& pieces, int first,
                                                 unsigned (&words)[4], unsigned& before) {
    const int lane = threadIdx.x % 4, place = (lane + pieces.shift / 2) % 4;
    if (!WHOLE && exists && (first < pieces.from || first + 32 + pieces.shift > pieces.to)) {
        const int own = pieces.shift + first + 2 * lane;
        T* const d = origin + own;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int offset = i / 2 * 8 + i % 2, at = own + offset;
            const bool in_piece = pieces.from <= at && at < pieces.to;
            if (!in_piece && at < pieces.end) d[offset] = reinterpret_cast<const T*>(words)[i];
        }
    }
    const unsigned pair_before = before;
    before = words[3];
    if (!ALIGNED && place < lane) {  // moved on to the next piece
#pragma unroll
        for (int i = 3; i > 0; --i) words[i] = words[i - 1];
        words[0] = pair_before;
    }
    transpose_in_quad(words, place, pieces.shift);
    if (!ALIGNED) {
        // The last pair of the piece before. That of these 32 columns' first piece is from the 8 columns before them.
        const unsigned end_before = __shfl_sync(0xffffffff, place == 3 ? pair_before : words[3], lane + 3, 4);
        const int bits = pieces.shift % 2 * 16;
#pragma unroll
        for (int i = 3; i > 0; --i) words[i] = __funnelshift_l(words[i - 1], words[i], bits);
        words[0] = __funnelshift_l(end_before, words[0], bits);
    }
    const int at = first + 8 * place;
    if (exists && pieces.from <= at && at < pieces.to) {
        reinterpret_cast<uint4*>(origin)[at / 8] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

// Stores 16-bit elements of two rows, `row` and 8 further, from column `col` on: `sums` has this thread's pairs.
// PLAIN: C is not added, and rows consist of whole pieces. What need not be asked then is not in the way: processors wait for
// instructions that they have to jump to.
template <bool PLAIN, typename T, int COUNT, typename Biases>
__device__ __forceinline__ void store_pieces(const Result<T>& result, int row, int col, const Number<T> (&sums)[COUNT],
                                             const Number<T> (&of_rows)[2], const Biases& biases) {
    constexpr int PAIRS = COUNT / 4;  // of a row
    // Where rows are not aligned in any case: without checks, too much is computed at once for the registers.
    constexpr bool CHECKS = EDGES || !ALIGNED;
    const Pieces pieces(at(result.D, result.ldd, row, col), CHECKS ? min(result.n - col, 8 * PAIRS) : 8 * PAIRS);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int at_row = row + 8 * half;
        T* const origin = at(result.D, result.ldd, at_row, col - pieces.shift);
        unsigned before = 0;
#pragma unroll
        for (int first = 0; first < PAIRS; first += 4) {
            unsigned words[4] = {};
#pragma unroll
            for (int i = first; i < first + 4 && i < PAIRS; ++i) {
                const int at_col = col + 8 * i + static_cast<int>(threadIdx.x % 4) * 2;
                Number<T> of_columns[2];
                biases.get(i, of_columns);
                Number<T> pair[] = {sums[4 * i + 2 * half], sums[4 * i + 2 * half + 1]};
                result.template finish_pair<!PLAIN>(pair, at_row, at_col, of_rows[half], of_columns);
                store_run<2>(reinterpret_cast<T*>(&words[i - first]), pair);
            }
            if (!PLAIN) __syncwarp();  // C may be D: other lanes store what this one has read
            store_32_columns<PLAIN>(origin, !CHECKS || at_row < result.m, pieces, 8 * first, words, before);
        }
    }
}

// The same where rows start anywhere and have few columns: few pieces, which take longer to make than elements to store.
template <typename T, int COUNT, typename Biases>
__device__ __forceinline__ void store_elements(const Result<T>& result, int row, int col, const float (&sums)[COUNT],
                                               const float (&of_rows)[2], const Biases& biases) {
    float of_columns[COUNT / 4][2];
#pragma unroll
    for (int i = 0; i < COUNT / 4; ++i) biases.get(i, of_columns[i]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int at_row = row + 8 * half;
        if (EDGES && at_row >= result.m) break;
        T* const d = at(result.D, result.ldd, at_row, col + threadIdx.x % 4 * 2);
#pragma unroll
        for (int i = 0; i < COUNT / 4; ++i) {
            const int at_col = col + 8 * i + threadIdx.x % 4 * 2;
            float pair[] = {sums[4 * i + 2 * half], sums[4 * i + 2 * half + 1]};
            result.finish_pair(pair, at_row, at_col, of_rows[half], of_columns[i]);
            unsigned word;
            store_run<2>(reinterpret_cast<T*>(&word), pair);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                if (!EDGES || at_col + j < result.n) d[8 * i + j] = reinterpret_cast<const T*>(&word)[j];
            }
        }
    }
}

// The same of 32-bit elements: a quad's pairs are 32 bytes in a row as they are. The rows are STRIDE.
template <int STRIDE = 8, typename T, int COUNT, typename Biases>
__device__ __forceinline__ void store_pairs(const Result<T>& result, int row, int col, const Number<T> (&sums)[COUNT],
                                            const Number<T> (&of_rows)[2], const Biases& biases) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; ++i) {
        Number<T> of_columns[2];
        biases.get(i, of_columns);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            result.store_pair(row + STRIDE * half, col + 8 * i + threadIdx.x % 4 * 2, &sums[4 * i + 2 * half], of_rows[half],
                              of_columns);
        }
    }
}

// The 16 rows that a warp has sums of (mma.cuh, or its part of wgmma.cuh), with element (row, col) of the result at their corner.
// biases: of these columns (warp_biases.cuh).
template <typename T, int COUNT, typename Biases>
__device__ __forceinline__ void store_warp(const Result<T>& result, int row, int col, const Number<T> (&sums)[COUNT],
                                           const Biases& biases) {
    row += threadIdx.x % 32 / 4;
    const Number<T> of_rows[] = {result.bias.of_row(row), result.bias.of_row(row + 8)};
    if constexpr (sizeof(T) == 2 && !ALIGNED && COUNT <= 16) {
        store_elements(result, row, col, sums, of_rows, biases);
    } else if constexpr (sizeof(T) == 2) {
        // With an activation, code of both kinds takes too many registers.
        if (ALIGNED && COMPUTES_NOTHING<ACTIVATION> && result.beta == 0.0f && result.n % 8 == 0) {
            store_pieces<true>(result, row, col, sums, of_rows, biases);
        } else {
            store_pieces<false>(result, row, col, sums, of_rows, biases);
        }
    } else {
        store_pairs(result, row, col, sums, of_rows, biases);
    }
}

// The 64 rows that a warpgroup has sums of, in the same way.
template <typename T, int COUNT, typename Biases>
__device__ __forceinline__ void store_warpgroup(const Result<T>& result, int row, int col, const Number<T> (&sums)[COUNT],
                                                const Biases& biases) {
    store_warp(result, row + threadIdx.x % 128 / 32 * 16, col, sums, biases);
}
