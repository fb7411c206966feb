// What happens before what: in the order that barriers and fences give on a GPU, whatever order threads run in here.
//
// Time counts the events that order accesses. A barrier of the block orders all that arrived before it with all that comes
// after: the common case, and one comparison. Between two barriers each thread knows of the others what __syncwarp and
// mbarriers told it: up to which time their accesses come before its own (vector clocks; Flanagan and Freund,
// "FastTrack", 2009). So do the blocks of a cluster of one another, which run at the same time. Other blocks know of one another what they passed on by an atomic operation between fences (CUDA C++
// Programming Guide, "Memory Fence Functions"): see release.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "block_runner.hpp"
#include "release.hpp"
#include "stamp.hpp"

namespace simt {

// Up to which time the accesses of others come before one's own, by actor. Views that have learnt the same have the same rows in
// memory, all of them or most: threads that go through the same barriers know the same.
class View {
  public:
    static constexpr unsigned ROWS = ACTORS / WARP_SIZE;  // of a block: one for each warp, and two more
    using Row = std::array<Time, WARP_SIZE>;

    Time operator[](unsigned actor) const {
        const unsigned index = actor / WARP_SIZE;
        return rows_ && index < rows_->size() && (*rows_)[index] ? (*(*rows_)[index])[actor % WARP_SIZE] : 0;
    }

    // A row that is no other view's, to be written to.
    Row& row(unsigned index) {
        Rows& rows = own_rows(index + 1);
        if (!rows[index]) {
            rows[index] = std::make_shared<Row>(Row{});
        } else if (rows[index].use_count() > 1) {
            rows[index] = std::make_shared<Row>(*rows[index]);
        }
        return *rows[index];
    }

    void learn(unsigned actor, Time time) { row(actor / WARP_SIZE)[actor % WARP_SIZE] = time; }

    void learn(const View& other) {
        if (!other.rows_ || rows_ == other.rows_) return;
        if (!rows_) {
            rows_ = other.rows_;
        } else if (rows_ == other.known_.before) {
            rows_ = other.known_.after;
        } else {
            std::shared_ptr<Rows> before = rows_;
            for (unsigned i = 0; i < other.rows_->size(); ++i) learn_row(i, (*other.rows_)[i]);
            other.known_ = {std::move(before), rows_};
        }
    }

    // Has all of these learn the same.
    template <typename ViewOf>
    static void learn(unsigned count, const ViewOf& view_of, unsigned actor, Time time) {
        Told known;
        for (unsigned i = 0; i < count; ++i) {
            View& view = view_of(i);
            if (i == 0 || view.rows_ != known.before) {
                known.before = view.rows_;
                view.learn(actor, time);
                known.after = view.rows_;
            } else {
                view.rows_ = known.after;
            }
        }
    }

  private:
    using Times = Time __attribute__((vector_size(sizeof(Row))));  // of a row, compared at once
    using Rows = std::vector<std::shared_ptr<Row>>;

    Rows& own_rows(std::size_t count) {
        known_ = {};
        if (!rows_) {
            rows_ = std::make_shared<Rows>();
        } else if (rows_.use_count() > 1) {
            rows_ = std::make_shared<Rows>(*rows_);
        }
        if (rows_->size() < count) rows_->resize(count);
        return *rows_;
    }

    void learn_row(unsigned index, const std::shared_ptr<Row>& other) {
        const std::shared_ptr<Row> known = index < rows_->size() ? (*rows_)[index] : nullptr;
        if (known == other || !other) return;
        if (known) {
            Times times, others;
            std::memcpy(&times, known->data(), sizeof times);
            std::memcpy(&others, other->data(), sizeof others);
            const Times last = others > times ? others : times;
            if (std::memcmp(&last, &times, sizeof last) == 0) return;
            if (std::memcmp(&last, &others, sizeof last) != 0) {
                std::memcpy(row(index).data(), &last, sizeof last);
                return;
            }
        }
        own_rows(index + 1)[index] = other;
    }

    // What the last view that learnt this one had been, and became: the next one mostly becomes it too.
    struct Told {
        std::shared_ptr<Rows> before, after;
    };

