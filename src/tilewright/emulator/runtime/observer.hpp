// Observers: what looks on while a kernel runs. The checker, the counters and the trace are observers.
//
// A launch of a kernel in the CHECKED build may carry one. Such a launch runs on one thread of the host, one block
// after the other, and within a block one CUDA thread at a time until it waits: all calls of an observer come in that
// order. The blocks of a cluster, and of a grid that synchronises, run together: all of them begin, by rank, then each in turn runs until it waits, and
// at last all of them end. What it is told:
//
//   begin_block ... end_block
//       Around all else. Each thread of a block begins at its first event; none is announced.
//   thread_returned
//   access
//       An access of memory that the kernel's code is about to make. Of shared and global memory only: not of a
//       thread's own stack, nor of kernel parameters, threadIdx and the like, nor of constants. A float4 is one access
//       of 16 bytes. They are those that are left after the C++ compiler's scalar optimizations: an element that is
//       read twice with nothing between is read once. None are merged to wider ones. An atomic operation is one access;
//       the copy of a large struct is one on each side, of any number of bytes.
//   block_barrier
//       The block's threads, but for those that have returned, have all come to a __syncthreads (or _count, _and, _or).
//   goes_on
//       Of blocks that run together, which one does from now on. Static shared memory is still that of the one before, and then its own,
//       at the same address.
//   cluster_barrier
//       All threads of all blocks of the cluster that have not returned have arrived at a cluster_sync, or all of the grid at its
//       sync().
//   warp_exchange
//       Lanes have arrived together: __syncwarp, shuffles, votes, by call.operation.
//   lane_absent
//       A thread gets what a shuffle finds in a lane that takes no part: it is not in the mask, has returned, or never was.
//   fragment
//       A warp loads or stores a matrix fragment (wmma). No `access` comes for it.
//   fence
//       __threadfence.
//   grid_dependency_waited
//       A thread has waited for the end of the launch before (dependent_launch.cuh).
//   copy_started, copy_landed
//       cp.async: started by a thread; carried out, when that thread waits.
//   tile_started, tile_landed
//       A tile of a tensor map: the same, but it lands when the threads waiting at its barrier can only go on with it.
//       No thread carries it out. One that goes to several blocks of a cluster starts and lands once for each of them.
//   store_started, store_read, store_written
//       A tile of a tensor map that goes to global memory: started by a thread; shared memory read, when that thread has
//       waited for it; written, when the thread has waited for all of it or its block ends.
//   barrier_made, barrier_arrived, barrier_passed, phase_ended
//       mbarriers. `passed`: a thread goes on from its wait. `ended`: all arrivals and bytes of the phase are there.
//   named_arrived
//       A thread has arrived at a named barrier; phase_ended and barrier_passed follow, as of an mbarrier, when it opens.
//   fence_async
//       fence_async_shared: what the thread has written to shared memory is shown to the copy engine and the tensor cores.
//   product_started, product_ended
//       A warpgroup's product (wgmma): what of shared memory it may read from now on; it has been waited for. Those of
//       a warpgroup end in the order in which they started.
//   overflowed
//       An operation of integers has left the range of its type. Of the build OVERFLOWS alone, as the next.
//   wrapped
//       An index that an address is computed of is not what it would be if unsigned integers had no end.
//   stopped
//       The block cannot go on, and why; then end_block.
//
// Places in the source: an access has the address that the hook returns to. That address less 1 and less
// Layout::library, looked up in the library's debug information (symbols.py), is its line. The other events have the
// call's file and line (Call).
//
// A kind of observer derives from Observer in a .cpp file of its own, exports a function that makes it
// (`SIMT_EXPORT simt::Observer* simt_make_...(...)`), and has a Python side derived from program.Observer. An engine
// made as EmulatorEngine(CHECKED, watcher) asks its watcher before each launch for a program.Watch: the observer, and
// which blocks run in which order. `access` is called tens of millions of times a second: it must be quick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "abi.hpp"

namespace simt {

struct GpuThread;  // block_runner.hpp: index, lane, number (in its block), warp
struct Warp;       // block_runner.hpp: threads (of its lanes), number (in its block)
struct TileCopy;   // async_copies.hpp
struct TileStore;  // async_copies.hpp
struct Warpgroup;  // wgmma.hpp: threads

enum class AccessKind : std::uint8_t {
    read,
    write,
    atomic,
    exchange,  // an atomic one that does not depend on what was there
};

inline bool is_atomic(AccessKind kind) { return kind >= AccessKind::atomic; }
enum class Space : std::uint8_t { static_shared, dynamic_shared, global };

struct Access {
    const GpuThread& thread;
    std::uintptr_t site;     // return address of the hook
    std::uintptr_t address;
    std::uint32_t bytes;
    AccessKind kind;
    Space space;
    std::size_t offset;      // of a shared access: bytes from the start of static or dynamic shared memory
    const Block& block;      // whose shared memory it is, another one's of the cluster or the thread's
    bool is_volatile;
};

// A fragment in memory: lines of neighbouring elements, rows or columns, at equal distances.
struct FragmentAccess {
    std::uintptr_t address;
    std::size_t lines, line_bytes;
    std::ptrdiff_t stride;   // bytes from one line to the next
    std::uint32_t element_bytes;
    std::uint32_t lane_bytes;  // that a lane moves by one instruction, in global memory
    AccessKind kind;
    Space space;
};

// A copy by cp.async: of `bytes` written, `read` are read and the others are zeros.
struct CopyAccess {
    unsigned char* shared;
    const void* global;
    unsigned bytes, read;
    Call call;
    const void* barrier = nullptr;  // that waits for it, if any
};

// What a warpgroup's product reads of a factor in shared memory: words of an element, or of some that are neighbours along k or
// across it. Word i is of line i % lines, a row of A or a column of B, or two of them across k.
struct FactorWords {
    // Up to four words that lie together: those of the numbers first, first + step and so on.
    struct Piece {
        std::uintptr_t address;
        unsigned first, step, words;
    };
    std::vector<Piece> pieces;
    std::size_t words;
    std::size_t lines;
};

enum class Stop { deadlock, misaligned, misuse, overrun, division };

class Checker;  // checker.hpp

class Observer {
  public:
    virtual ~Observer() = default;

