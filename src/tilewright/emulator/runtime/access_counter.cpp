// Counters: what the accesses of a kernel cost a GPU's pipes to memory, place by place in the code.
//
// On a GPU the lanes of a warp execute an instruction together; here one after the other. Lanes that were at the same place
// equally often since the last barrier are taken to have been there together: theirs is one request.
//
// A GPU's compiler merges accesses of neighbouring words to vectors, as far as it sees that they lie on a vector's
// boundary. So shared accesses are counted thrice: as the source makes them, and merged to 8 and to 16 bytes where that is
// possible between two barriers. Which of the three holds shows in the machine code.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "async_copies.hpp"
#include "block_runner.hpp"
#include "observer.hpp"
#include "pipe_model.hpp"

namespace simt {
namespace {

constexpr std::uint32_t VECTOR_BYTES = 16;
constexpr std::uint32_t WORD = 4;
constexpr std::uintptr_t DYNAMIC = std::uintptr_t{1} << 40;  // tells dynamic from static shared memory

enum class Pipe { global_load, global_store, global_atomic, shared_load, shared_store, shared_atomic, copy, product };
constexpr const char* PIPE_NAMES[] = {"global_load",  "global_store", "global_atomic", "shared_load",
                                      "shared_store", "shared_atomic", "copy", "product"};

struct Tally {
    std::uint64_t requests = 0, wavefronts = 0, least_wavefronts = 0;

    void add(const Request& request, std::uint32_t bytes) {
        const Wavefronts cost = simt::wavefronts(request, bytes);
        ++requests;
        wavefronts += cost.all;
        least_wavefronts += cost.least;
    }
};

// A place in the code that accesses memory, and what its accesses cost.
struct Site {
    std::uintptr_t address;  // in the code; of a copy, its line
    const char* file;        // of a copy
    Pipe pipe;
    std::uint32_t bytes;
    std::uint64_t accesses = 0, sectors = 0;
    std::uint64_t reading = 0;  // of a copy's requests, those that read anything
    std::uint64_t lines = 0, passes = 0;  // of the L1 cache, of global loads and stores
    Tally as_written = {}, merged_to_8 = {}, merged_to_16 = {};
};

// What the lanes of a warp did at a place since the last barrier, by occurrence.
struct Visits {
    std::array<std::uint32_t, WARP_SIZE> of_lane = {};
    std::vector<Request> requests;
    std::vector<Request> targets;  // of copies, in shared memory
    std::size_t used = 0;

    // The request that the lane's next visit belongs to.
    std::size_t next(unsigned lane) {
        const std::size_t occurrence = of_lane[lane]++;
        if (occurrence == used) {
            if (requests.size() == used) requests.emplace_back();
            if (targets.size() > used) targets[used].lanes = 0;
            requests[used++].lanes = 0;
        }
        return occurrence;
    }

    void clear() {
        of_lane.fill(0);
        used = 0;
    }
};

class AccessCounter : public Observer {
  public:
    void begin_launch(const Layout& layout) override {
        library_ = layout.library;
        block_warps_ = (layout.threads + WARP_SIZE - 1) / WARP_SIZE;
        warps_.assign(layout.cluster * block_warps_, {});
    }

    // What blocks do that were not chosen counts nothing.
    void begin_block(const Block& block) override { blocks_ += block.chosen; }

    void end_block(const Block& block) override {
        for (std::size_t warp = 0; warp < block_warps_; ++warp) settle(warps_[block.rank * block_warps_ + warp]);
    }

    void block_barrier(const Block& block, const Call&) override { end_block(block); }

    void cluster_barrier(const Call&) override {
        for (WarpVisits& warp : warps_) settle(warp);
    }

    void warp_exchange(const Warp& warp, unsigned lanes, const Call& call) override {
        if (call.operation == Operation::syncwarp && lanes == warp.live) settle(visits_of(*warp.threads));
    }

    void access(const Access& access) override {
        if (!access.thread.block->chosen) return;
        const std::size_t site = find(access);
        Visits& visits = visit(access.thread, site);
        Request& request = visits.requests[visits.next(access.thread.lane)];
        request.lanes |= 1u << access.thread.lane;
        request.address[access.thread.lane] = access.space == Space::global           ? access.address
                                              : access.space == Space::static_shared ? access.offset
                                                                                     : access.offset + DYNAMIC;
        ++sites_[site].accesses;
    }

