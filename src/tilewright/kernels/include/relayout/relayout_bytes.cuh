// Copies of matrices of bytes (Copy, relayout_square.cuh): MOVERS threads move a square of 128 x 128, by pieces of 16 bytes.
//
// In a transposed copy, a thread has a piece of each of four neighbouring lines in memory, and makes of them words of four
// neighbours of a line of the copy, which then meet in shared memory:
//
//     memory                        registers                  staged, and the copy
//     line 0  | a0 b0 c0 .. p0 |    | a0 a1 a2 a3 |            | a0 a1 a2 a3  a4 ..  a15 |
//     line 1  | a1 b1 c1 .. p1 |    | b0 b1 b2 b3 |            | b0 b1 b2 b3  b4 ..  b15 |
//     line 2  | a2 b2 c2 .. p2 |      ...                        ...
//     line 3  | a3 b3 c3 .. p3 |    | p0 p1 p2 p3 |            | p0 p1 p2 p3  p4 ..  p15 |
//
// A warp has 8 pieces side by side of 4 times 4 lines: its words of a column are 4 neighbours in staged lines that are 16 apart.
// There, the number of a piece is xored with that of its line's 16, so that all 32 words are on distinct banks.
#pragma once

#include "relayout/relayout_square.cuh"

template <typename From, typename To, int SQUARE, int MOVERS>
class ByteMover {
    static_assert(sizeof(From) == 1 && sizeof(To) == 1 && SQUARE == 128, "a line of staged words is all banks");
    static constexpr int PIECE = 16, PIECES = SQUARE / PIECE;
    static constexpr int TIMES = SQUARE / 4 * PIECES / MOVERS;  // pieces of four lines, that a thread has

  public:
    struct Shared {
        __align__(16) unsigned staged[SQUARE][SQUARE / 4];
    };

    // Starts with square `number` of a copy: the thread's elements of it come.
    __device__ __forceinline__ void load(const Copy<From, To>& copy, int number, int thread) {
        const auto [matrix, line, element] = copy.template place<SQUARE>(number);
        turned = copy.across;
        const int row = turned ? element : line, col = turned ? line : element;  // in memory
        rows = (turned ? copy.length : copy.lines) - row;
        cols = (turned ? copy.lines : copy.length) - col;
        to = reinterpret_cast<unsigned char*>(copy.to) + (static_cast<long long>(matrix) * copy.lines + line) * copy.ld + element;
        ld = copy.ld;
        const unsigned char* const from = reinterpret_cast<const unsigned char*>(copy.from) + matrix * copy.matrix_stride +
                                          static_cast<long long>(row) * copy.ld_from + col;
        const bool aligned = copy.template aligned<PIECE>();
#pragma unroll
        for (int i = 0; i < 4 * TIMES; ++i) {
            const int in_row = row_of(i / 4, thread) + i % 4;
            const unsigned char* const at = from + static_cast<long long>(in_row) * copy.ld_from + col_of(thread);
            const int count = in_row < rows ? cols - col_of(thread) : 0;  // elements that there are
            if (aligned && count >= PIECE) {
                moved[i / 4][i % 4] = *reinterpret_cast<const uint4*>(at);
            } else {
                unsigned words[4] = {};
#pragma unroll
                for (int j = 0; j < PIECE; ++j) words[j / 4] |= (j < count ? at[j] : 0u) << j % 4 * 8;
                moved[i / 4][i % 4] = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }

    // Stores the square. sync(): syncs all threads.
    template <typename Sync>
    __device__ __forceinline__ Range store(int thread, Shared& shared, const Sync& sync) {
        if (turned) {
#pragma unroll
            for (int i = 0; i < TIMES; ++i) {
                const uint4(&lines)[4] = moved[i];
                unsigned* const at = &shared.staged[col_of(thread)][row_of(i, thread) / 4 ^ col_of(thread) / PIECE * 4];
                stage(at, lines[0].x, lines[1].x, lines[2].x, lines[3].x);
                stage(at + SQUARE, lines[0].y, lines[1].y, lines[2].y, lines[3].y);
                stage(at + 2 * SQUARE, lines[0].z, lines[1].z, lines[2].z, lines[3].z);
                stage(at + 3 * SQUARE, lines[0].w, lines[1].w, lines[2].w, lines[3].w);
            }
            sync();
        }
        const int lines = turned ? cols : rows, length = turned ? rows : cols, element = col_of(thread);
#pragma unroll
        for (int i = 0; i < 4 * TIMES; ++i) {
            const int line = turned ? i * MOVERS / PIECES + thread / PIECES : row_of(i / 4, thread) + i % 4;
            if (line >= lines || element >= length) continue;
            const uint4& piece = turned ? staged(shared, line, element / PIECE) : moved[i / 4][i % 4];
            *reinterpret_cast<uint4*>(to + static_cast<long long>(line) * ld + element) = piece;
        }
        return {};
    }

  private:
    // Of the first of a thread's four lines, and of its pieces.
    static __device__ __forceinline__ int row_of(int time, int thread) { return (time * MOVERS + thread) / PIECES * 4; }
    static __device__ __forceinline__ int col_of(int thread) { return thread % PIECES * PIECE; }

    static __device__ __forceinline__ const uint4& staged(const Shared& shared, int line, int piece) {
        return *reinterpret_cast<const uint4*>(&shared.staged[line][(piece ^ line / PIECE) * 4]);
    }

    // Stores four columns of four lines, each as a word.
    static __device__ __forceinline__ void stage(unsigned* at, unsigned a, unsigned b, unsigned c, unsigned d) {
        const unsigned low[] = {__byte_perm(a, b, 0x5140), __byte_perm(c, d, 0x5140)};  // of columns 0 and 1
        const unsigned high[] = {__byte_perm(a, b, 0x7362), __byte_perm(c, d, 0x7362)};
        at[0] = __byte_perm(low[0], low[1], 0x5410);
        at[SQUARE / 4] = __byte_perm(low[0], low[1], 0x7632);
        at[2 * SQUARE / 4] = __byte_perm(high[0], high[1], 0x5410);
        at[3 * SQUARE / 4] = __byte_perm(high[0], high[1], 0x7632);
    }

    uint4 moved[TIMES][4];
    unsigned char* to;  // the square's first element in the copy
    int ld;             // elements from one line to the next there
    int rows, cols;     // in memory, that there are from the square's first element on
    bool turned;
};
