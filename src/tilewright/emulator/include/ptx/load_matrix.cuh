// Matrices from shared memory on the emulator: see load_matrices.hpp.
#pragma once

#include "load_matrices.hpp"

template <typename Word>
__forceinline__ void load_matrices(Word (&words)[4], const Word* row, SIMT_PLACE) {
    simt::load_matrices<false>(words, row, {simt::Operation::load_matrices, file, line});
}

__forceinline__ void load_matrices_transposed(unsigned (&words)[4], const unsigned* row, SIMT_PLACE) {
    simt::load_matrices<true>(words, row, {simt::Operation::load_matrices, file, line});
}
