// Float32 factors split into terms (relayout_square.cuh) by the blocks of a product themselves, before they multiply. In one launch:
//
//     every block     takes squares of A and of B by tickets and splits them, until none is left
//                     waits until all squares are done: by blocks that run, whatever runs with them
//                     looks at what was seen of A and B: terms hold them, or all blocks compute in float32
//
// A block goes on with squares while its last ones are on their way to memory.
#pragma once

#include <grid_wait.cuh>  // in brackets: the emulator has one of its own

#include "relayout_square.cuh"

// Counters of a launch. They are 0 before it and after it.
struct SplitCounters {
    Range a, b;       // where a copy's `range` points, unless the copy is kept for other products too
    unsigned taken;   // tickets
    unsigned done;    // of these, those whose squares are there
    unsigned blocks;  // that have read all this
};

// Of THREADS threads, in groups that split a square each. A ticket is a square for each group, all of one factor.
template <typename Term, int THREADS>
class FactorSplitter {
  public:
    using Operand = Copy<float, Term>;

    static constexpr int GROUP = THREADS < 128 ? THREADS : 128;
    static constexpr int GROUPS = THREADS / GROUP;

    struct Shared {
        typename SquareMover<float, Term, SCALED_SIDES, GROUP>::Shared squares[GROUPS];
        unsigned ticket;
    };

    // Called by all threads of every block. Returns what terms hold of factors whose products are summed along `depth` > 0.
    // adds_c: see TermCheck. show(): shows what this thread has written to what reads the terms, and back.
    template <typename Show>
    static __device__ __forceinline__ TermCheck split(const Operand& a, const Operand& b, SplitCounters* counters, int depth,
                                                      bool adds_c, Shared& shared, const Show& show) {
        const unsigned of_a = tickets(a), all = of_a + tickets(b);
        if (all > 0) {
            const Range known_a = known_of(a.range), known_b = known_of(b.range);
            const int group = threadIdx.x / GROUP;
            Range of_both[2] = {};
            unsigned done = 0, next = 0;
            for (;; ++done) {
                if (threadIdx.x == 0) shared.ticket = done == 0 ? atomicAdd(&counters->taken, 1) : next;
                __syncthreads();
                const unsigned ticket = shared.ticket;
                if (ticket >= all) break;
                if (threadIdx.x == 0) next = atomicAdd(&counters->taken, 1);  // along with the elements
                const bool is_b = ticket >= of_a;
                const int number = (ticket - (is_b ? of_a : 0)) * GROUPS + group;
                const Range seen = SquareMover<float, Term, SCALED_SIDES, GROUP>::move(
                    is_b ? b : a, number, threadIdx.x % GROUP, shared.squares[group], [] { __syncthreads(); });
                of_both[is_b].see(seen);
                __syncthreads();
            }
            of_both[0].of_warp().add_to(a.range, known_a);
            of_both[1].of_warp().add_to(b.range, known_b);
            show();
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) {
                if (done > 0) atomicAdd(&counters->done, done);
                wait_for_count(&counters->done, all);
                __threadfence();
            }
            __syncthreads();
            show();
        }
        const TermCheck check(known_of(a.range), known_of(b.range), depth, adds_c);
        __syncthreads();
        if (threadIdx.x == 0 && atomicInc(&counters->blocks, gridDim.x - 1) == gridDim.x - 1) *counters = {};
        return check;
    }

  private:
    static __device__ __forceinline__ unsigned tickets(const Operand& copy) {
        return (copy.template squares<SCALED_SIDES>() + GROUPS - 1) / GROUPS;
    }
};
