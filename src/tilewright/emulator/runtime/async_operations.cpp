// What a block's threads do with asynchronous copies, mbarriers and tiles of tensor maps.

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "block_runner.hpp"
#include "cluster.hpp"
#include "messages.hpp"

namespace simt {

bool BlockRunner::is_static(const void* shared) const { return number(shared) - number(static_shared_.data) < static_shared_.bytes; }

bool BlockRunner::is_shared(const void* address, std::size_t bytes) const {
    const auto within = [&](const void* begin, std::size_t size) {
        const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(begin);
        return offset < size && bytes <= size - offset;
    };
    return within(static_shared_.data, static_shared_.bytes) ||
           within(block_.dynamic_shared, launch_.dynamic_shared_bytes);
}

void BlockRunner::check_shared(const Call& call, const void* shared, std::size_t bytes, std::size_t alignment) {
    if (!is_shared(shared, bytes)) {
        fail(call, " for " + std::to_string(bytes) + " bytes that are not all in shared memory");
    }
    const std::size_t past = reinterpret_cast<std::uintptr_t>(shared) % alignment;
    if (past != 0) {
        fail(call, " with a place in shared memory that must be at a multiple of " +
             std::to_string(alignment) + " bytes, got " + std::to_string(past) + " bytes past one");
    }
}

void BlockRunner::copy_async(GpuThread* self, const CopyAccess& copy) {
    const auto& [shared, global, bytes, read, call, barrier] = copy;
    check_shared(call, shared, bytes, bytes);
    const std::size_t past = reinterpret_cast<std::uintptr_t>(global) % bytes;
    if (past != 0) {
        fail(call, " with a place in global memory that must be at a multiple of " +
             std::to_string(bytes) + " bytes, got " + std::to_string(past) + " bytes past one");
    }
    if (read > bytes) {
        fail(call, " to read bytes that must be 0 to " + std::to_string(bytes) + ", got " +
             std::to_string(int(read)));
    }
    if (observed()) {
        observer_->copy_started(*self, copy);
        stop_if_refused();
    }
    self->copies.start(copy);
}

void BlockRunner::wait_copies(GpuThread* self, unsigned pending) {
    self->copies.wait(pending, [&](const CopyAccess& copy) {
        if (observed()) observer_->copy_landed(*self, copy);
    });
}

void BlockRunner::wait_copies_at(GpuThread* self, const void* barrier) {
    self->copies.wait_at(barrier, [&](const CopyAccess& copy) {
        if (observed()) observer_->copy_landed(*self, copy);
    });
}

void BlockRunner::barrier_init(GpuThread* self, const Call& call, unsigned long long* address, unsigned count) {
    check_shared(call, address, sizeof *address, sizeof *address);
    if (cluster_->size() > 1 && is_static(address)) {
        fail(call, " for a barrier in static shared memory: on the emulator those of clusters lie in dynamic shared memory");
    }
    if (mbarriers_.find(address)) fail(call, " for a barrier that has been made before");
    if (count == 0 || count > Mbarriers::MOST) {
        fail(call, " with a count that must be 1 to " + std::to_string(Mbarriers::MOST) +
             ", got " + std::to_string(count));
    }
    mbarriers_.make(address, {address, count, count, 0, 0, self, {passed_, self->warp->passed, cluster_->passed()}});
    if (observed()) observer_->barrier_made(*self, call, address);
}

// The barrier at an address, which the calling thread must be sure to see.
Mbarrier& BlockRunner::usable(GpuThread* self, const Call& call, const unsigned long long* address) {
    Mbarrier* const barrier = is_shared(address, sizeof *address) ? mbarriers_.find(address) : nullptr;
    if (barrier == nullptr) {
        fail(call, " for a barrier that was never made, or has been overwritten");
    }
    const bool synced = barrier->made_after[0] != passed_ ||
                     (self->warp == barrier->maker->warp && barrier->made_after[1] != self->warp->passed);
    if (self != barrier->maker && !synced) {
        fail(call, " for a barrier that thread " + describe(barrier->maker->index) +
             " made, without a __syncthreads between");
    }
    return *barrier;
}

// The block of a rank, which must not have ended.
BlockRunner& BlockRunner::in_cluster(const Call& call, int rank) {
    BlockRunner* const there = cluster_->block(unsigned(rank));
    if (there == nullptr) {
        fail(call, " for block " + std::to_string(rank) + " of a cluster that has " + std::to_string(cluster_->size()));
    }
    if (there->ended()) {
        fail(call, " for block " + describe(there->block_.index) +
             " of the cluster, which has ended: cluster_sync must be the last thing that it does");
    }
    return *there;
}

// What lies in another block's shared memory where this lies in one's own.
template <typename T>
T* BlockRunner::at_same_offset(BlockRunner& there, T* shared) const {
    if (&there != this && is_static(shared)) {
        return reinterpret_cast<T*>(cluster_->kept(there.block_.rank) + (number(shared) - number(static_shared_.data)));
    }
    const auto offset = reinterpret_cast<std::uintptr_t>(shared) - reinterpret_cast<std::uintptr_t>(block_.dynamic_shared);
    return &there == this ? shared : reinterpret_cast<T*>(static_cast<unsigned char*>(there.block_.dynamic_shared) + offset);
}

// The barrier at an address of another block, which the calling thread must be sure to see.
Mbarrier& BlockRunner::usable_there(const Call& call, BlockRunner& there, const unsigned long long* address) {
    Mbarrier* const barrier = there.is_shared(address, sizeof *address) ? there.mbarriers_.find(address) : nullptr;
    const std::string of_block = " of block " + describe(there.block_.index);
    if (barrier == nullptr) {
        fail(call, " for a barrier" + of_block + " that is not made, or has been overwritten: " +
             wanted(call, "cluster_sync must follow barrier_init", "barrier.cluster must follow mbarrier.init"));
    }
    if (barrier->made_after[2] == cluster_->passed()) {
        fail(call, " for a barrier that thread " + describe(barrier->maker->index) + of_block +
             " made, without a cluster_sync between");
    }
    return *barrier;
}

void BlockRunner::barrier_inval(GpuThread* self, const Call& call, unsigned long long* address) {
    usable(self, call, address);
    std::memset(address, POISON, sizeof *address);
}

void BlockRunner::barrier_arrive(GpuThread* self, const Call& call, unsigned long long* address, unsigned bytes) {
    arrive(self, call, usable(self, call, address), 1, bytes);
}

// At a barrier in the window; returns the parity of the phase at which it arrives.
unsigned BlockRunner::barrier_arrive_by(GpuThread* self, const Call& call, unsigned address, unsigned arrivals, unsigned bytes) {
    const unsigned rank = address >> WINDOW_BITS;
    BlockRunner& there = rank == 0 || rank - 1 == block_.rank ? *this : in_cluster(call, int(rank - 1));
    auto* const at = static_cast<unsigned long long*>(in_window(call, address));
    Mbarrier& barrier = &there == this ? usable(self, call, at) : usable_there(call, there, at);
    const unsigned parity = barrier.phase % 2;
    there.arrive(self, call, barrier, arrivals, bytes);
    return parity;
}

void BlockRunner::arrive(GpuThread* self, const Call& call, Mbarrier& barrier, unsigned arrivals, unsigned bytes) {
    if (barrier.pending < arrivals) {
        self->runner->fail(call, " for a phase in which all " + std::to_string(barrier.count) +
             " arrivals happened");
    }
    if (barrier.bytes + bytes > Mbarriers::MOST) {
        self->runner->fail(call, " with which " + std::to_string(barrier.bytes + bytes) +
             " bytes are to come in a phase, which may have at most " + std::to_string(Mbarriers::MOST));
    }
    barrier.bytes += bytes;
    barrier.pending -= arrivals;
    if (observed() && arrivals != 0) observer_->barrier_arrived(*self, call, barrier.address);
    end_phase(barrier);
}

void BlockRunner::barrier_wait(GpuThread* self, const Call& call, unsigned long long* address, unsigned parity) {
    Mbarrier& barrier = usable(self, call, address);
    if (parity > 1) {
        fail(call, " with a parity that must be 0 or 1, got " + std::to_string(parity));
    }
    ++waits_at_barriers(*self);
    // Looked at again once it runs: a phase that ends twice before is missed, as by a thread of a GPU that looks late.
    while (barrier.phase % 2 == parity) {
        self->barrier = &barrier;
        barrier.waiting.push_back(self);
        suspend(self, call);
    }
    if (observed()) observer_->barrier_passed(*self, call, address);
}

// A thread that tests one phase again waits for it, since it does nothing meanwhile; one that tests several barriers lets others go on.
bool BlockRunner::barrier_test(GpuThread* self, const Call& call, unsigned long long* address, unsigned parity) {
    Mbarrier& barrier = usable(self, call, address);
    const bool again = self->tested == &barrier && self->tested_phase == barrier.phase;
    if (barrier.phase % 2 == parity && !again) {
        self->tested = &barrier;
        self->tested_phase = barrier.phase;
        barrier.tested = true;
        self->polled = reinterpret_cast<std::uintptr_t>(address);
        self->poll_site = 0;  // the call says where
        self->call = call;
        ++polls_;
        if (++self->tests >= PATIENCE) yield(self);
        return false;
    }
    if (again) self->tests = 0;
    barrier_wait(self, call, address, parity);
    return true;
}

void BlockRunner::load_tile_to(GpuThread* self, unsigned blocks, TileCopy copy, unsigned long long* address) {
    if (blocks == 0 || blocks >> cluster_->size() != 0) {
        fail(copy.call, " with the mask " + hexadecimal(blocks) + ", which must name blocks of a cluster that has " +
             std::to_string(cluster_->size()));
    }
    check_tile(copy);
    for (; blocks != 0; blocks &= blocks - 1) {
        start_tile(self, copy, in_cluster(copy.call, __builtin_ctz(blocks)), address);
        copy.again = true;
    }
}

// What the copy engine moves without a tensor map.
void BlockRunner::check_row(const Call& call, const void* global, unsigned bytes) {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(global) % TileBox::PIECE_BYTES;
    if (past != 0 || bytes % TileBox::PIECE_BYTES != 0) {
        fail(call, " for " + std::to_string(bytes) + " bytes, " + std::to_string(past) +
             " bytes past a multiple of 16 in global memory: both must be multiples of 16");
    }
}

void BlockRunner::check_tile(const TileBox& box) {
    check_shared(box.call, box.shared, box.bytes(), box.alignment());
    if (!box.begins_at_a_piece()) {
        fail(box.call, " with a column that must be a multiple of " +
             std::to_string(TileBox::PIECE_BYTES / box.map.element_bytes) + ", the elements in " +
             std::to_string(TileBox::PIECE_BYTES) + " bytes, got " + std::to_string(box.at[0]));
    }
}

void BlockRunner::store_tile(GpuThread* self, TileStore store) {
    check_tile(store);
    const auto& at = store.at;
    if (std::any_of(std::begin(at), std::end(at), [](int one) { return one < 0; })) {
        std::string first;  // as arrays have it, the last dimension's elements next to each other
        for (int i = store.map.dimensions; i-- > 0;) first += std::to_string(at[i]) + (i != 0 ? ", " : "");
        fail(store.call, " with the first element (" + first + "), of which none may be negative: a GPU takes that for loads alone");
    }
    if (observed()) {
        observer_->store_started(*self, store);
        stop_if_refused();
    }
    self->stores.start(std::move(store));
}

void BlockRunner::wait_tiles(GpuThread* self, unsigned pending, bool written) {
    self->stores.wait_read(pending, [&](const TileStore& store) {
        if (observed()) observer_->store_read(*self, store);
    });
    if (!written) return;
    self->stores.wait_written(pending, [&](const TileStore& store) {
        if (observed()) observer_->store_written(*self, store);
    });
}

// Starts the copy of a tile to a block of the cluster, given where it would go in this one.
void BlockRunner::start_tile(GpuThread* self, TileCopy copy, BlockRunner& to, unsigned long long* address) {
    address = at_same_offset(to, address);
    Mbarrier& barrier = &to == this ? usable(self, copy.call, address) : usable_there(copy.call, to, address);
    if (!barrier.fenced) {
        fail(copy.call, " for a barrier that the copy engine may not see yet: " +
             wanted(copy.call, "fence_barrier_init must follow barrier_init", "fence.mbarrier_init must follow mbarrier.init"));
    }
    if (&to != this && is_static(copy.shared)) {
        fail(copy.call, " for static shared memory of another block: on the emulator tiles for others go to dynamic shared memory");
    }
    copy.block = &to.block_;
    copy.shared = at_same_offset(to, copy.shared);
    if (observed()) {
        observer_->tile_started(*self, copy, address);
        stop_if_refused();
    }
    std::memset(copy.shared, POISON, copy.bytes());
    barrier.coming.push_back(copy);
}

void* BlockRunner::in_block(const Call& call, void* shared, int rank) {
    BlockRunner& there = in_cluster(call, rank);
    check_shared(call, shared, 1, 1);
    return at_same_offset(there, static_cast<unsigned char*>(shared));
}

void BlockRunner::cluster_sync(GpuThread* self, const Call& call) {
    // Unlike a __syncthreads, it does not matter where threads call it, so long as a warp does so together.
    for (unsigned lanes = self->warp->live; lanes != 0; lanes &= lanes - 1) {
        GpuThread& other = self->warp->threads[__builtin_ctz(lanes)];
        const bool waits = other.waits && other.call.operation == call.operation && other.cluster_phase == cluster_->passed();
        if (waits && !same_location(other.call, call)) {
            fail(call, " while lane " + std::to_string(other.lane) + " of its warp waits at " + describe(other.call));
        }
        if (waits && call.operation == Operation::cluster_sync && waits_at_barriers(other) != waits_at_barriers(*self)) {
            fail(call, " after other waits at barriers than lane " + std::to_string(other.lane) +
                 " of its warp, so that they may diverge: __syncwarp must be between");
        }
    }
    self->cluster_phase = cluster_->passed();
    if (cluster_->arrive(self, call)) {
        if (observed()) observer_->cluster_barrier(call);
    } else {
        suspend(self, call);
    }
}

// By which lanes diverge.
std::uint64_t& BlockRunner::waits_at_barriers(GpuThread& thread) {
    const std::array<std::uint64_t, 3> synced = {passed_, thread.warp->passed, cluster_->passed()};
    if (thread.synced != synced) thread.waits_at_barriers = 0;
    thread.synced = synced;
    return thread.waits_at_barriers;
}

void BlockRunner::end_phase(Mbarrier& barrier) {
    if (!barrier.end_phase()) return;
    if (observed()) observer_->phase_ended(barrier.address);
    for (GpuThread* thread : barrier.waiting) ready_.push(thread);
    barrier.waiting.clear();
}

// When no thread can go on, tiles come that somebody waits for, until that lets one go on.
bool BlockRunner::complete_loads() {
    for (Mbarrier& barrier : mbarriers_.all()) {
        while ((!barrier.waiting.empty() || barrier.tested) && !barrier.coming.empty()) {
            const TileCopy copy = barrier.coming.front();
            barrier.coming.pop_front();
            copy.finish();
            if (observed()) observer_->tile_landed(copy, barrier.address);
            barrier.bytes -= std::int64_t(copy.bytes());
            end_phase(barrier);
        }
        if (!ready_.empty()) return true;
    }
    return false;
}

void BlockRunner::check_that_copies_arrived() {
    for (const Mbarrier& barrier : mbarriers_.all()) {
        if (barrier.coming.empty() || !error_.empty()) continue;
        error_ = "in block " + describe(block_.index) +
                 " all threads have returned, and nobody has waited for a tile of " +
                 describe(barrier.coming.front().call) + ", which may come when the memory is another block's";
    }
}

void BlockRunner::end_stores() {
    for (GpuThread& thread : threads_) {
        const TileStore* const unread = thread.stores.end_block([&](const TileStore& store) {
            if (observed()) observer_->store_written(thread, store);
        });
        if (unread == nullptr || !error_.empty()) continue;
        error_ = "in block " + describe(block_.index) + " thread " + describe(thread.index) +
                 " has returned without a " + wanted(unread->call, "wait_tiles_read", "cp.async.bulk.wait_group.read") + " for " +
                 describe(unread->call) +
                 ", which may read shared memory when that is another block's";
    }
}

}  // namespace simt