    std::shared_ptr<Rows> rows_;
    mutable Told known_;
};

class Ordering {
  public:
    // Of a block's actors: the first of the copy engine, which counts as one of its own for each mbarrier, and of the tensor
    // cores, one for each warpgroup.
    static constexpr unsigned ENGINE = 32 * WARP_SIZE;
    static constexpr unsigned TENSOR_CORES = ENGINE + WARP_SIZE;

    // threads: of each block; cluster: blocks that run together; cooperative: whether these are a grid that synchronises, of
    // which blocks know of one another what that tells, and what atomic operations between fences do.
    void begin_launch(unsigned threads, unsigned cluster, bool cooperative) {
        threads_ = threads;
        is_cluster_ = cluster > 1 && !cooperative;
        blocks_ = std::vector<Running>(cluster);
        views_ = std::vector<View>((cluster - 1) * ACTORS + threads);
        async_fences_.assign(views_.size(), {});
        products_.assign((cluster - 1) * WARPGROUPS + (threads + WARPGROUP_SIZE - 1) / WARPGROUP_SIZE, {});
        read_.assign(products_.size(), 0);
        read_before_barrier_ = read_;
        left_.assign(views_.size(), NEVER);
        releases_.begin_launch(threads, cluster);
    }

    // To be called for each block of a cluster, before any of them runs.
    void begin_block(const Block& block) {
        if (block.rank == 0) {
            start_ = together_ = ++now_;
            barriers_.clear();
            for (auto& times : products_) times.clear();
            for (auto& times : async_fences_) times.clear();
            std::fill(left_.begin(), left_.end(), NEVER);
            some_left_ = false;
        }
        blocks_[block.rank] = {start_};
        releases_.begin_block(block.rank, start_, block.index);
    }

    Time now() const { return now_; }
    Time start() const { return start_; }  // of the blocks that run

    // When all threads that run last synced: what came earlier comes before all that any of them does now.
    Time together() const { return together_; }

    bool is_cluster() const { return is_cluster_; }

    // Barriers order what a thread has done up to its last one, and nothing that it did between that and its return.
    bool some_left() const { return some_left_; }  // whether a barrier has opened since some thread so returned
    bool has_left(const Stamp& stamp) const { return stamp.actor < left_.size() && stamp.time >= left_[stamp.actor]; }

    void block_barrier(unsigned rank) {
        ++now_;
        if (is_cluster()) learn_all(rank, blocks_[rank].known);
        pass_barrier(rank);
    }

    void cluster_barrier() {
        together_ = ++now_;
        View all;
        for (unsigned rank = 0; is_cluster() && rank < blocks_.size(); ++rank) learn_all(rank, all);
        for (unsigned rank = 0; rank < blocks_.size(); ++rank) {
            if (is_cluster()) blocks_[rank].known.learn(all);
            pass_barrier(rank);
        }
    }

    // The lanes know of one another, and what any of them knew.
    void warp_barrier(const Warp& warp, unsigned lanes) {
        View together;
        for (unsigned left = lanes; left != 0; left &= left - 1) {
            const unsigned thread = warp.threads[__builtin_ctz(left)].actor;
            together.learn(views_[thread]);
            together.learn(in_view(thread), now_);
        }
        for (unsigned left = lanes; left != 0; left &= left - 1) {
            views_[warp.threads[__builtin_ctz(left)].actor].learn(together);
        }
        releases_.warp_barrier(rank_of(warp.threads->actor), warp.threads->number, lanes);
        ++now_;
    }

    void fence(unsigned thread) {
        releases_.fence(thread, now_++, views_[thread].row(in_view(thread) / WARP_SIZE));
    }

    void atomic(unsigned thread, std::uintptr_t address, bool shared, bool writes) {
        releases_.atomic(thread, address, now_++, shared, writes);
    }

    void barrier_made(unsigned thread, const void* barrier) {
        const unsigned rank = rank_of(thread);
        barriers_[barrier].engine = rank * ACTORS + ENGINE + blocks_[rank].made++ % WARP_SIZE;
    }
    void barrier_arrived(unsigned thread, const void* barrier) {
        View& coming = barriers_[barrier].coming;
        coming.learn(views_[thread]);
        if (is_cluster()) coming.learn(blocks_[rank_of(thread)].known);
        barriers_[barrier].arrivals.push_back({now_, 0, thread, 0});
        coming.learn(in_view(thread), now_++);
    }
    void phase_ended(const void* barrier) { barriers_[barrier].end_phase(); }

