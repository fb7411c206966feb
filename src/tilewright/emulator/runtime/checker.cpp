#include "checker.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>

#include "messages.hpp"
#include "usual_access.hpp"

namespace simt {
namespace {

constexpr std::uintptr_t NEAR_NULL = 1 << 20;  // where elements behind a null pointer are

constexpr std::size_t READ_BYTES = 4;  // of what a tensor core is taken to read at a time

// The thread of a warpgroup that stands for who reads a product's word of this number.
unsigned thread_of_word(std::size_t number) { return unsigned(number * 5 % WARPGROUP_SIZE); }

const char* const DOES[] = {"reads", "writes", "updates atomically", "exchanges atomically"};
const char* const DID[] = {"read", "wrote", "updated atomically"};

const char* did(const Stamp& write) {
    if (write.time == Stamp::IN_FLIGHT) return "started a copy to";
    if (write.flags & Stamp::COPY) return "copied to";
    return DID[write.flags & Stamp::ATOMIC ? 2 : 1];
}

const char* did_read(const Stamp& read) {
    if (read.time == Stamp::IN_FLIGHT) return "started a store of";
    return read.flags & Stamp::COPY ? "stored" : DID[read.flags & Stamp::STORE ? 1 : 0];
}

}  // namespace

Checker::Checker(const CheckedArray* arrays, std::size_t array_count, const SharedVariable* variables,
                 std::size_t variable_count, bool overlaps)
    : overlaps_(overlaps) {
    for (std::size_t i = 0; i < array_count; ++i) regions_.emplace_back(arrays[i]);
    for (const Region& region : regions_) {
        if (region.constant) inputs_.push_back(region.rows);
    }
    for (std::size_t i = 0; i < variable_count; ++i) {
        variables_.push_back({variables[i].name, variables[i].offset, variables[i].bytes});
    }
}

void Checker::begin_launch(const Layout& layout) {
    layout_ = layout;
    owners_.assign(layout.static_shared_bytes, 0);
    for (std::size_t i = 0; i < variables_.size(); ++i) {
        const Variable& variable = variables_[i];
        std::fill_n(owners_.begin() + variable.offset, variable.bytes, std::uint16_t(i + 1));
    }
    dynamic_begin_ = (layout.static_shared_bytes + 15) / 16 * 16;
    forget_shared();
    blocks_.resize(layout.cluster);
    order_.begin_launch(layout.threads, layout.cluster, layout.cooperative);
    acted_.assign((layout.cluster - 1) * ACTORS + layout.threads, 0);
}

void Checker::forget_shared() {
    shared_.clear();
    for (unsigned rank = 0; rank < layout_.cluster; ++rank) {
        shared_.emplace_back(dynamic_begin_ + layout_.dynamic_shared_bytes);
    }
}

void Checker::begin_block(const Block& block) {
    blocks_[block.rank] = block;
    if (block.rank == 0) {
        // Copies that nobody waited for are forgotten.
        if (in_flight_ != 0) forget_shared();
        in_flight_ = 0;
        waits_.clear();
        waited_.assign((layout_.cluster - 1) * ACTORS + layout_.threads, !overlaps_);
        reaches_.clear();
    }
    order_.begin_block(block);
    see_what_is_usual();
}

// All blocks of the cluster have ended when the last one does.
void Checker::end_block(const Block& block) {
    settle();
    if (block.rank + 1 < layout_.cluster) return;
    for (const auto& [key, reach] : reaches_) {
        const Stamp stamp = {reach.time, reach.one.site, reach.one.thread, 0};
        if (!order_.waited_for(stamp, key.second)) find("ended block", reach.one);
    }
    reaches_.clear();
}

void Checker::barrier_arrived(const GpuThread& thread, const Call& call, const void* barrier) {
    const unsigned rank = rank_at(number(barrier));
    const Visit one = {thread.actor, findings_.site_of(call), number(barrier), sizeof(std::uint64_t), AccessKind::atomic,
                       Stamp::ARRIVAL};
    if (rank != rank_of(thread.actor)) reaches_[{thread.actor, rank}] = {order_.now(), one};
    order_.barrier_arrived(thread.actor, barrier);
}

void Checker::access(const Access& access) {
    const std::uint32_t site = std::uint32_t(access.site - layout_.library);
    const bool shared = access.space != Space::global;
    // Threads may wait for each other by volatile accesses of global memory, which PTX has as relaxed ones of the system.
    const bool relaxed = is_atomic(access.kind) || (access.is_volatile && !shared);
    const unsigned flags = relaxed ? Stamp::ATOMIC : 0;
    const Visit one = {access.thread.actor, site, access.address, access.bytes, access.kind, flags};
    visit(one, access.space, access.offset, access.block.rank);
    if (access.block.rank != rank_of(one.thread)) {
        if (order_.together() == order_.start()) find("unstarted block", one);
        reaches_[{one.thread, access.block.rank}] = {order_.now(), one};
    }
    if (relaxed) order_.atomic(one.thread, access.address, shared, access.kind != AccessKind::read);
}

void Checker::warp_exchange(const Warp& warp, unsigned lanes, const Call& call) {
    // Shuffles and votes order no accesses.
    if (call.operation == Operation::syncwarp) order_.warp_barrier(warp, lanes);
}

// Which lane moves which element is not specified: any lane stands for it.
void Checker::fragment(const Warp& warp, const Call& call, const FragmentAccess& access) {
    constexpr std::size_t PIECE = 4;
    const std::uint32_t site = findings_.site_of(call);
    for (std::size_t line = 0; line < access.lines; ++line) {
        for (std::size_t at = 0; at < access.line_bytes; at += PIECE) {
            const unsigned lane = (line * 5 + at / PIECE) % WARP_SIZE;
            visit({warp.threads[lane].actor, site, access.address + line * access.stride + at, PIECE, access.kind,
                   Stamp::FRAGMENT});
        }
    }
}

void Checker::grid_dependency_waited(const GpuThread& thread) {
    if (waited_[thread.actor]) return;
    waited_[thread.actor] = true;
    waits_.push_back({order_.now(), 0, thread.actor, 0});
}

void Checker::copy_started(const GpuThread& thread, const CopyAccess& copy) {
    const std::uint32_t site = findings_.site_of(copy.call);
    ++in_flight_;
    if (copy.read != 0) visit({thread.actor, site, number(copy.global), copy.read, AccessKind::read, 0});
    visit({thread.actor, site, number(copy.shared), copy.bytes, AccessKind::write, Stamp::COPY});
    set_written(number(copy.shared), copy.bytes,
                {Stamp::IN_FLIGHT, site, thread.actor, Stamp::COPY});
}

void Checker::copy_landed(const GpuThread& thread, const CopyAccess& copy) {
    --in_flight_;
    set_written(number(copy.shared), copy.bytes,
                {order_.now(), findings_.site_of(copy.call), thread.actor, Stamp::COPY});
}

void Checker::tile_started(const GpuThread& thread, const TileCopy& copy, const void*) {
    const std::uint32_t site = findings_.site_of(copy.call);
    ++in_flight_;
    const Visit read = {thread.actor, site, number(copy.map.data), copy.is_row ? copy.bytes() : 0, AccessKind::read, Stamp::COPY};
    copy.is_row ? visit(read) : check_waited(read);  // what a tensor map describes is an array's
    const Visit written = {thread.actor, site, number(copy.shared), copy.bytes(), AccessKind::write, Stamp::COPY};
    check_shown(written, shared_cells(written.address, written.bytes));
    if (copy.period() != 1) check_pattern(written, copy.period());
    visit(written);
    set_written(number(copy.shared), copy.bytes(),
                {Stamp::IN_FLIGHT, site, thread.actor, Stamp::COPY});
}

// Where the pattern of a tile's swizzle begins elsewhere than the tile, and in static shared memory, where both begin together: Python
// knows whether the source has asked for that.
void Checker::check_pattern(const Visit& tile, std::size_t period) {
    if (tile.address % period != 0) {
        find("shifted swizzle", tile, nullptr, "", period);
    } else if (tile.address - number(layout_.static_shared) < layout_.static_shared_bytes) {
        find("chance alignment", tile, nullptr, "", period);
    }
}

void Checker::tile_landed(const TileCopy& copy, const void* barrier) {
    const Time now = order_.now();
    --in_flight_;
    set_written(number(copy.shared), copy.bytes(),
                {now, findings_.site_of(copy.call), order_.engine_arrived(barrier), Stamp::COPY});
}

// Until the thread has waited for that, the copy engine may read shared memory at any time.
void Checker::store_started(const GpuThread& thread, const TileStore& store) {
    const std::uint32_t site = findings_.site_of(store.call);
    const Stamp reads = {Stamp::IN_FLIGHT, site, thread.actor, Stamp::COPY};
    ++in_flight_;
    store.each_piece_inside([&](int row, std::size_t byte, std::size_t bytes) {
        const Visit one = {thread.actor, site, number(store.in_shared(row, byte)), bytes, AccessKind::read, Stamp::COPY};
        const Cells cells = shared_cells(one.address, bytes);
        check_shown(one, cells);
        for (std::size_t c = 0; c < cells.count; ++c) {
            Cell& cell = cells.first[c];
            check_read(one, cell.write(), cells);
            unsigned slot = 0;
            while (slot < Cell::READS && cell.read_time(slot) >= cells.oldest) ++slot;
            cell.set_read(slot_or_next(slot), reads);
        }
        visit({thread.actor, site, number(store.row_in_memory(row)) + byte, bytes, AccessKind::write, Stamp::COPY});
    });
    set_stored(store, reads);
}

void Checker::store_read(const GpuThread& thread, const TileStore& store) {
    const std::uint32_t site = findings_.site_of(store.call);
    store.each_piece_inside([&](int row, std::size_t byte, std::size_t bytes) {
        const Cells cells = shared_cells(number(store.in_shared(row, byte)), bytes);
        for (std::size_t c = 0; c < cells.count; ++c) {
            Cell& cell = cells.first[c];
            for (unsigned slot = 0; slot < Cell::READS; ++slot) {
                const Stamp read = cell.read(slot);
                const bool own = read.time == Stamp::IN_FLIGHT && read.actor == thread.actor && read.site == site;
                if (own) cell.set_read_time(slot, order_.now());
            }
        }
    });
    --in_flight_;
}

void Checker::store_written(const GpuThread& thread, const TileStore& store) {
    set_stored(store, {order_.now(), findings_.site_of(store.call), thread.actor, Stamp::COPY});
}

// Each warp of the group reads: any thread stands for it, so that all of them must be sure of what was written. From now on
// until the wait the reads are the tensor cores' own.
void Checker::product_started(const Warpgroup& group, const Call& call, const std::vector<FactorWords>& factors) {
    const std::uint32_t site = findings_.site_of(call);
    const Stamp reads = {order_.now(), site, Ordering::tensor_cores(group), 0};
    std::array<Stamp, WARPGROUP_SIZE> sure = {};  // of each thread the last write that it was found to be sure of
    bool all_sure = true;
    std::size_t number = 0;  // of a factor's first word
    for (const FactorWords& factor : factors) {
        for (const FactorWords::Piece& piece : factor.pieces) {
            const Cells cells = shared_cells(piece.address, piece.words * READ_BYTES);
            for (std::size_t c = 0; c < cells.count; ++c) {
                Cell& cell = cells.first[c];
                const std::size_t word = number + piece.first + c * cells.bytes_of_cell / READ_BYTES * piece.step;
                const unsigned t = thread_of_word(word);
                all_sure = all_sure && is_sure(cell.write(), group.threads[t].actor, cells, sure[t]);
                unsigned slot = 0;
                while (slot < Cell::READS && cell.read(slot).actor != reads.actor) ++slot;
                cell.set_read(slot_or_next(slot), reads);
            }
        }
        number += factor.words;
    }
    if (!all_sure) check_words(group, site, factors);
    order_.product_started(reads.actor);
}

// What a product reads, in the order of the words.
void Checker::check_words(const Warpgroup& group, std::uint32_t site, const std::vector<FactorWords>& factors) {
    std::size_t number = 0;
    for (const FactorWords& factor : factors) {
        std::vector<std::uintptr_t> words(factor.words);
        for (const FactorWords::Piece& piece : factor.pieces) {
            for (unsigned i = 0; i < piece.words; ++i) words[piece.first + i * piece.step] = piece.address + i * READ_BYTES;
        }
        const std::vector<bool> written = written_lines(words, factor.lines);
        for (std::size_t i = 0; i < words.size(); ++i) {
            const unsigned thread = group.threads[thread_of_word(number++)].actor;
            const Visit one = {thread, site, words[i], READ_BYTES, AccessKind::read, Stamp::FRAGMENT};
            const Cells cells = shared_cells(words[i], READ_BYTES);
            check_shown(one, cells);
            if (!written[i % factor.lines]) continue;
            for (std::size_t c = 0; c < cells.count; ++c) check_read(one, cells.first[c].write(), cells);
        }
    }
}

// Of which of a factor's lines anybody has written a part; where copies have, of which they have: what threads wrote there may be
// left of an earlier use of the memory. The others may be rows or columns that the matrix does not have, and an instruction
// multiplies all the same: reading them is no fault. What comes of them is in sums of their own, poison if they are used.
std::vector<bool> Checker::written_lines(const std::vector<std::uintptr_t>& words, std::size_t lines) {
    std::vector<bool> written(lines), copied(lines);
    for (std::size_t i = 0; i < words.size(); ++i) {
        const Cells cells = shared_cells(words[i], READ_BYTES);
        for (std::size_t c = 0; c < cells.count; ++c) {
            const Stamp write = cells.first[c].write();
            if (write.time < cells.oldest) continue;
            written[i % lines] = true;
            if (write.flags & Stamp::COPY) copied[i % lines] = true;
        }
    }
    return std::find(copied.begin(), copied.end(), true) == copied.end() ? written : copied;
}

// Whether a write is shown to the tensor cores and comes before a thread's product. known: the last such one, which becomes this
// one: most of a tile is written at once.
bool Checker::is_sure(const Stamp& write, unsigned thread, const Cells& cells, Stamp& known) const {
    if (write.time < cells.oldest || write.time == Stamp::IN_FLIGHT) return false;
    if (write.time == known.time && write.who() == known.who()) return true;
    if (order_.shown(write, thread, true) != Ordering::Shown::yes || !order_.before(write, thread, true)) return false;
    known = write;
    return true;
}

// What threads have written with ordinary stores, the copy engine and the tensor cores see after a fence of the writer, which
// must come before them as the store itself must.
void Checker::check_shown(const Visit& one, const Cells& cells) {
    for (std::size_t i = 0; i < cells.count; ++i) {
        const Stamp write = cells.first[i].write();
        if (write.time < cells.oldest || write.time == Stamp::IN_FLIGHT) continue;
        const bool in_fragment = one.flags & Stamp::FRAGMENT;
        const Ordering::Shown shown = order_.shown(write, one.thread, in_fragment);
        if (shown == Ordering::Shown::unfenced) {
            find("missing fence", one, &write, did(write));
        } else if (shown == Ordering::Shown::late && order_.before(write, one.thread, in_fragment)) {  // else a race
            find("late fence", one, &write, did(write));
        }
    }
}

void Checker::set_written(std::uintptr_t shared, std::size_t bytes, const Stamp& stamp) {
    const Cells cells = shared_cells(shared, bytes);
    for (std::size_t i = 0; i < cells.count; ++i) cells.first[i].set_write(stamp);
}

void Checker::set_stored(const TileStore& store, const Stamp& stamp) {
    settle();
    store.each_piece_inside([&](int row, std::size_t byte, std::size_t bytes) {
        const std::uintptr_t address = number(store.row_in_memory(row)) + byte;
        Region* const region = region_of(address);
        if (region == nullptr || region->constant || !region->rows.allow(address - region->rows.begin(), bytes, false)) return;
        const Shadow::Range cells = region->shadow.range(address - region->rows.begin(), bytes);
        for (std::size_t c = 0; c < cells.count; ++c) cells.first[c].set_write(stamp);
    });
}

std::vector<Checker::Written> Checker::written_in(std::uintptr_t array) {
    std::vector<Written> found;
    const auto add = [&](std::size_t offset, std::size_t bytes, const uint3& block) {
        if (!found.empty()) {
            Written& last = found.back();
            const bool same = last.block[0] == block.x && last.block[1] == block.y && last.block[2] == block.z;
            if (same && last.offset + last.bytes == offset) {
                last.bytes += bytes;
                return;
            }
        }
        found.push_back({offset, bytes, {block.x, block.y, block.z}});
    };
    for (Region& region : regions_) {
        if (region.rows.begin() != array) continue;
        region.shadow.each_touched([&](const Shadow::Range& cells) {
            for (std::size_t i = 0; i < cells.count; ++i) {
                const Stamp write = cells.first[i].write();
                if (write.time == 0) continue;
                add(cells.offset + i * cells.bytes_of_cell, cells.bytes_of_cell, order_.block_of(write));
            }
        });
    }
    return found;
}

void Checker::stopped(Stop reason, const GpuThread& thread, std::uintptr_t address, const Call& call,
                      const std::string& message) {
    settle();
    const char* const kinds[] = {"barrier", "misaligned access", "misuse", "out of bounds", "division by zero"};
    const std::uint32_t site = findings_.site_of(call);
    reaches_.clear();  // of a cluster that does not come to its end
    if (!findings_.is_new(kinds[int(reason)], site, 0)) return;
    Finding finding{};
    finding.kind = kinds[int(reason)];
    finding.party = party(thread.actor, thread.block->index, site, reason == Stop::deadlock ? "waits" : "uses");
    finding.message = message;
    if ((finding.has_place = address != 0)) finding.place = place(address, 0, rank_of(thread.actor));
    findings_.put(std::move(finding));
}

void Checker::overflowed(const GpuThread& thread, const Call& call, const std::string& what) {
    overflow(thread, findings_.site_of(call), what);
}

void Checker::wrapped(const GpuThread& thread, std::uintptr_t site, const std::string& what) {
    overflow(thread, std::uint32_t(site - layout_.library), what);
}

void Checker::overflow(const GpuThread& thread, std::uint32_t site, const std::string& what) {
    if (!findings_.is_new("overflow", site, 0)) return;
    Finding finding{};
    finding.kind = "overflow";
    finding.party = party(thread.actor, thread.block->index, site, "computes");
    finding.has_place = true;
    finding.place = {what, false, {}, {}, 1};
    findings_.put(std::move(finding));
}

void Checker::polls_for_ever(const GpuThread& thread) {
    settle();
    const bool called = thread.poll_site == 0;
    const std::uint32_t site = called ? findings_.site_of(thread.call) : std::uint32_t(thread.poll_site - layout_.library);
    reaches_.clear();
    if (!findings_.is_new("endless wait", site, 0)) return;
    Finding finding{};
    finding.kind = "endless wait";
    finding.party = party(thread.actor, thread.block->index, site, "waits for");
    if ((finding.has_place = thread.polled != 0)) finding.place = place(thread.polled, 4, rank_of(thread.actor));
    findings_.put(std::move(finding));
}

void Checker::lane_absent(const GpuThread& thread, const Call& call, unsigned lane) {
    const std::uint32_t site = findings_.site_of(call);
    if (!findings_.is_new("absent lane", site, 0)) return;
    Finding finding{};
    finding.kind = "absent lane";
    finding.party = party(thread.actor, thread.block->index, site, "reads");
    finding.has_place = true;
    const bool in_mask = thread.mask >> lane & 1;
    const bool was = thread.number / WARP_SIZE * WARP_SIZE + lane < layout_.threads;
    const std::string why = !in_mask ? "is not in the mask " + hexadecimal(thread.mask) : was ? "has returned" : "the block does not have";
    finding.place = {"lane " + std::to_string(lane) + ", which " + why + ",", false, {}, {}, 1};
    findings_.put(std::move(finding));
}

void Checker::ended(bool endless, bool overflowed, const GpuThread& thread, std::uintptr_t address) {
    const char* const kind = endless ? "hung" : "crashed";
    const std::uint32_t site = std::uint32_t(address - layout_.library);
    reaches_.clear();
    if (!findings_.is_new(kind, site, 0)) return;
    Finding finding{};
    finding.kind = kind;
    finding.party = party(thread.actor, thread.block->index, site, endless ? "does not end" : overflowed ? "overflows" : "causes");
    finding.has_place = true;
    finding.place = {endless ? "in time" : overflowed ? "its stack" : "a fault of the processor", false, {}, {}, 1};
    findings_.put(std::move(finding));
}

// An access of which the address says what memory it is.
void Checker::visit(const Visit& one) {
    const auto offset_in = [&](const void* begin) { return one.address - number(begin); };
    if (offset_in(layout_.static_shared) < layout_.static_shared_bytes) {
        return visit(one, Space::static_shared, offset_in(layout_.static_shared), running_);
    }
    const unsigned rank = rank_at(one.address);
    if (offset_in(dynamic_shared(rank)) < layout_.dynamic_shared_bytes) {
        visit(one, Space::dynamic_shared, offset_in(dynamic_shared(rank)), rank);
    } else {
        visit(one, Space::global, 0, 0);
    }
}

// Whether an address is in the static shared memory of a block that does not run.
bool Checker::is_kept(std::uintptr_t address) const { return address - number(layout_.kept) < layout_.cluster * layout_.kept_stride; }

// The block in whose shared memory an address is; of static shared memory that of a block that does not run. Else 0.
unsigned Checker::rank_at(std::uintptr_t address) const {
    if (is_kept(address)) return unsigned((address - number(layout_.kept)) / layout_.kept_stride);
    const std::size_t rank = (address - number(layout_.dynamic_shared)) / layout_.dynamic_shared_stride;
    return rank < layout_.cluster ? unsigned(rank) : 0;
}

void Checker::visit(const Visit& one, Space space, std::size_t offset, unsigned rank) {
    settle();
    // Where the copy engine begins has been checked when it was asked. A struct of 12 bytes, say, is copied by its members.
    const bool at_once = one.bytes <= MOST_AT_ONCE && (one.bytes & (one.bytes - 1)) == 0 && !(one.flags & Stamp::COPY);
    if (at_once && one.address % one.bytes != 0) {
        find("misaligned access", one);
        refusal = "a misaligned access ends the launch";
        return;
    }
    if (space == Space::global) {
        check_waited(one);
        Region* const found = region_of(one.address);
        if (found == nullptr) return outside(one);
        Region& region = *found;
        const std::size_t in_region = one.address - region.rows.begin();
        const bool reads = one.kind == AccessKind::read;
        if (!region.rows.allow(in_region, one.bytes, reads)) return outside(one);
        if (!region.constant) return touch(one, {region.shadow.range(in_region, one.bytes), EVER, region.written});
        if (!reads) find("write to an input", one);
    } else if (space == Space::static_shared) {
        // Inside of one variable: not in its neighbour, nor in the padding between them.
        if (!in_one_variable(offset, one.bytes)) return outside(one);
        touch(one, cells_of(offset, one.bytes, rank));
    } else {
        if (offset + one.bytes > layout_.dynamic_shared_bytes) return outside(one);
        touch(one, cells_of(dynamic_begin_ + offset, one.bytes, rank));
    }
}

Region* Checker::region_of(std::uintptr_t address) {
    if (regions_.empty() || !regions_[last_region_].rows.hold(address)) {
        const auto holds = [&](const Region& region) { return region.rows.hold(address); };
        const auto region = std::find_if(regions_.begin(), regions_.end(), holds);
        if (region == regions_.end()) return nullptr;
        last_region_ = std::size_t(region - regions_.begin());
    }
    return &regions_[last_region_];
}

Checker::Cells Checker::cells_of(std::size_t offset, std::size_t bytes, unsigned rank) {
    return {shared_[rank].range(offset, bytes), order_.start(), false};
}

Checker::Cells Checker::shared_cells(std::uintptr_t address, std::size_t bytes) {
    settle();
    const std::size_t offset = address - number(layout_.static_shared);
    if (offset < layout_.static_shared_bytes) return cells_of(offset, bytes, running_);
    const bool own = address - number(dynamic_shared(running_)) < layout_.dynamic_shared_bytes;
    const unsigned rank = own ? running_ : rank_at(address);
    return cells_of(dynamic_begin_ + address - number(dynamic_shared(rank)), bytes, rank);
}

void Checker::touch(const Visit& one, const Cells& cells) {
    acted_[one.thread] = order_.now();
    if (one.kind == AccessKind::atomic && !cells.written) {
        const auto has_value = [&](const Cell& cell) { return cell.write_time() >= cells.oldest; };
        if (!std::all_of(cells.first, cells.first + cells.count, has_value)) find("uninitialized read", one);
    }
    one.kind == AccessKind::read ? read(one, cells) : write(one, cells);
}

void Checker::read(const Visit& one, const Cells& cells) {
    const Time start = order_.start(), span = order_.together() - start;
    const Stamp stamp = {order_.now(), one.site, one.thread, one.flags};
    for (std::size_t i = 0; i < cells.count; ++i) {
        Cell& cell = cells.first[i];
        if (cell.write_time() - start >= span || order_.some_left()) check_read(one, cell.write(), cells);
        if (Cell::any(cell.whos() & Stamp::STORE << Stamp::ACTOR_BITS)) check_stores(one, cell, cells);
        const unsigned replaces = Cell::first_read(replaced(cell, one.thread, cells.oldest));
        unsigned slot = 0;
        while (slot < replaces && !(order_.is_cluster() && comes_before(cell.read(slot), one))) ++slot;
        cell.set_read(slot_or_next(slot), stamp);
    }
}

// Which of a cell's stamps are of threads that have returned, and were at no barrier since.
Cell::Words Checker::of_left(const Cell& cell) const {
    Cell::Words left{};
    for (unsigned i = 0; i < Cell::STAMPS; ++i) left[i] = order_.has_left(cell.stamp(i)) ? ~0u : 0;
    return left;
}

bool Checker::comes_before(const Stamp& earlier, const Visit& one) const {
    return earlier.time != Stamp::IN_FLIGHT && order_.before(earlier, one.thread, one.flags & Stamp::FRAGMENT);
}

// Where the last write was not before the last barrier.
void Checker::check_read(const Visit& one, const Stamp& last_write, const Cells& cells) {
    if (last_write.time < cells.oldest) {
        if (!cells.written) find("uninitialized read", one);
    } else if (!(last_write.flags & one.flags & Stamp::ATOMIC)) {
        check_order(one, last_write, did(last_write));
    }
}

// Of those that stored the value that is there, each.
void Checker::check_stores(const Visit& one, const Cell& cell, const Cells& cells) {
    for (unsigned slot = 0; slot < Cell::READS; ++slot) {
        const Stamp earlier = cell.read(slot);
        if (earlier.flags == Stamp::STORE && earlier.time >= cells.oldest) check_order(one, earlier, did_read(earlier));
    }
}

void Checker::write(const Visit& one, const Cells& cells) {
    const Stamp stamp = {order_.now(), one.site, one.thread, one.flags};
    std::array<Cell, 4> sure;  // the last of which it was found that all accesses come before: most of a tile's are alike
    unsigned next = 0;
    for (std::size_t i = 0; i < cells.count; ++i) {
        Cell& cell = cells.first[i];
        if (Cell::any(unordered(cell, one.thread, one.flags, cells.oldest))) {
            const bool known = std::any_of(sure.begin(), sure.end(), [&](const Cell& other) { return cell.has_stamps_of(other); });
            if (!known && comes_after(one, cell, cells)) {
                sure[next++ % sure.size()] = cell;
            } else if (!known) {
                check_write(one, cell, cells);
            }
        }
        cell.begin(stamp);
    }
}

// Whether a write comes after all of a cell's accesses.
bool Checker::comes_after(const Visit& one, const Cell& cell, const Cells& cells) const {
    for (unsigned i = 0; i < Cell::STAMPS; ++i) {
        const Stamp earlier = cell.stamp(i);
        if (earlier.time >= cells.oldest && !(earlier.flags & one.flags & Stamp::ATOMIC) && !comes_before(earlier, one)) return false;
    }
    return true;
}

// Where not all of the accesses before were before the last barrier, or the thread's own.
void Checker::check_write(const Visit& one, Cell& cell, const Cells& cells) {
    const auto check = [&](const Stamp& earlier, const char* earlier_did, bool stored) {
        const bool both_relaxed = earlier.flags & one.flags & Stamp::ATOMIC;
        if (earlier.time < cells.oldest || both_relaxed) return;
        if (!stored || earlier.time == Stamp::IN_FLIGHT || one.flags != 0 || one.kind != AccessKind::write) {
            return check_order(one, earlier, earlier_did);
        }
        if (order_.before(earlier, one.thread, false)) return;
        const auto bytes = std::uint32_t(cells.bytes_of_cell);
        const auto* const memory = reinterpret_cast<const unsigned char*>(one.address) + (&cell - cells.first) * bytes;
        doubtful_.push_back({one, earlier, &cell, memory, bytes, 0});
        std::memcpy(&doubtful_.back().value, memory, bytes);
        usual_ = false;
    };
    check(cell.write(), did(cell.write()), cell.write().flags == 0);
    for (unsigned slot = 0; slot < Cell::READS; ++slot) {
        check(cell.read(slot), did_read(cell.read(slot)), cell.read(slot).flags == Stamp::STORE);
    }
}

// The stores have been carried out: each is said once for a cell, however many were before.
void Checker::settle_doubtful() {
    const Cell* last = nullptr;
    unsigned slot = 0;
    for (const Doubtful& store : doubtful_) {
        const bool same = std::memcmp(&store.value, store.memory, store.bytes) == 0;
        if (store.cell != last) {
            find(same ? "same value" : "race", store.one, &store.earlier, did(store.earlier));
            slot = 0;
        }
        last = store.cell;
        if (!same || slot == Cell::READS) continue;
        const Stamp& earlier = store.earlier;
        store.cell->set_read(slot++, {earlier.time, earlier.site, earlier.actor, Stamp::STORE});
    }
    doubtful_.clear();
    see_what_is_usual();
}

void Checker::check_order(const Visit& one, const Stamp& earlier, const char* earlier_did) {
    if (earlier.time == Stamp::IN_FLIGHT) {
        find("unfinished copy", one, &earlier, earlier_did);
    } else if (!order_.before(earlier, one.thread, one.flags & Stamp::FRAGMENT)) {
        find("race", one, &earlier, earlier_did);
    }
}

// What the launch before reads and writes is not to be touched before that has ended.
void Checker::check_waited(const Visit& one) {
    if (waited_[one.thread]) return;
    const auto before = [&](const Stamp& wait) { return order_.before(wait, one.thread, false); };
    if (std::any_of(waits_.begin(), waits_.end(), before)) {
        waited_[one.thread] = true;
    } else {
        find("early access", one);
    }
}

// An access of memory that is nobody's. If some array's slack takes it, it does no harm, and the launch goes on.
void Checker::outside(const Visit& one) {
    find("out of bounds", one);
    const auto reaches = [&](const Region& region) {
        return region.reaches(one.address) && region.reaches(one.address + one.bytes - 1);
    };
    const bool shared = number(layout_.static_shared) <= one.address &&
                        one.address + one.bytes <= number(layout_.static_shared) + layout_.static_shared_bytes;
    if (!shared && std::none_of(regions_.begin(), regions_.end(), reaches)) {
        refusal = "an access far out of bounds ends the launch";
    }
}

void Checker::find(const char* kind, const Visit& one, const Stamp* other, const char* other_did, std::size_t period) {
    if (!findings_.is_new(kind, one.site, other ? other->site : 0)) return;
    Finding finding{};
    finding.kind = kind;
    const char* const does = one.flags & Stamp::ARRIVAL     ? "arrives at"
                             : !(one.flags & Stamp::COPY)   ? DOES[int(one.kind)]
                             : one.kind == AccessKind::read ? "starts a store of"
                                                            : "starts a copy to";
    finding.party = party(one.thread, blocks_[rank_of(one.thread)].index, one.site, does);
    finding.period = period;
    finding.has_place = true;
    finding.place = place(one.address, one.bytes, rank_of(one.thread));
    if ((finding.has_other = other != nullptr)) {
        finding.other = party(other->actor, order_.block_of(*other), other->site, other_did);
    }
    findings_.put(std::move(finding));
}

Finding::Party Checker::party(unsigned actor, const uint3& block, std::uint32_t site, const char* did) const {
    const dim3& extents = blocks_[0].threads;
    const unsigned thread = actor % ACTORS;
    const uint3 index = {thread % extents.x, thread / extents.x % extents.y, thread / extents.x / extents.y};
    const char* const engine = thread >= Ordering::TENSOR_CORES ? "the tensor cores" : "the copy engine";
    return {did, block, index, thread < Ordering::ENGINE ? nullptr : engine, site};
}

// The element at an address; in no array, of the nearest one, as if that went on. In shared memory of another block than that
// of this rank, which block's it is.
Finding::Place Checker::place(std::uintptr_t address, std::size_t bytes, unsigned rank) const {
    using Signed = std::int64_t;
    const auto floor_div = [](Signed a, Signed b) { return a / b - (a % b < 0); };
    const auto distance = [&](std::uintptr_t begin, std::size_t bytes) -> std::uintptr_t {
        return address < begin ? begin - address : address - begin < bytes ? 0 : address - begin - bytes + 1;
    };
    if (address < NEAR_NULL) return {"address " + hexadecimal(address) + " (of a null pointer)", false, {}, {}, 1};
    const unsigned there = rank_at(address);
    const bool kept = is_kept(address);
    if (kept) address = number(layout_.static_shared) + (address - number(layout_.kept)) % layout_.kept_stride;
    const std::uintptr_t begin = number(dynamic_shared(there));
    std::uintptr_t nearest = distance(begin, layout_.dynamic_shared_bytes);
    if (layout_.dynamic_shared_bytes == 0) nearest = std::numeric_limits<std::uintptr_t>::max();
    const std::string of_block = there == rank ? "" : " of block " + describe(blocks_[there].index);
    Finding::Place result = {"dynamic shared memory" + of_block, true, {Signed(address - begin)},
                             {Signed(layout_.dynamic_shared_bytes)}, 1};
    for (const Variable& variable : variables_) {
        const std::uintptr_t begin = number(layout_.static_shared) + variable.offset;
        if (distance(begin, variable.bytes) >= nearest) continue;
        nearest = distance(begin, variable.bytes);
        result = {variable.name + (kept ? of_block : ""), true, {Signed(address - begin)}, {Signed(variable.bytes)}, 1};
    }
    for (const Region& region : regions_) {
        const Rows& rows = region.rows;
        if (distance(rows.begin(), rows.bytes()) >= nearest) continue;
        nearest = distance(rows.begin(), rows.bytes());
        const auto offset = Signed(address - rows.begin()), item = Signed(region.item_bytes);
        const Signed row = region.one_row ? 0 : floor_div(offset, Signed(rows.stride()));
        const Signed col = floor_div(offset - row * Signed(rows.stride()), item);
        result = {region.name, false, {row, col}, {region.count, Signed(rows.row_bytes()) / item},
                  std::max<Signed>(Signed(bytes) / item, 1)};
        if (region.one_row) {
            result.index.erase(result.index.begin());
            result.extents.erase(result.extents.begin());
        }
    }
    return result;
}

}  // namespace simt

// Null where the address space has no room for the arrays' shadow memory.
SIMT_EXPORT simt::Observer* simt_make_checker(const simt::CheckedArray* arrays, std::size_t array_count,
                                              const simt::SharedVariable* variables, std::size_t variable_count,
                                              int overlaps) {
    try {
        return new simt::Checker(arrays, array_count, variables, variable_count, overlaps != 0);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

// What a launch has written to the array at an address: as much of it as there is room for, and how much it is.
SIMT_EXPORT std::size_t simt_written(simt::Observer* observer, std::uintptr_t array, simt::Checker::Written* written,
                                     std::size_t room) {
    const auto found = observer->checker()->written_in(array);
    std::copy_n(found.begin(), std::min(room, found.size()), written);
    return found.size();
}