    void copy_started(const GpuThread& thread, const CopyAccess& copy) override {
        if (!thread.block->chosen) return;
        const auto [found, added] = copies_.try_emplace({copy.call.file, copy.call.line, copy.bytes}, sites_.size());
        if (added) sites_.push_back({std::uintptr_t(copy.call.line), copy.call.file, Pipe::copy, copy.bytes});
        Visits& visits = visit(thread, found->second);
        const std::size_t occurrence = visits.next(thread.lane);
        visits.targets.resize(visits.requests.size());
        Request &from = visits.requests[occurrence], &to = visits.targets[occurrence];
        // A copy that reads nothing, outside of its matrix, writes zeros all the same.
        if (copy.read != 0) from.lanes |= 1u << thread.lane;
        from.address[thread.lane] = reinterpret_cast<std::uintptr_t>(copy.global);
        to.lanes |= 1u << thread.lane;
        to.address[thread.lane] = reinterpret_cast<std::uintptr_t>(copy.shared);
        ++sites_[found->second].accesses;
    }

    // The L2 cache is asked once, by the block that loads, and every block that gets the tile writes it.
    void tile_started(const GpuThread& thread, const TileCopy& copy, const void*) override {
        if (copy.block->chosen) tile_shared_bytes_ += copy.bytes();
        if (copy.again || !thread.block->chosen) return;
        ++tiles_;
        tile_bytes_ += copy.bytes();
    }

    void store_started(const GpuThread& thread, const TileStore& store) override {
        if (!thread.block->chosen) return;
        ++tiles_;
        store.each_piece_inside([&](int, std::size_t, std::size_t bytes) { tile_bytes_ += bytes; });
    }

    // A product reads A and B itself, in which order is the GPU's own affair. It is counted as if from distinct banks.
    void product_started(const Warpgroup& group, const Call& call, const std::vector<FactorWords>& factors) override {
        if (!group.threads->block->chosen) return;
        const auto [found, added] = products_.try_emplace({call.file, call.line, WORD}, sites_.size());
        if (added) sites_.push_back({std::uintptr_t(call.line), call.file, Pipe::product, WORD});
        Site& site = sites_[found->second];
        std::size_t words = 0;
        for (const FactorWords& factor : factors) words += factor.words;
        site.accesses += words;
        const std::uint64_t wavefronts = (words + WARP_SIZE - 1) / WARP_SIZE;
        for (Tally* tally : {&site.as_written, &site.merged_to_8, &site.merged_to_16}) {
            ++tally->requests;
            tally->wavefronts += wavefronts;
            tally->least_wavefronts += wavefronts;
        }
    }

    // Which lane holds what of a fragment is the GPU's own affair. In shared memory it is counted as pieces of 16 bytes, one a
    // lane; in global memory as compilers make it: a request is 16 bytes of each of 8 lines, or 32 where a line has 64.
    void fragment(const Warp& warp, const Call& call, const FragmentAccess& access) override {
        if (!warp.threads->block->chosen) return;
        const bool shared = access.space != Space::global;
        const bool reads = access.kind == AccessKind::read;
        const Pipe pipe = shared ? (reads ? Pipe::shared_load : Pipe::shared_store)
                                 : (reads ? Pipe::global_load : Pipe::global_store);
        const std::uint32_t bytes = shared ? VECTOR_BYTES : access.lane_bytes;
        const auto [found, added] = fragments_.try_emplace({call.file, call.line, unsigned(pipe)}, sites_.size());
        if (added) sites_.push_back({std::uintptr_t(call.line), call.file, pipe, bytes});
        Site& site = sites_[found->second];
        Request request;
        unsigned lane = 0;
        const auto send = [&] {
            if (shared) {
                for (Tally* tally : {&site.as_written, &site.merged_to_8, &site.merged_to_16}) tally->add(request, bytes);
            } else {
                add_global(site, request);
            }
            request.lanes = lane = 0;
        };
        const std::size_t run = shared ? VECTOR_BYTES : std::max<std::size_t>(VECTOR_BYTES, access.line_bytes / 2);
        for (std::size_t first = 0; first < access.line_bytes; first += run) {
            for (std::size_t line = 0; line < access.lines; ++line) {
                for (std::size_t byte = first; byte < first + run; byte += bytes) {
                    request.lanes |= 1u << lane;
                    request.address[lane] = access.address + line * access.stride + byte;
                    ++site.accesses;
                    if (++lane == WARP_SIZE) send();
                }
            }
        }
        if (lane != 0) send();
        fragment_accesses_ += shared;
    }