// What the headers' PTX becomes: see abi.hpp.

namespace {

simt::TileBox box_at(const simt::Call& call, const void* shared, const simt::TilePosition& place) {
    simt::TileBox box = {call, static_cast<unsigned char*>(const_cast<void*>(shared)), *place.map, {}};
    std::copy(std::begin(place.at), std::end(place.at), box.at);
    return box;
}

}  // namespace

void simt_check_shared(const simt::Thread* self, simt::Call call, const void* address, std::size_t bytes,
                       std::size_t alignment) {
    as_gpu_thread(self)->runner->check_shared(call, address, bytes, alignment);
}

void simt_copy_async(const simt::Thread* self, simt::Call call, void* shared, const void* global, unsigned bytes,
                     unsigned read) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->copy_async(thread, {static_cast<unsigned char*>(shared), global, bytes, read, call});
}

void simt_copy_async_at(const simt::Thread* self, simt::Call call, void* shared, const void* global, unsigned bytes,
                        const void* barrier) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->copy_async(thread, {static_cast<unsigned char*>(shared), global, bytes, bytes, call, barrier});
}

void simt_wait_copies_at(const simt::Thread* self, const void* barrier) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->wait_copies_at(thread, barrier);
}

void simt_commit_copies(const simt::Thread* self) { as_gpu_thread(self)->copies.commit(); }