    // Itself, if it is a checker: it is asked first whether an access is a usual one (usual_access.hpp).
    virtual Checker* checker() { return nullptr; }

    // Once, before the first block: where the block's shared memory lies, and how many threads it has. Of blocks that run
    // together, the dynamic shared memory of that of rank 0, and how far on that of the next one lies.
    struct Layout {
        const unsigned char* static_shared;
        std::size_t static_shared_bytes;
        const unsigned char* dynamic_shared;
        std::size_t dynamic_shared_bytes;
        std::size_t dynamic_shared_stride;
        const unsigned char* kept;  // the static shared memory of blocks that do not run, likewise; a stride of 0: there is none
        std::size_t kept_stride;
        unsigned threads;
        unsigned cluster;  // blocks that run together
        bool cooperative;  // whether these are those of the whole grid, and no cluster
        std::uintptr_t library;  // where the kernel's library was loaded: sites are in it
    };
    virtual void begin_launch(const Layout&) {}

    virtual void goes_on(const Block&) {}
    virtual void begin_block(const Block&) {}
    virtual void end_block(const Block&) {}
    virtual void thread_returned(const GpuThread&) {}
    virtual void access(const Access&) {}
    // Of a variable of the kernel's library, of which no other access is told: an atomic or volatile one.
    virtual void relaxed_in_library(const GpuThread&, std::uintptr_t /*address*/, bool /*writes*/) {}
    virtual void block_barrier(const Block&, const Call&) {}
    virtual void cluster_barrier(const Call&) {}
    virtual void warp_exchange(const Warp&, unsigned /*lanes*/, const Call&) {}
    virtual void lane_absent(const GpuThread&, const Call&, unsigned /*lane*/) {}
    virtual void fragment(const Warp&, const Call&, const FragmentAccess&) {}
    virtual void fence(const GpuThread&) {}
    virtual void grid_dependency_waited(const GpuThread&) {}
    virtual void copy_started(const GpuThread&, const CopyAccess&) {}
    virtual void copy_landed(const GpuThread&, const CopyAccess&) {}
    virtual void tile_started(const GpuThread&, const TileCopy&, const void* /*barrier*/) {}
    virtual void tile_landed(const TileCopy&, const void* /*barrier*/) {}
    virtual void store_started(const GpuThread&, const TileStore&) {}
    virtual void store_read(const GpuThread&, const TileStore&) {}
    virtual void store_written(const GpuThread&, const TileStore&) {}
    virtual void barrier_made(const GpuThread&, const Call&, const void* /*barrier*/) {}
    virtual void barrier_arrived(const GpuThread&, const Call&, const void* /*barrier*/) {}
    virtual void barrier_passed(const GpuThread&, const Call&, const void* /*barrier*/) {}
    virtual void phase_ended(const void* /*barrier*/) {}
    virtual void named_arrived(const GpuThread&, const void* /*barrier*/) {}

    virtual void fence_async(const GpuThread&) {}
    virtual void product_started(const Warpgroup&, const Call&, const std::vector<FactorWords>& /*factors*/) {}
    virtual void product_ended(const Warpgroup&) {}

    // `thread` is, in a deadlock, the first of those that wait. `address` is that of a misaligned access, else 0.
    virtual void stopped(Stop, const GpuThread& /*thread*/, std::uintptr_t /*address*/, const Call&,
                         const std::string& /*message*/) {}

    // An operation of signed integers has a result that their type does not hold; the thread goes on with its low bits.
    virtual void overflowed(const GpuThread&, const Call&, const std::string& /*what*/) {}
    virtual void wrapped(const GpuThread&, std::uintptr_t /*site*/, const std::string& /*what*/) {}

    // This thread, and all others that can go on, look at memory again and again that nobody changes. Then end_block.
    virtual void polls_for_ever(const GpuThread& /*thread*/) {}

    // The thread's code has been stopped at this address plus 1, or in what it calls there: it went on for too long, or the processor
    // faulted, or ran out of its stack.
    virtual void ended(bool /*endless*/, bool /*overflowed*/, const GpuThread&, std::uintptr_t /*site*/) {}

    // What it has seen, as JSON. Python asks once, after the launch.
    virtual std::string report() = 0;

    // Set to make the launch end early, after the event that is being told: the launch's error.
    std::string refusal;
};

}  // namespace simt