    // A phase is known by its parity alone. A GPU may have let the thread go on as soon as an earlier one of the same parity had
    // ended, unless the thread knows of the end of the one between: it learns what that earlier phase tells.
    void barrier_passed(unsigned thread, const void* barrier) {
        const std::deque<Phase>& phases = barriers_[barrier].phases;
        std::size_t ended = phases.size();
        while (ended >= 2 && !knows_of(phases[ended - 2], thread)) ended -= 2;
        if (ended > 0) views_[thread].learn(phases[ended - 1].known);
    }

    // Of a named barrier, which waits for its threads' own arrivals.
    void named_passed(unsigned thread, const void* barrier) { views_[thread].learn(barriers_[barrier].phases.back().known); }

    // The copy engine's actor for an mbarrier, which has now written what it counts there.
    unsigned engine_arrived(const void* barrier) {
        Barrier& at = barriers_[barrier];
        at.arrivals.push_back({now_, 0, at.engine, 0});
        at.coming.learn(in_view(at.engine), now_++);
        return at.engine;
    }

    // What a thread has written is shown to the copy engine and the tensor cores from its next fence on, for those who know
    // of the fence.
    void fence_async(unsigned thread) { async_fences_[thread].push_back(now_++); }
    enum class Shown { yes, unfenced, late };
    Shown shown(const Stamp& write, unsigned thread, bool in_fragment) const {
        if (write.actor % ACTORS >= ENGINE || write.time < start_) return Shown::yes;
        const std::vector<Time>& fences = async_fences_[write.actor];
        const auto fence = std::lower_bound(fences.begin(), fences.end(), write.time);
        if (fence == fences.end()) return Shown::unfenced;
        return before({*fence, 0, write.actor, 0}, thread, in_fragment) ? Shown::yes : Shown::late;
    }

    // The actor that a warpgroup's products read as.
    static unsigned tensor_cores(const Warpgroup& group) {
        const GpuThread& first = *group.threads;
        return rank_of(first.actor) * ACTORS + TENSOR_CORES + first.number / WARPGROUP_SIZE;
    }

    // A product starts, whose reads are the tensor cores' at `now`; it ends, and the warpgroup's threads know of them.
    void product_started(unsigned tensor_cores) { products_[index_of(tensor_cores)].push_back(now_++); }
    void product_ended(const Warpgroup& group) {
        const unsigned actor = tensor_cores(group), index = index_of(actor);
        read_[index] = products_[index].front();
        const auto view_of = [&](unsigned t) -> View& { return views_[group.threads[t].actor]; };
        View::learn(WARPGROUP_SIZE, view_of, in_view(actor), read_[index]);
        products_[index].pop_front();
    }

    // A thread has returned: what it knew, its block waited for before it ended. acted: when it did something last.
    void returned(unsigned thread, Time acted) {
        Running& block = blocks_[rank_of(thread)];
        if (acted >= block.barrier) {
            left_[thread] = block.barrier;
            block.left = true;
        }
        if (is_cluster()) blocks_[rank_of(thread)].waited_for.learn(views_[thread]);
    }
    bool waited_for(const Stamp& stamp, unsigned rank) const {
        return stamp.time < together_ || stamp.time <= blocks_[rank].waited_for[stamp.actor] ||
               stamp.time <= blocks_[rank].known[stamp.actor];
    }

    // Whether an access comes before what a thread does now. Which lanes move a fragment's elements nobody knows: there
    // an access does not come before for being the same lane's.
    bool before(const Stamp& stamp, unsigned thread, bool in_fragment) const {
        if (stamp.time < start_) return releases_.before(stamp, thread);
        const Running& block = blocks_[rank_of(thread)];
        const bool own = rank_of(stamp.actor) == rank_of(thread);
        if (is_tensor_cores(stamp)) {
            if (own && stamp.time <= read_before_barrier_[index_of(stamp.actor)]) return true;
        } else {
            if (stamp.time < (own ? block.barrier : together_) && !(some_left_ && has_left(stamp))) return true;
            if (stamp.actor == thread && !in_fragment && !(stamp.flags & Stamp::FRAGMENT)) return true;
        }
        if ((own || is_cluster()) && stamp.time <= views_[thread][in_view(stamp.actor)]) return true;
        const bool is_thread = stamp.actor % ACTORS < ENGINE;
        if (is_cluster() && stamp.time <= block.known[stamp.actor]) return true;
        return is_thread && releases_.before(stamp, thread);
    }