void simt_wait_copies(const simt::Thread* self, unsigned pending) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->wait_copies(thread, pending);
}

void simt_barrier_init(const simt::Thread* self, simt::Call call, unsigned long long* barrier, unsigned count) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->barrier_init(thread, call, barrier, count);
}

void simt_fence_barriers(const simt::Thread* self) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->fence_barriers(thread);
}

void simt_fence_async_shared(const simt::Thread* self) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->fence_async_shared(thread);
}

void simt_barrier_arrive(const simt::Thread* self, simt::Call call, unsigned long long* barrier, unsigned bytes) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->barrier_arrive(thread, call, barrier, bytes);
}

void simt_barrier_wait(const simt::Thread* self, simt::Call call, unsigned long long* barrier, unsigned parity) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->barrier_wait(thread, call, barrier, parity);
}

void simt_load_tile(const simt::Thread* self, simt::Call call, void* shared, const simt::TilePosition& place,
                    unsigned long long* barrier) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->load_tile(thread, {box_at(call, shared, place)}, barrier);
}

void simt_load_tile_to(const simt::Thread* self, simt::Call call, unsigned blocks, void* shared,
                       const simt::TilePosition& place, unsigned long long* barrier) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->load_tile_to(thread, blocks, {box_at(call, shared, place)}, barrier);
}

