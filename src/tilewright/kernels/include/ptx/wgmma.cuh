// Products of matrices by a warpgroup, 128 threads that hold the sums together (wgmma; sm_90a alone).
//
// A is 64 x 16 and B 16 x N, of __half or __nv_bfloat16; or A is 64 x 8 and B 8 x N, of floats of which the tensor cores look at
// TF32's bits alone, the first 19; or A is 64 x 32 and B 32 x N, of 8 bits, each of one of the two floating-point types, or of the two of
// integers. Both are in shared memory, where a matrix descriptor says how they lie; floats and 8 bits along k. The 64 x N sums are floats
// in registers, N a multiple of 8 up to 256; of integers ints, and N at most 24 or a multiple of 16. Of thread t, sum v0 + 2 * v1 + 4 * v2
// is in
//
//     row  t / 32 * 16 + t % 32 / 4 + 8 * v1        column  8 * v2 + t % 4 * 2 + v0
//
// A of 16-bit elements may be in registers too, by pairs: elements k and k + 1 of a row in one, the first in the lower half. Of
// thread t, register v1 + 2 * v2 has
//
//     row  t / 32 * 16 + t % 32 / 4 + 8 * v1        k  8 * v2 + t % 4 * 2
//
// A of floats in registers has one element in each: of thread t, register v1 + 2 * v2 has
//
//     row  t / 32 * 16 + t % 32 / 4 + 8 * v1        k  4 * v2 + t % 4
//
// and A of 8 bits four, of neighbouring k:
//
//     row  t / 32 * 16 + t % 32 / 4 + 8 * v1        k  16 * v2 + t % 4 * 4
//
// The tensor cores work on their own: from `multiply_async` until a `wait_products` that covers it they may read A and B at
// any time, and the sums are theirs. All 128 threads call each of these functions together.
#pragma once

#include "ptx/float8.cuh"
#include "ptx/half.cuh"
#include "ptx/matrix_descriptor.cuh"
#include "ptx/wgmma_instructions.cuh"

// Orders what this thread did with the sums before what the tensor cores do: needed before the first product, and again
// once threads have touched the sums. (What threads have written to shared memory needs fence_async_shared.)
template <typename Sums>
__device__ __forceinline__ void fence_sums(Sums& sums) {
    pin(sums);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// The same for A in registers, which has been written.
template <typename Sums, typename Registers>
__device__ __forceinline__ void fence_sums(Sums& sums, Registers& a) {
    pin(a);
    fence_sums(sums);
}

// Starts sums += A * B, or with adds = false sums = A * B. T, U: element types of A and of B.
template <Major A, Major B, typename T, typename U = T, typename Sum, int COUNT>
__device__ __forceinline__ void multiply_async(Sum (&sums)[COUNT], MatrixDescriptor a, MatrixDescriptor b,
                                               bool adds = true) {
    static_assert(COUNT % 4 == 0 && 4 <= COUNT && COUNT <= 128, "B has a multiple of 8 columns, from 8 to 256");
    static_assert(MAY_CROSS_K<T> || (A == Major::along_k && B == Major::along_k), "lines of TF32 and of 8 bits lie along k");
    constexpr bool ACROSS_A = A == Major::across_k, ACROSS_B = B == Major::across_k;
    WgmmaColumns<2 * COUNT>::template start<T, U, ACROSS_A, ACROSS_B>(sums, a.bits, b.bits, adds);
}

// The same with A in registers. B's lines lie along k.
template <typename T, typename U = T, typename Sum, int COUNT>
__device__ __forceinline__ void multiply_async(Sum (&sums)[COUNT], const unsigned (&a)[4], MatrixDescriptor b,
                                               bool adds = true) {
    static_assert(COUNT % 4 == 0 && 4 <= COUNT && COUNT <= 128, "B has a multiple of 8 columns, from 8 to 256");
    WgmmaColumns<2 * COUNT>::template start<T, U>(sums, a, b.bits, adds);
}

// Ends a group: the products since the last one. It may be empty.
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most PENDING groups, the youngest, are still being computed. With 0 the sums are the threads' again.
template <int PENDING, typename Sums>
__device__ __forceinline__ void wait_products(Sums& sums) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    pin(sums);
}

// The same for A in registers: with 0 they may be written again.
template <int PENDING, typename Sums, typename Registers>
__device__ __forceinline__ void wait_products(Sums& sums, Registers& a) {
    wait_products<PENDING>(sums);
    pin(a);
}

// Loads two registers of A from 8 bytes of shared memory. They may be those of a product that has been waited for: ptxas takes the
// registers of A for free as soon as a product has started, and may give them to others (found on an H200). Here they seem to
// keep what they have where `exists` is 0, which it never is.
__device__ __forceinline__ void load_factor(unsigned& first, unsigned& second, const void* shared, int exists) {
    asm volatile("{\n.reg .pred exists;\nsetp.ne.b32 exists, %3, 0;\n@exists ld.shared.v2.b32 {%0, %1}, [%2];\n}"
                 : "+r"(first), "+r"(second) : "r"(shared_address(shared)), "r"(exists) : "memory");
}

// The same of 8 bits, by a warp together: 16 rows of A, neighbours in a line, and 32 k, a line each. A lane names the piece of 16
// bytes of one line, by which `load_matrices_transposed` hands the lane bytes of rows 2r and 2r + 1, r = lane / 4, at two k a word:
// of words 0 and 1 at four neighbouring k, and of 2 and 3 those 16 further. order: the bytes of the even row among words 0 and 1, as
// the byte permutation names them; those of the odd row are next to these. ptxas makes predicates of the branch. Where the permutations have
// these from the start, ptxas 13.0 has each product wait for the one before (C7513), which 13.5 does not.
__device__ __forceinline__ void load_factor(unsigned (&to)[4], const void* shared, unsigned order, int exists) {
    asm volatile("{\n.reg .pred exists;\n.reg .b32 word<4>;\nsetp.ne.b32 exists, %6, 0;\n"
                 "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {word0, word1, word2, word3}, [%4];\n"
                 "@!exists bra end;\n"
                 "prmt.b32 %0, word0, word1, %5;\nprmt.b32 %1, word0, word1, %7;\n"
                 "prmt.b32 %2, word2, word3, %5;\nprmt.b32 %3, word2, word3, %7;\nend:\n}"
                 : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
                 : "r"(shared_address(shared)), "r"(order), "r"(exists), "r"(order + 0x1111u)
                 : "memory");
}
