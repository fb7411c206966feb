// Matrices from shared memory and back on the emulator: lanes read the rows that they name, and the warp hands round what they
// have read; or it hands round what lanes have, and they write the rows that they name.
#pragma once

namespace simt {

// COUNT matrices, whose rows the first 8 * COUNT lanes name. TRANSPOSED: by 16-bit elements, of which a word has those of two rows.
template <bool TRANSPOSED, typename Word, int COUNT>
__forceinline__ void load_matrices(Word (&words)[COUNT], const Word* row, Call call) {
    static_assert(sizeof(Word) == 4, "a row has four words");
    struct alignas(16) Row {
        Word words[4];
    };
    struct Lane {
        Row row;
        Word* words;
    };
    Lane own{{}, words};
    if (simt_thread()->lane < 8 * COUNT) {
        simt_check_shared(simt_thread(), call, row, 16, 16);
        own.row = *reinterpret_cast<const Row*>(row);
    }
    simt_warp_together(simt_thread(), call, &own, [](void* const* lanes) SIMT_UNSEEN {
        const auto of = [&](unsigned lane) SIMT_UNSEEN { return static_cast<const Lane*>(lanes[lane]); };
        for (unsigned lane = 0; lane < warpSize; ++lane) {
            for (unsigned matrix = 0; matrix < COUNT; ++matrix) {
                if constexpr (TRANSPOSED) {
                    const auto element = [&](unsigned row) SIMT_UNSEEN {
                        return of(8 * matrix + row)->row.words[lane / 8] >> lane / 4 % 2 * 16 & 0xffff;
                    };
                    of(lane)->words[matrix] = element(lane % 4 * 2) | element(lane % 4 * 2 + 1) << 16;
                } else {
                    of(lane)->words[matrix] = of(8 * matrix + lane / 4)->row.words[lane % 4];
                }
            }
        }
        return static_cast<const char*>(nullptr);
    });
}

// The other way round: words[i] of all lanes are the i-th matrix.
template <bool TRANSPOSED, int COUNT>
__forceinline__ void store_matrices(const unsigned (&words)[COUNT], unsigned* row, Call call) {
    struct alignas(16) Row {
        unsigned words[4];
    };
    struct Lane {
        Row row;
        const unsigned* words;
    };
    Lane own{{}, words};
    simt_warp_together(simt_thread(), call, &own, [](void* const* lanes) SIMT_UNSEEN {
        const auto of = [&](unsigned lane) SIMT_UNSEEN { return static_cast<Lane*>(lanes[lane]); };
        for (unsigned line = 0; line < 8 * COUNT; ++line) {
            const unsigned matrix = line / 8, in_matrix = line % 8;
            for (unsigned word = 0; word < 4; ++word) {
                if constexpr (TRANSPOSED) {
                    const auto element = [&](unsigned col) SIMT_UNSEEN {
                        return of(4 * col + in_matrix / 2)->words[matrix] >> in_matrix % 2 * 16 & 0xffff;
                    };
                    of(line)->row.words[word] = element(2 * word) | element(2 * word + 1) << 16;
                } else {
                    of(line)->row.words[word] = of(4 * in_matrix + word)->words[matrix];
                }
            }
        }
        return static_cast<const char*>(nullptr);
    });
    if (simt_thread()->lane < 8 * COUNT) {
        simt_check_shared(simt_thread(), call, row, 16, 16);
        *reinterpret_cast<Row*>(row) = own.row;
    }
}

}  // namespace simt