void simt_store_tile(const simt::Thread* self, simt::Call call, const simt::TilePosition& place, const void* shared) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    simt::TileStore store = {box_at(call, shared, place)};
    store.whole_pieces = true;
    thread->runner->store_tile(thread, std::move(store));
}

namespace {

// A row of bytes as a box of pieces.
simt::TileBox row_of_bytes(const simt::Call& call, const void* shared, const void* global, unsigned bytes) {
    const int pieces = int(bytes / simt::TileBox::PIECE_BYTES);
    simt::TensorMap map = {};
    map.data = static_cast<const unsigned char*>(global);
    std::fill(std::begin(map.extents), std::end(map.extents), 1);
    std::fill(std::begin(map.box), std::end(map.box), 1);
    map.extents[0] = map.box[0] = pieces;
    map.element_bytes = simt::TileBox::PIECE_BYTES;
    map.dimensions = 1;
    simt::TileBox row = box_at(call, shared, {&map, {}});
    row.is_row = true;
    return row;
}

}  // namespace

void simt_load_bytes(const simt::Thread* self, simt::Call call, void* shared, const void* global, unsigned bytes,
                     unsigned long long* barrier) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->check_row(call, global, bytes);
    thread->runner->load_tile(thread, {row_of_bytes(call, shared, global, bytes)}, barrier);
}

