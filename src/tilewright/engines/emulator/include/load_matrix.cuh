// Matrices from shared memory on the emulator: every lane reads the row that it names, and the warp hands round what it
// has read.
#pragma once

namespace simt {

// TRANSPOSED: by 16-bit elements, of which a word has those of two rows.
template <bool TRANSPOSED, typename Word>
__forceinline__ void load_matrices(Word (&words)[4], const Word* row, const char* file, int line) {
    static_assert(sizeof(Word) == 4, "a row has four words");
    struct alignas(16) Row {
        Word words[4];
    };
    struct Lane {
        Row row;
        Word* words;
    };
    const Call call = {Operation::load_matrices, file, line};
    simt_check_shared(simt_thread(), call, row, 16, 16);
    Lane own{*reinterpret_cast<const Row*>(row), words};
    simt_warp_together(simt_thread(), call, &own, [](void* const* lanes) SIMT_UNSEEN {
        const auto of = [&](unsigned lane) SIMT_UNSEEN { return static_cast<const Lane*>(lanes[lane]); };
        for (unsigned lane = 0; lane < warpSize; ++lane) {
            for (unsigned matrix = 0; matrix < 4; ++matrix) {
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

}  // namespace simt

template <typename Word>
__forceinline__ void load_matrices(Word (&words)[4], const Word* row, SIMT_PLACE) {
    simt::load_matrices<false>(words, row, file, line);
}

__forceinline__ void load_matrices_transposed(unsigned (&words)[4], const unsigned* row, SIMT_PLACE) {
    simt::load_matrices<true>(words, row, file, line);
}
