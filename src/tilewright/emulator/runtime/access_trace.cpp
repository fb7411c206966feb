// A trace: what one warp of one block accesses, event by event, what lies in the block's shared memory, and which thread
// writes each element of C.
#include <cstring>
#include <string>
#include <vector>

#include "async_copies.hpp"
#include "block_runner.hpp"
#include "observer.hpp"

namespace simt {
namespace {

class AccessTrace : public Observer {
  public:
    // The warp to trace, and C: this many elements from an address on, the gaps between rows included.
    AccessTrace(std::uint64_t block, unsigned warp, const void* C, std::uint64_t elements, unsigned element_bytes)
        : block_(block),
          warp_(warp),
          C_(reinterpret_cast<std::uintptr_t>(C)),
          element_bytes_(element_bytes),
          writers_(elements, -1) {}

    void begin_launch(const Layout& layout) override {
        layout_ = layout;
        layout_.dynamic_shared += block_ % layout.cluster * layout.dynamic_shared_stride;
        static_words_.assign(layout.static_shared_bytes / 4 + 1, 0);
        dynamic_words_.assign(layout.dynamic_shared_bytes / 4 + 1, 0);
    }

    void block_barrier(const Block& block, const Call&) override { step_ += number(block) == block_; }
    void cluster_barrier(const Call&) override { ++step_; }

    void access(const Access& access) override {
        if (access.kind != AccessKind::read && access.space == Space::global) {
            note_writer(access.thread, access.address, access.bytes);
        }
        if (number(*access.thread.block) != block_) return;
        const bool reads = access.kind == AccessKind::read;
        std::uint32_t word = 0;
        if (reads && access.space != Space::global) {
            note_words(access.address, access.bytes);
            std::memcpy(&word, reinterpret_cast<const void*>(access.address), access.bytes < 4 ? access.bytes : 4);
        }
        const bool global = access.space == Space::global;
        add(access.thread, access.site - layout_.library, access.space, reads ? "load" : "store", global ? access.address : access.offset,
            access.bytes, word);
    }

    void fragment(const Warp& warp, const Call&, const FragmentAccess& fragment) override {
        if (number(*warp.threads->block) != block_ || fragment.kind != AccessKind::read) return;
        for (std::size_t line = 0; line < fragment.lines; ++line) {
            note_words(fragment.address + line * fragment.stride, fragment.line_bytes);
        }
    }

    void copy_started(const GpuThread& thread, const CopyAccess& copy) override {
        if (number(*thread.block) != block_) return;
        const auto site = std::uintptr_t(copy.call.line);
        add(thread, site, Space::global, "copy", reinterpret_cast<std::uintptr_t>(copy.global), copy.read, 0);
        const auto to = reinterpret_cast<std::uintptr_t>(copy.shared);
        const Space space = in(to, layout_.dynamic_shared, layout_.dynamic_shared_bytes) ? Space::dynamic_shared
                                                                                       : Space::static_shared;
        add(thread, site, space, "copy", to - start_of(space), copy.bytes, 0);
    }

    void tile_started(const GpuThread&, const TileCopy& copy, const void*) override {
        if (number(*copy.block) != block_) return;
        if (!tiles_.empty()) tiles_ += ",";
        const TensorMap& map = copy.map;
        const auto matrix = std::int64_t(reinterpret_cast<std::uintptr_t>(map.data));
        // Matrices that are the panels of one lie side by side in its rows.
        const auto& [row_stride, panel_stride, further, furthest] = map.strides;
        const std::int64_t col = panel_stride < row_stride ? copy.at[2] * panel_stride / map.element_bytes : 0;
        tiles_ += list(std::vector<std::int64_t>{matrix, copy.at[1], col + copy.at[0], map.box[1], map.box[0] * map.box[2]});
    }

    void store_started(const GpuThread& thread, const TileStore& store) override {
        store.each_piece_inside([&](int row, std::size_t byte, std::size_t bytes) {
            note_writer(thread, reinterpret_cast<std::uintptr_t>(store.row_in_memory(row)) + byte, bytes);
        });
    }

    std::string report() override {
        return "{\"events\":[" + events_ + "],\"tiles\":[" + tiles_ + "],\"static_words\":" + list(static_words_) +
               ",\"dynamic_words\":" + list(dynamic_words_) + ",\"writers\":" + list(writers_) + "}";
    }

  private:
    static std::uint64_t number(const Block& block) {
        return block.index.x + std::uint64_t{block.grid.x} * (block.index.y + std::uint64_t{block.grid.y} * block.index.z);
    }

    static bool in(std::uintptr_t address, const unsigned char* start, std::size_t bytes) {
        return address - reinterpret_cast<std::uintptr_t>(start) < bytes;
    }

    std::uintptr_t start_of(Space space) const {
        return reinterpret_cast<std::uintptr_t>(space == Space::static_shared ? layout_.static_shared
                                                                               : layout_.dynamic_shared);
    }

    // What the words of shared memory held when a thread of the block first read them.
    void note_words(std::uintptr_t address, std::size_t bytes) {
        const bool dynamic = in(address, layout_.dynamic_shared, layout_.dynamic_shared_bytes);
        if (!dynamic && !in(address, layout_.static_shared, layout_.static_shared_bytes)) return;
        auto& words = dynamic ? dynamic_words_ : static_words_;
        const std::uintptr_t start = start_of(dynamic ? Space::dynamic_shared : Space::static_shared);
        for (std::uintptr_t at = address & ~std::uintptr_t{3}; at < address + bytes; at += 4) {
            std::uint32_t& word = words[(at - start) / 4];
            if (word == 0) std::memcpy(&word, reinterpret_cast<const void*>(at), 4);
        }
    }

    // An element's writer: its block's number times 1024, plus its own.
    void note_writer(const GpuThread& thread, std::uintptr_t address, std::size_t bytes) {
        if (address < C_) return;
        for (std::size_t i = (address - C_) / element_bytes_; i < (address - C_ + bytes) / element_bytes_; ++i) {
            if (i < writers_.size()) writers_[i] = std::int64_t(number(*thread.block) * 1024 + thread.number);
        }
    }

    void add(const GpuThread& thread, std::uintptr_t site, Space space, const char* kind, std::uint64_t address,
             std::uint64_t bytes, std::uint32_t word) {
        if (thread.warp->number != warp_) return;
        static constexpr const char* NAMES[] = {"static", "dynamic", "global"};
        if (!events_.empty()) events_ += ",";
        events_ += std::string("[\"") + NAMES[int(space)] + "\",\"" + kind + "\",";
        events_ += list(std::vector<std::uint64_t>{step_, thread.lane, site, address, bytes, word}).substr(1);
    }

    template <typename T>
    static std::string list(const std::vector<T>& numbers) {
        std::string text = "[";
        for (const T number : numbers) {
            if (text.size() > 1) text += ",";
            text += std::to_string(number);
        }
        return text + "]";
    }

    const std::uint64_t block_;
    const unsigned warp_;
    const std::uintptr_t C_;
    const unsigned element_bytes_;
    std::vector<std::int64_t> writers_;
    Layout layout_{};
    std::uint64_t step_ = 0;  // barriers that the traced block has passed
    std::vector<std::uint32_t> static_words_, dynamic_words_;
    std::string events_, tiles_;
};

}  // namespace
}  // namespace simt

SIMT_EXPORT simt::Observer* simt_make_trace(std::uint64_t block, unsigned warp, const void* C, std::uint64_t elements,
                                            unsigned element_bytes) {
    return new simt::AccessTrace(block, warp, C, elements, element_bytes);
}