void simt_store_bytes(const simt::Thread* self, simt::Call call, void* global, const void* shared, unsigned bytes) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->check_row(call, global, bytes);
    thread->runner->store_tile(thread, {row_of_bytes(call, shared, global, bytes)});
}

void simt_barrier_inval(const simt::Thread* self, simt::Call call, unsigned long long* barrier) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->barrier_inval(thread, call, barrier);
}

unsigned simt_barrier_arrive_by(const simt::Thread* self, simt::Call call, unsigned address, unsigned arrivals, unsigned bytes) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    return thread->runner->barrier_arrive_by(thread, call, address, arrivals, bytes);
}

bool simt_barrier_test(const simt::Thread* self, simt::Call call, unsigned long long* barrier, unsigned parity) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    return thread->runner->barrier_test(thread, call, barrier, parity);
}

void simt_commit_tiles(const simt::Thread* self) { as_gpu_thread(self)->stores.commit(); }

void simt_wait_tiles(const simt::Thread* self, unsigned pending, bool written) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->wait_tiles(thread, pending, written);
}

void* simt_in_block(const simt::Thread* self, simt::Call call, void* shared, int rank) {
    return as_gpu_thread(self)->runner->in_block(call, shared, rank);
}

void simt_grid_sync(const simt::Thread* self, simt::Call call) {
    auto* thread = static_cast<simt::GpuThread*>(const_cast<simt::Thread*>(self));
    thread->runner->cluster_sync(thread, call);
}

void simt_cluster_sync(const simt::Thread* self, simt::Call call) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->cluster_sync(thread, call);
}
