// Small matrices loaded from shared memory by a warp together, which hands their elements round (ldmatrix; sm_75 and
// newer), or stored there (stmatrix; sm_90 and newer). Each lane names 16 bytes and gets or gives a quarter of those of four lanes:
// a transposition on the way.
#pragma once

#include "ptx/shared_address.cuh"

// Loads four matrices of 8 rows of four words: floats, or pairs of 16-bit elements. Lane 8 * j + r names row r of matrix j, 16
// bytes from a 16-byte boundary on; every lane gets, of matrix after matrix, word lane % 4 of row lane / 4. All lanes call it
// together.
template <typename Word>
__device__ __forceinline__ void load_matrices(Word (&words)[4], const Word* row) {
    static_assert(sizeof(Word) == 4, "a row has four words");
    unsigned (&bits)[4] = reinterpret_cast<unsigned (&)[4]>(words);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3]) : "r"(shared_address(row)) : "memory");
}

// The same of 16-bit elements, with rows and columns of each matrix exchanged: every lane gets, of matrix after matrix, element
// lane / 4 of rows 2 * (lane % 4) and the next.
__device__ __forceinline__ void load_matrices_transposed(unsigned (&words)[4], const unsigned* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(shared_address(row)) : "memory");
}

// The way back: stores four matrices, of which each lane has, matrix after matrix, element lane / 4 of rows 2 * (lane % 4) and the next.
__device__ __forceinline__ void store_matrices_transposed(void* row, const unsigned* words) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(shared_address(row)), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
}
