// Copies of matrices as another kernel wants them (relayout_square.cuh, relayout_bytes.cuh). That kernel may start up meanwhile.
#include "ptx/dependent_launch.cuh"
#include "relayout/relayout_bytes.cuh"
#include "relayout/relayout_square.cuh"

template <int BYTES>
struct MoverOf {
    using type = SquareMover<FACTOR, RESULT, SIDE, THREADS>;
};
template <>
struct MoverOf<1> {
    using type = ByteMover<FACTOR, RESULT, SIDE, THREADS>;
};
using Mover = MoverOf<sizeof(FACTOR)>::type;

// What is not finite goes on a list, where elements are split.
template <typename Square>
__device__ __forceinline__ void list_non_finite(Square& mover, const Copy<FACTOR, RESULT>& copy, int number) {
    if constexpr (SPLIT_PARTS > 1) mover.list_non_finite(copy, number, threadIdx.x);
}

// One copy or two: the squares of `first` have the first numbers. A copy of no lines has none. A multiprocessor is to be full of
// threads, so that enough loads are in flight; with squares of 64 that would leave a thread too few registers, and a thread of
// bytes loads four times as much.
extern "C" __global__ void __launch_bounds__(THREADS, SIDE == 32 ? 2048 / THREADS : SIDE == 128 ? 1024 / THREADS : 1)
    relayout(Copy<FACTOR, RESULT> first, Copy<FACTOR, RESULT> second) {
    __shared__ Mover::Shared shared;
    grid_dependency_wait();
    grid_dependency_launch();  // it starts when the last block here has, so it takes no block's slot
    const int squares_of_first = first.squares<SIDE>();
    const bool of_second = blockIdx.x >= squares_of_first;
    const Copy<FACTOR, RESULT> copy = of_second ? second : first;
    Range known = {};
    const bool looks = SPLIT_PARTS > 1 && copy.range != nullptr;
    if (looks) known = known_of(copy.range);  // along with the elements
    const int square = blockIdx.x - (of_second ? squares_of_first : 0);
    Mover mover;
    mover.load(copy, square, threadIdx.x);
    if (looks) list_non_finite(mover, copy, square);
    const Range range = mover.store(threadIdx.x, shared, [] { __syncthreads(); });
    if (looks) range.of_warp().add_to(copy.range, known);
}