    // Whose reads a barrier of the block orders only once they have been waited for.
    static bool is_tensor_cores(const Stamp& stamp) { return stamp.actor % ACTORS >= TENSOR_CORES; }

    // The block that left a stamp.
    const uint3& block_of(const Stamp& stamp) const { return releases_.block_of(stamp); }

  private:
    static constexpr unsigned WARPGROUPS = ENGINE / WARPGROUP_SIZE;  // of a block, at most

    // Of an mbarrier, that has ended.
    struct Phase {
        std::vector<Stamp> arrivals;
        View known;  // told at them, and in the phases before
    };

    struct Barrier {
        static constexpr std::size_t MOST = 32;  // phases that are kept: of both parities as many

        View coming;  // told at all arrivals until now
        std::vector<Stamp> arrivals;  // of the current phase
        std::deque<Phase> phases;     // the last
        unsigned engine;

        void end_phase() {
            phases.push_back({std::move(arrivals), {}});
            phases.back().known.learn(coming);
            arrivals.clear();
            if (phases.size() > MOST) phases.pop_front();
        }
    };

    bool knows_of(const Phase& phase, unsigned thread) const {
        return std::all_of(phase.arrivals.begin(), phase.arrivals.end(),
                           [&](const Stamp& arrival) { return before(arrival, thread, false); });
    }

    // A block that runs. What is a View is kept in clusters of several alone.
    struct Running {
        Time barrier = 0;
        unsigned made = 0;      // mbarriers
        bool left = false;      // whether a thread has returned and was at no barrier after what it did last
        View known = {};        // at its last barrier by all of its threads
        View waited_for = {};   // by threads that have returned, when they did
    };

    // An actor's number in a View: of a cluster, which is small, Views have all blocks, else their own one alone.
    unsigned in_view(unsigned actor) const { return is_cluster() ? actor : actor % ACTORS; }

    static unsigned index_of(unsigned tensor_cores) {
        return rank_of(tensor_cores) * WARPGROUPS + tensor_cores % ACTORS - TENSOR_CORES;
    }

    // All that threads of a block know, and all that they and the copy engine have done until now.
    void learn_all(unsigned rank, View& into) const {
        into.learn(blocks_[rank].known);
        for (unsigned t = 0; t < threads_; ++t) into.learn(views_[rank * ACTORS + t]);
        for (unsigned row = 0; row <= ENGINE / WARP_SIZE; ++row) {
            View::Row& times = into.row(rank * View::ROWS + row);
            if (!blocks_[rank].left) {
                times.fill(now_ - 1);
                continue;
            }
            for (unsigned i = 0; i < WARP_SIZE; ++i) {
                if (!has_left({now_, 0, rank * ACTORS + row * WARP_SIZE + i, 0})) times[i] = now_ - 1;
            }
        }
    }

    void pass_barrier(unsigned rank) {
        blocks_[rank].barrier = now_;
        some_left_ |= blocks_[rank].left;
        if (blocks_.size() == 1) together_ = now_;
        const std::size_t first = rank * WARPGROUPS, end = std::min<std::size_t>(first + WARPGROUPS, read_.size());
        std::copy(read_.begin() + first, read_.begin() + end, read_before_barrier_.begin() + first);
        releases_.block_barrier(rank, now_);
    }

    static constexpr Time NEVER = Stamp::IN_FLIGHT;

    Time now_ = 0;
    Time start_ = 0;
    Time together_ = 0;  // the last barrier of all blocks that run, or when they started
    unsigned threads_ = 0;
    bool is_cluster_ = false;
    bool some_left_ = false;
    std::vector<Time> left_;       // by actor: when what it did began that no barrier orders, since it has returned
    std::vector<Running> blocks_;  // by rank
    std::vector<View> views_;      // of the threads; times before the last barrier are out of date, and do no harm
    std::unordered_map<const void*, Barrier> barriers_;
    std::vector<std::vector<Time>> async_fences_;  // of the threads, since these blocks began
    std::vector<std::deque<Time>> products_;  // of the warpgroups, in flight
    std::vector<Time> read_;                  // the last of each warpgroup's that has ended
    std::vector<Time> read_before_barrier_;
    Releases releases_;
};

}  // namespace simt
