// Float32 factors split into parts (relayout_square.cuh) by the blocks of a product themselves, before they multiply. In one launch:
//
//     every block     takes squares of A and of B by a counter and splits them, until none is left, or one is seen that parts do not represent
//                     splits those anew in which an element is not finite, which goes on a list
//                     waits until all squares are done: by blocks that run, whatever runs with them
//                     looks at what was seen of A and B: parts represent them, or all blocks compute in float32
//
// A block loads the next squares while it splits those that have come.
//
// Why so:
//   One launch    each launch costs the host time, and a float32 kernel behind the product, which nearly always did nothing, had to be
//                 selected, compiled and prepared for each kind of call. Small products pay with a wait of all blocks for the last square.
//   On the GPU    the values are there, and not yet made when the host launches. A host that looked would wait in every call, and could
//                 not be captured into a graph. The look costs a few instructions of a pass that is bound by memory.
//   Counters      a square is split by a block that runs, and blocks wait only for squares that were taken: they need not all run at the
//                 same time. Counters are 0 before the first launch, and the last block sets them back to 0.
//   Early end     the warp that sees a square which the parts cannot represent updates Range at once. Blocks read Range with each number
//                 that they take, then take no more and count all squares as made.
//   Cost          6 bytes for each element of A and of B (4 with two parts). Where a GPU has no room, a call uses a kernel for "ieee".
#pragma once

#include "ptx/grid_wait.cuh"
#include "relayout/relayout_square.cuh"

// Counters of a launch. They are 0 before it and after it.
struct SplitCounters {
    Range a, b;       // where a copy's `range` points, unless the copy is cached for other products too
    unsigned taken;   // squares' groups
    unsigned done;    // of these, those whose squares are there; or more than there are, where none need be made
    unsigned blocks;  // that have read all this
};

// What is known of factors that have been split: what parts represent of them, and how many elements are on the lists.
struct SplitFactors {
    RangeCheck parts;
    unsigned listed_of_a = 0, listed_of_b = 0;
};

// All threads of a block sync.
struct BlockSync {
    __device__ __forceinline__ void operator()() const { __syncthreads(); }
};

// Of THREADS threads, in groups that split a square each. A batch is a square for each group, all of one factor. TURNS: whether
// a factor's lines may be across those of its parts.
template <typename PartType, int THREADS, bool TURNS>
class FactorSplitter {
  public:
    using Operand = Copy<float, PartType>;

    static constexpr int GROUP = THREADS < 128 ? THREADS : 128;
    static constexpr int GROUPS = THREADS / GROUP;
    static constexpr int MARKS = 256;  // of a block; where two batches would share one, parts do not represent the factor
    using Mover = SquareMover<float, PartType, SCALED_SIDES, GROUP, TURNS>;

    struct Shared {
        typename Mover::Shared squares[GROUPS];
        unsigned batches[3];     // the first one last
        unsigned marked[MARKS];  // of batches, those of which an element is not finite
    };

    // Called by all threads of every block. Returns what is known of factors whose products are summed along `depth` > 0.
    // adds_c: see RangeCheck. show(): shows what this thread has written to what reads the parts, and back.
    template <typename Show>
    static __device__ __forceinline__ SplitFactors split(const Operand& a, const Operand& b, SplitCounters* counters, int depth,
                                                         bool adds_c, Shared& shared, const Show& show) {
        const unsigned of_a = batches(a), all = of_a + batches(b);
        if (all > 0) {
            const Range known_a = known_of(a.range), known_b = known_of(b.range);
            const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
            const auto copy_of = [&](unsigned batch) -> const Operand& { return batch >= of_a ? b : a; };
            const auto number_of = [&](unsigned batch) { return (batch - (batch >= of_a ? of_a : 0)) * GROUPS + group; };
            const auto begin = [&](Mover& mover, unsigned batch) { mover.load(copy_of(batch), number_of(batch), thread); };
            for (int i = threadIdx.x; i < MARKS; i += THREADS) shared.marked[i] = NO_MORE;
            if (threadIdx.x == 0) {
                const unsigned first = atomicAdd(&counters->taken, 1);
                shared.batches[1] = atomicAdd(&counters->taken, 1);
                shared.batches[2] = first;
            }
            __syncthreads();
            unsigned batch = shared.batches[2], next = shared.batches[1], done = 0;
            Mover now, then;
            if (batch < all) begin(now, batch);
            Range all_of_a = {}, all_of_b = {};
            const auto see = [&](const Range& seen, unsigned number) {
                if (number < of_a) {
                    all_of_a.see(seen);
                } else {
                    all_of_b.see(seen);
                }
            };
            bool marks = false;  // whether this thread has set one
            for (; batch < all; ++done) {
                unsigned after = 0;
                Range of_a_now = {}, of_b_now = {};
                if (threadIdx.x == 0) {  // nothing waits for these here
                    after = atomicAdd(&counters->taken, 1);
                    of_a_now = extent_of(a.range);
                    of_b_now = extent_of(b.range);
                }
                if (next < all) begin(then, next);
                Range seen = now.store(thread, shared.squares[group], BlockSync());
                unsigned& mark = shared.marked[done % MARKS];
                if (seen.largest >= NonFinite::FIRST) {
                    const unsigned before = atomicCAS(&mark, NO_MORE, batch);
                    if (before == NO_MORE || before == batch) {
                        marks = true;
                        seen = {};
                    }
                }
                if (__any_sync(0xffffffff, !seen.fits())) show_unfit(seen, batch < of_a ? a.range : b.range);
                if (threadIdx.x == 0) shared.batches[done % 2] = of_a_now.fits() && of_b_now.fits() ? after : NO_MORE;
                __syncthreads();
                if (mark != batch) see(seen, batch);
                batch = next;
                next = shared.batches[done % 2];
                if (next == NO_MORE) batch = NO_MORE;
                now = then;
            }
            if (__syncthreads_or(marks)) {
                for (int i = 0; i < min(done, MARKS); ++i) {
                    const unsigned marked = shared.marked[i];
                    if (marked == NO_MORE) continue;
                    begin(now, marked);
                    now.list_non_finite(copy_of(marked), number_of(marked), thread);
                    see(now.store(thread, shared.squares[group], BlockSync()), marked);
                    __syncthreads();
                }
            }
            if (next == NO_MORE) done = all;  // so that nobody waits
            all_of_a.of_warp().add_to(a.range, known_a);
            all_of_b.of_warp().add_to(b.range, known_b);
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
        const Range seen_of_a = known_of(a.range), seen_of_b = known_of(b.range);
        __syncthreads();
        if (threadIdx.x == 0 && atomicInc(&counters->blocks, gridDim.x - 1) == gridDim.x - 1) *counters = {};
        return {RangeCheck(seen_of_a, seen_of_b, depth, adds_c), seen_of_a.listed, seen_of_b.listed};
    }

  private:
    static constexpr unsigned NO_MORE = 0xffffffff;  // no number of a square

    // By a warp: that parts do not represent a factor is known before all of it has been seen.
    static __device__ __forceinline__ void show_unfit(const Range& seen, Range* range) {
        Range all = seen.of_warp();
        all.lost = 0;  // counted at the end
        all.add_to(range, known_of(range));
    }

    static __device__ __forceinline__ unsigned batches(const Operand& copy) {
        return (copy.template squares<SCALED_SIDES>() + GROUPS - 1) / GROUPS;
    }
};
