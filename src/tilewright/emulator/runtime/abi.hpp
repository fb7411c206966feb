// What compiled kernels and the runtime know of one another.
#pragma once

#include <cstddef>
#include <cstdint>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;

    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 extents) : x(extents.x), y(extents.y), z(extents.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

namespace simt {

using HostFloat = float;  // in kernels `float` may be a macro

constexpr unsigned WARP_SIZE = 32;

struct Block {
    uint3 index;
    dim3 threads;
    dim3 grid;
    void* dynamic_shared;
    unsigned rank;     // in its cluster
    unsigned cluster;  // how many blocks that has
    bool chosen;       // else it runs only because another block of its cluster does
};

struct Thread {
    uint3 index;
    unsigned lane;
    const Block* block;
};

// Operations that the runtime carries out. It has their names for its messages.
enum class Operation : int {
    syncthreads,
    syncthreads_count,
    syncthreads_and,
    syncthreads_or,
    cluster_sync,
    grid_sync,
    syncwarp,
    shuffle,
    shuffle_up,
    shuffle_down,
    shuffle_xor,
    vote_all,
    vote_any,
    ballot,
    activemask,
    reduce_add,
    reduce_min,
    reduce_max,
    reduce_and,
    reduce_or,
    reduce_xor,
    match_any,
    match_all,
    wmma_load,
    wmma_mma,
    wmma_store,
    copy_async,
    barrier_init,
    barrier_arrive,
    in_block,
    barrier_wait,
    wait_for_count,
    load_tile,
    load_tile_to,
    store_tile_async,
    load_matrices,
    store_matrices,
    multiply_fragments,
    multiply_async,
    commit_products,
    wait_products,
    setmaxnreg_dec,
    setmaxnreg_inc,
    sync_named,
    arrive_named,
    shared_memory,
    barrier_inval,
    none,
};

// A call in the kernel's source.
struct Call {
    Operation operation;
    const char* file;
    int line;
    const char* instruction = nullptr;  // that the source has in its place, of PTX; or a header's function that has it
};

// A tensor map as the emulator's copies read it; its engine packs the same fields.
struct alignas(64) TensorMap {
    static constexpr int MOST = 5;                             // dimensions
    static constexpr std::uint64_t MARK = 0x70616d726f736e65;  // by which a map is known

    const unsigned char* data;         // the first element
    std::int64_t strides[MOST - 1];    // bytes from one element to the next along all dimensions but the first
    std::int32_t extents[MOST];        // elements along each dimension, 1 along those that it has not
    std::int32_t box[MOST];            // the same of what is moved at a time
    std::int32_t element_bytes;
    std::int32_t swizzle;  // bytes: 0, 32, 64 or 128
    std::int32_t rounds;   // whether loads round float32 elements to TF32
    std::int32_t dimensions;
    std::uint64_t mark;
    unsigned char unused[24];
};
static_assert(sizeof(TensorMap) == 128, "as large as a GPU's");

// Where a box begins: an element along each dimension.
struct TilePosition {
    const TensorMap* map;
    int at[TensorMap::MOST];
};

// What tensor cores take factors for.
enum class FactorType { half, bfloat16, tf32, e4m3, e5m2, s8, u8 };

// What a lane gives to multiply_fragments: of `rows` fragments of A, `columns` of B and their products.
struct Fragments {
    float* sums;  // of integers the bits of int32
    const unsigned *a, *b;
    unsigned rows, columns;
    FactorType of_a, of_b;
};

// A factor of a warpgroup's product: its matrix descriptor, whether its lines lie across k, and its elements.
struct WgmmaFactor {
    unsigned long long descriptor;
    bool across_k;
    FactorType type;
};

// What a thread gives to multiply_async.
struct WgmmaArguments {
    float* sums;                  // of this thread, columns / 2; of integers the bits of int32
    const unsigned* a_registers;  // null: A is in shared memory
    unsigned columns;
    WgmmaFactor a, b;
    bool adds;
};

// An operation whose exact result is rounded in a direction.
enum class Exactly : unsigned { sum, product, quotient, root, fused };
enum class Direction : unsigned { zero, up, down };

}  // namespace simt

// Of functions whose accesses of memory are no accesses of the kernel's: observers are not told of them.
#define SIMT_UNSEEN __attribute__((no_sanitize("thread")))

#define SIMT_EXPORT extern "C" __attribute__((visibility("default")))

// An access of a whole fragment by a warp, which the calling lane carries out for all: lines of elements in memory.
// lane_bytes: what a lane moves by one instruction, in global memory.
SIMT_EXPORT void simt_fragment(const simt::Thread* self, simt::Call call, const void* address, std::size_t lines,
                               std::size_t line_bytes, std::size_t stride, unsigned element_bytes, unsigned lane_bytes,
                               int writes);

// The thread that calls. It is the same in all of a kernel's invocation, across barriers too, hence `const`.
SIMT_EXPORT __attribute__((const)) const simt::Thread* simt_thread();

// Waits for all threads of the block; returns how many of them passed a predicate other than 0.
SIMT_EXPORT int simt_block_barrier(const simt::Thread* self, simt::Call call, int predicate);

// Waits for the lanes of `mask` and exchanges values among them. A shuffle returns the value of lane `source`, a vote
// its outcome over the lanes' values, __activemask the lanes that have arrived together. A reduction is one of signed
// 64-bit numbers; a match returns a mask of lanes.
SIMT_EXPORT std::uint64_t simt_warp_exchange(const simt::Thread* self, simt::Call call, unsigned mask,
                                             std::uint64_t value, unsigned source);

// Waits for all 32 lanes of the warp at this one place, gives `work` the arguments of lanes 0 to 31, and returns when
// it has done for all of them at once what they came for. It returns a reason why it cannot, or a null pointer.
using SimtWarpWork = const char* (*)(void* const* arguments);
SIMT_EXPORT void simt_warp_together(const simt::Thread* self, simt::Call call, void* argument, SimtWarpWork work);

// Ends the launch with an error: this expression, false or a call, is at this place. What assert calls, and __trap.
SIMT_EXPORT __attribute__((noreturn)) void simt_trap(const char* expression, const char* file, int line);

// Lets other threads of the block go on.
SIMT_EXPORT void simt_yield(const simt::Thread* self);

// Arithmetic that rounds in a direction, and the float that a double becomes.
SIMT_EXPORT float simt_directed_float(simt::Exactly operation, simt::Direction direction, float a, float b, float c);
SIMT_EXPORT double simt_directed_double(simt::Exactly operation, simt::Direction direction, double a, double b, double c);
SIMT_EXPORT float simt_narrowed(simt::Direction direction, double value);

// The inverses of erf, of -1 to 1, and of erfc, of 0 to 2.
SIMT_EXPORT double simt_erf_inverse(double value);
SIMT_EXPORT double simt_erfc_inverse(double value);

// What a kernel's printf and clock are. Each call of printf is written as a whole; a clock counts nanoseconds.
SIMT_EXPORT int simt_printf(const char* format, ...);
SIMT_EXPORT long simt_clock() noexcept;

// What compilers call by themselves.
SIMT_EXPORT void* simt_memcpy(void* to, const void* from, std::size_t bytes) noexcept;
SIMT_EXPORT void* simt_memmove(void* to, const void* from, std::size_t bytes) noexcept;
SIMT_EXPORT void* simt_memset(void* to, int value, std::size_t bytes) noexcept;
SIMT_EXPORT int simt_memcmp(const void* one, const void* other, std::size_t bytes) noexcept;

// The work of the stand-in of mma.cuh: the arguments are Fragments.
SIMT_EXPORT const char* simt_multiply_fragments(void* const* arguments);

// What the stand-in of grid_wait.cuh calls: waits until other blocks have made a count as large.
SIMT_EXPORT void simt_wait_for_count(const simt::Thread* self, simt::Call call, const unsigned* count, unsigned least);

// What dependent_launch.cuh's PTX becomes.
SIMT_EXPORT void simt_grid_dependency_wait(const simt::Thread* self);

// What async_copy.cuh's PTX becomes. Of the bytes that a copy writes it reads the first; the others are zeros.
SIMT_EXPORT void simt_copy_async(const simt::Thread* self, simt::Call call, void* shared, const void* global,
                                 unsigned bytes, unsigned read);
SIMT_EXPORT void simt_commit_copies(const simt::Thread* self);
SIMT_EXPORT void simt_wait_copies(const simt::Thread* self, unsigned pending);

// What cuda_barrier.hpp calls: a copy that an mbarrier waits for, if there is one, and the end of those of a thread that arrives there.
SIMT_EXPORT void simt_copy_async_at(const simt::Thread* self, simt::Call call, void* shared, const void* global, unsigned bytes,
                                    const void* barrier);
SIMT_EXPORT void simt_wait_copies_at(const simt::Thread* self, const void* barrier);

// What ldmatrix and stmatrix call: ends the launch with an error where these bytes are not in shared memory, or
// do not begin at a multiple of `alignment` bytes.
SIMT_EXPORT void simt_check_shared(const simt::Thread* self, simt::Call call, const void* address, std::size_t bytes,
                                   std::size_t alignment);

// What the PTX of mbarrier.cuh and tensor_map.cuh becomes. To arrive may announce bytes before.
SIMT_EXPORT void simt_barrier_init(const simt::Thread* self, simt::Call call, unsigned long long* barrier,
                                   unsigned count);
SIMT_EXPORT void simt_fence_barriers(const simt::Thread* self);
SIMT_EXPORT void simt_fence_async_shared(const simt::Thread* self);
SIMT_EXPORT void simt_barrier_arrive(const simt::Thread* self, simt::Call call, unsigned long long* barrier,
                                     unsigned bytes);
SIMT_EXPORT void simt_barrier_wait(const simt::Thread* self, simt::Call call, unsigned long long* barrier,
                                   unsigned parity);
SIMT_EXPORT void simt_load_tile(const simt::Thread* self, simt::Call call, void* shared, const simt::TilePosition& place,
                                unsigned long long* barrier);
SIMT_EXPORT void simt_store_tile(const simt::Thread* self, simt::Call call, const simt::TilePosition& place,
                                 const void* shared);
SIMT_EXPORT void simt_commit_tiles(const simt::Thread* self);
SIMT_EXPORT void simt_wait_tiles(const simt::Thread* self, unsigned pending, bool written);

// What cooperative_groups.h calls. A library that does so is launched with all blocks of its grid together.
SIMT_EXPORT void simt_grid_sync(const simt::Thread* self, simt::Call call);

// What cluster.cuh's PTX becomes. A tile goes to the blocks whose ranks are bits of `blocks`.
SIMT_EXPORT void simt_cluster_sync(const simt::Thread* self, simt::Call call);
SIMT_EXPORT void* simt_in_block(const simt::Thread* self, simt::Call call, void* shared, int rank);
SIMT_EXPORT void simt_load_tile_to(const simt::Thread* self, simt::Call call, unsigned blocks, void* shared,
                                   const simt::TilePosition& place, unsigned long long* barrier);

// The address of a place in shared memory as PTX has it.
SIMT_EXPORT unsigned simt_shared_address(const simt::Thread* self, const void* shared);
SIMT_EXPORT bool simt_is_shared(const simt::Thread* self, const void* address);
// Whether it is on the thread's stack.
SIMT_EXPORT bool simt_is_local(const void* address);

// What inline PTX becomes that knows places in shared memory by these numbers. Those of another block of the cluster have its
// rank in the upper bits. A test of a barrier says whether the phase of this parity has ended; a second one in a row waits for that.
SIMT_EXPORT void* simt_at_shared(const simt::Thread* self, simt::Call call, unsigned address);
SIMT_EXPORT __attribute__((const)) unsigned simt_shared_address_in_block(unsigned address, unsigned rank);
SIMT_EXPORT void simt_barrier_inval(const simt::Thread* self, simt::Call call, unsigned long long* barrier);
SIMT_EXPORT unsigned simt_barrier_arrive_by(const simt::Thread* self, simt::Call call, unsigned address, unsigned arrivals,
                                            unsigned bytes);
SIMT_EXPORT bool simt_barrier_test(const simt::Thread* self, simt::Call call, unsigned long long* barrier, unsigned parity);
SIMT_EXPORT void simt_load_bytes(const simt::Thread* self, simt::Call call, void* shared, const void* global, unsigned bytes,
                                 unsigned long long* barrier);
SIMT_EXPORT void simt_store_bytes(const simt::Thread* self, simt::Call call, void* global, const void* shared, unsigned bytes);

SIMT_EXPORT void simt_fence_sums(const simt::Thread* self);
SIMT_EXPORT void simt_multiply_async(const simt::Thread* self, simt::Call call, simt::WgmmaArguments arguments);
SIMT_EXPORT void simt_commit_products(const simt::Thread* self, simt::Call call);
SIMT_EXPORT void simt_wait_products(const simt::Thread* self, simt::Call call, unsigned pending);

// What named_barrier.cuh's PTX becomes: comes to a barrier that opens for this many threads, and may wait for it.
SIMT_EXPORT void simt_named_barrier(const simt::Thread* self, simt::Call call, int number, unsigned threads, bool waits);

// What register_budget.cuh's PTX becomes: from now on the thread has `count` registers.
SIMT_EXPORT void simt_setmaxnreg_dec(const simt::Thread* self, simt::Call call, unsigned count);
SIMT_EXPORT void simt_setmaxnreg_inc(const simt::Thread* self, simt::Call call, unsigned count);