    std::string report() override {
        std::string sites;
        for (const Site& site : sites_) {
            if (!sites.empty()) sites += ",";
            sites += "{\"place\":" + std::to_string(site.file ? site.address : site.address - library_) +
                     ",\"file\":" + (site.file ? "\"" + std::string(site.file) + "\"" : "null") + ",\"pipe\":\"" +
                     PIPE_NAMES[int(site.pipe)] + "\",\"bytes\":" + std::to_string(site.bytes) +
                     ",\"accesses\":" + std::to_string(site.accesses) + ",\"sectors\":" + std::to_string(site.sectors) +
                     ",\"reading\":" + std::to_string(site.reading) + ",\"lines\":" + std::to_string(site.lines) +
                     ",\"passes\":" + std::to_string(site.passes) +
                     ",\"merged\":{\"" + std::to_string(WORD) + "\":" + text(site.as_written) +
                     ",\"8\":" + text(site.merged_to_8) + ",\"16\":" + text(site.merged_to_16) + "}}";
        }
        return "{\"sites\":[" + sites + "],\"blocks\":" + std::to_string(blocks_) +
               ",\"tiles\":" + std::to_string(tiles_) + ",\"tile_bytes\":" + std::to_string(tile_bytes_) +
               ",\"tile_shared_bytes\":" + std::to_string(tile_shared_bytes_) +
               ",\"fragments\":" + std::to_string(fragment_accesses_) + "}";
    }

  private:
    struct WarpVisits {
        std::vector<Visits> of_site;
        std::vector<std::size_t> visited;  // sites
    };

    // Words within 16 bytes that the same lanes access in the same pattern, of one site or several.
    struct Neighbours {
        std::vector<std::pair<std::size_t, const Request*>> parts;  // site and request
        std::uint32_t words = 0;  // of the 16 bytes, a bit each
    };

    static std::string text(const Tally& tally) {
        return "[" + std::to_string(tally.requests) + "," + std::to_string(tally.wavefronts) + "," +
               std::to_string(tally.least_wavefronts) + "]";
    }

    std::size_t find(const Access& access) {
        const bool shared = access.space != Space::global;
        const int first = int(shared ? Pipe::shared_load : Pipe::global_load);
        const int pipe = first + (access.kind == AccessKind::write ? 1 : is_atomic(access.kind) ? 2 : 0);
        // A hook that tells of two accesses has one address for both.
        const std::uintptr_t key = access.site * 8 + pipe;
        Recent& recent = recent_[key % recent_.size()];
        if (recent.key == key) return recent.site;
        const auto [found, added] = by_address_.try_emplace(key, sites_.size());
        if (added) sites_.push_back({access.site, nullptr, Pipe(pipe), access.bytes});
        recent = {key, found->second};
        return found->second;
    }

    WarpVisits& visits_of(const GpuThread& thread) {
        return warps_[thread.block->rank * block_warps_ + thread.number / WARP_SIZE];
    }

    Visits& visit(const GpuThread& thread, std::size_t site) {
        WarpVisits& warp = visits_of(thread);
        if (warp.of_site.size() <= site) warp.of_site.resize(site + 1);
        Visits& visits = warp.of_site[site];
        if (visits.used == 0) warp.visited.push_back(site);
        return visits;
    }

    static void add_global(Site& site, const Request& request) {
        ++site.as_written.requests;
        site.sectors += sectors(request, site.bytes);
        site.lines += lines(request, site.bytes);
        site.passes += wavefronts(request, site.bytes).all;
    }

    // Counts what a warp has done since the last barrier.
    void settle(WarpVisits& warp) {
        std::map<std::pair<Pipe, std::vector<std::uintptr_t>>, std::vector<Neighbours>> mergeable;
        for (const std::size_t number : warp.visited) {
            Site& site = sites_[number];
            Visits& visits = warp.of_site[number];
            for (std::size_t i = 0; i < visits.used; ++i) {
                const Request& request = visits.requests[i];
                if (site.pipe == Pipe::copy) {
                    site.sectors += sectors(request, site.bytes);
                    site.reading += request.lanes != 0;
                    site.as_written.add(visits.targets[i], site.bytes);
                } else if (site.pipe < Pipe::shared_load) {
                    add_global(site, request);
                } else {
                    site.as_written.add(request, site.bytes);
                    const bool whole = site.bytes == WORD || site.bytes == 2 * WORD;
                    if (whole && site.pipe != Pipe::shared_atomic) {
                        std::vector<Neighbours>& known = mergeable[{site.pipe, pattern(request)}];
                        const std::uint32_t words = ((1u << site.bytes / WORD) - 1)
                                                    << first_address(request) % VECTOR_BYTES / WORD;
                        // A word accessed once more is another access.
                        if (known.empty() || (known.back().words & words) != 0) known.emplace_back();
                        known.back().parts.emplace_back(number, &request);
                        known.back().words |= words;
                    } else {
                        site.merged_to_8.add(request, site.bytes);
                        site.merged_to_16.add(request, site.bytes);
                    }
                }
            }
        }
        for (const auto& [key, known] : mergeable) {
            for (const Neighbours& around : known) merge(key.first, around);
        }
        for (const std::size_t number : warp.visited) warp.of_site[number].clear();
        warp.visited.clear();
    }

    static std::uintptr_t first_address(const Request& request) {
        return request.address[__builtin_ctz(request.lanes)];
    }

    // What requests have in common that one vector can serve: the lanes, where their 16 bytes lie, and, where not all
    // lanes have the same place in theirs, which word.
    static std::vector<std::uintptr_t> pattern(const Request& request) {
        std::vector<std::uintptr_t> key = {request.lanes};
        const std::uintptr_t within = first_address(request) % VECTOR_BYTES;
        bool alike = true;
        for (std::uint32_t left = request.lanes; left != 0; left &= left - 1) {
            const std::uintptr_t address = request.address[__builtin_ctz(left)];
            alike = alike && address % VECTOR_BYTES == within;
            key.push_back(address / VECTOR_BYTES);
        }
        if (!alike) {
            for (std::uint32_t left = request.lanes; left != 0; left &= left - 1) {
                key.push_back(request.address[__builtin_ctz(left)]);
            }
        }
        return key;
    }

    // A load may take in a word of the 16 bytes that nobody asked for; a store may not.
    void merge(Pipe pipe, const Neighbours& around) {
        const std::uint32_t words = around.words;
        const bool to_16 = pipe == Pipe::shared_load ? __builtin_popcount(words) >= 3 : words == 0xf;
        merge_pairs(around, &Site::merged_to_8);
        if (to_16) {
            add_vector(around, 0xf, VECTOR_BYTES, &Site::merged_to_16);
        } else {
            merge_pairs(around, &Site::merged_to_16);
        }
    }

    void merge_pairs(const Neighbours& around, Tally Site::* tally) {
        for (const std::uint32_t pair : {0x3u, 0xcu}) {
            if ((around.words & pair) == pair) {
                add_vector(around, pair, 2 * WORD, tally);
                continue;
            }
            for (const auto& [site, request] : around.parts) {
                if (pair >> first_address(*request) % VECTOR_BYTES / WORD & 1) {
                    (sites_[site].*tally).add(*request, sites_[site].bytes);
                }
            }
        }
    }

    // One request for all words of `of`, told to the site of the first of them.
    void add_vector(const Neighbours& around, std::uint32_t of, std::uint32_t bytes, Tally Site::* tally) {
        for (const auto& [site, request] : around.parts) {
            if (!(of >> first_address(*request) % VECTOR_BYTES / WORD & 1)) continue;
            Request vector = *request;
            for (std::uintptr_t& address : vector.address) address = address / bytes * bytes;
            (sites_[site].*tally).add(vector, bytes);
            return;
        }
    }

    struct Recent {
        std::uintptr_t key = 0;
        std::size_t site = 0;
    };
    struct Place {
        const char* file;
        int line;
        unsigned bytes;
        bool operator<(const Place& other) const {
            return std::tie(file, line, bytes) < std::tie(other.file, other.line, other.bytes);
        }
    };

    std::uintptr_t library_ = 0;
    std::size_t block_warps_ = 0;
    std::vector<WarpVisits> warps_;  // of all blocks of a cluster
    std::vector<Site> sites_;
    std::unordered_map<std::uintptr_t, std::size_t> by_address_;
    std::array<Recent, 1024> recent_;
    std::map<Place, std::size_t> copies_, fragments_, products_;
    std::uint64_t blocks_ = 0, tiles_ = 0, tile_bytes_ = 0, tile_shared_bytes_ = 0, fragment_accesses_ = 0;
};

}  // namespace
}  // namespace simt

SIMT_EXPORT simt::Observer* simt_make_access_counter() { return new simt::AccessCounter; }
