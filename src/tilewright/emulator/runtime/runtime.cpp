// The emulator's runtime: a launch, spread over the host's processors.
//
// Each worker, a thread of the host, takes one cluster of blocks after another until none is left. Python starts a launch, waits for it
// in slices of time, so that it can handle signals between them, and finishes it, which cancels what still runs.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <signal.h>

#include "block_runner.hpp"
#include "cluster.hpp"
#include "faults.hpp"
#include "shared_segment.hpp"

namespace simt {
namespace {

// Clusters at rest. Their stacks are costly to make, so they outlive the launches.
class Pool {
  public:
    std::unique_ptr<Cluster> take() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!clusters_.empty()) {
                auto cluster = std::move(clusters_.back());
                clusters_.pop_back();
                return cluster;
            }
        }
        return std::make_unique<Cluster>();
    }

    void give_back(std::unique_ptr<Cluster> cluster) {
        if (cluster->is_large()) return;
        std::lock_guard<std::mutex> lock(mutex_);
        clusters_.push_back(std::move(cluster));
    }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Cluster>> clusters_;
};

Pool& pool() {
    static auto* const forever = new Pool;  // never destroyed: a worker may still run when the process exits
    return *forever;
}

}  // namespace

// What is at fault where a launch fails, as Python has it (program.py): the kernel, blocks that do not run at the same time and wait
// for each other, or too little memory.
enum Failure : int { OWN, WAITS_FOR_OTHERS, NO_MEMORY };

// One launch.
class Run {
  public:
    Run(const Launch& launch, unsigned workers)
        : launch_(launch),
          workers_(workers),
          chosen_(launch.chosen ? chosen_clusters(launch) : std::vector<Chosen>{}),
          clusters_(launch.chosen ? chosen_.size()
                                  : std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z / launch.cluster),
          order_(launch.schedule, clusters_) {}

    void start() {
        // Signals from outside are for Python's thread: a handler must not interrupt a fiber, on its small stack.
        sigset_t outside, before;
        sigfillset(&outside);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&outside, fault);
        pthread_sigmask(SIG_BLOCK, &outside, &before);
        try {
            for (unsigned i = 0; i < workers_; ++i) {
                std::lock_guard<std::mutex> lock(mutex_);
                threads_.emplace_back([this] { work(); });
                ++running_;
            }
        } catch (const std::exception& error) {
            if (threads_.empty()) fail(std::string("the emulator cannot start a thread: ") + error.what(), NO_MEMORY);
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    // Whether the launch has ended, at the latest after this time.
    bool wait(std::chrono::milliseconds limit) {
        std::unique_lock<std::mutex> lock(mutex_);
        return ended_.wait_for(lock, limit, [this] { return running_ == 0; });
    }

    // Stops a kernel that is checked where it is, if that is its own code: to be called again and again until it has ended.
    void interrupt() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (is_checked() && running_ != 0) pthread_kill(threads_.front().native_handle(), FaultGuard::END);
    }

    // Cancels what still runs; returns what went wrong.
    std::string finish() {
        stop_ = true;
        for (auto& thread : threads_) thread.join();
        return error_;
    }

    Failure failure() const { return failure_; }

  private:
    struct Chosen {
        std::uint64_t cluster;
        std::vector<bool> ranks;  // of the blocks to run; empty for all
    };

    // In the order in which the first of their blocks are named.
    static std::vector<Chosen> chosen_clusters(const Launch& launch) {
        std::vector<Chosen> result;
        std::unordered_map<std::uint64_t, std::size_t> known;
        for (std::uint64_t i = 0; i < launch.chosen_count; ++i) {
            const std::uint64_t cluster = launch.chosen[i] / launch.cluster;
            const auto [place, added] = known.try_emplace(cluster, result.size());
            if (added) result.push_back({cluster, std::vector<bool>(launch.cluster)});
            result[place->second].ranks[launch.chosen[i] % launch.cluster] = true;
        }
        return result;
    }

    bool is_checked() const { return launch_.observer != nullptr && launch_.observer->checker() != nullptr; }

    void work() {
        try {
            const auto guard = is_checked() ? std::make_unique<FaultGuard>() : nullptr;
            auto cluster = pool().take();
            cluster->prepare(launch_, stop_);
            while (!stop_) {
                const std::uint64_t turn = next_++;
                if (turn >= clusters_) break;
                const Chosen one = launch_.chosen ? chosen_[order_[turn]] : Chosen{order_[turn], {}};
                const std::string error = cluster->run(one.cluster, one.ranks);
                if (!error.empty()) fail(error, cluster->waits_for_others() ? WAITS_FOR_OTHERS : OWN);
            }
            pool().give_back(std::move(cluster));
        } catch (const std::exception& error) {  // std::bad_alloc, and where the system refuses stacks or locks
            fail(std::string("the emulator cannot run it: ") + error.what(), NO_MEMORY);
        }
        std::lock_guard<std::mutex> lock(mutex_);
        --running_;
        ended_.notify_all();
    }

    // The first error is kept.
    void fail(const std::string& error, Failure failure) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (error_.empty()) {
            error_ = error;
            failure_ = failure;
        }
        stop_ = true;
    }

    const Launch launch_;
    const unsigned workers_;
    const std::vector<Chosen> chosen_;
    const std::uint64_t clusters_;
    const Order order_;  // of the clusters
    std::atomic<bool> stop_{false};
    std::atomic<std::uint64_t> next_{0};
    std::mutex mutex_;  // of what follows
    std::condition_variable ended_;
    std::vector<std::thread> threads_;
    unsigned running_ = 0;
    std::string error_;
    Failure failure_ = OWN;
};

}  // namespace simt

// What Python calls.

SIMT_EXPORT std::size_t simt_static_shared_bytes(void (*call)(void**)) {
    return simt::SharedSegment(reinterpret_cast<void*>(call)).bytes;
}

// The report of an observer, to be read before the calling thread asks for another.
SIMT_EXPORT const char* simt_report(simt::Observer* observer) {
    static thread_local std::string text;
    text = observer->report();
    return text.c_str();
}

SIMT_EXPORT void simt_delete_observer(simt::Observer* observer) { delete observer; }

SIMT_EXPORT simt::Run* simt_create(const simt::Launch* launch, unsigned workers) {
    return new simt::Run(*launch, workers);
}

SIMT_EXPORT void simt_start(simt::Run* run) { run->start(); }

SIMT_EXPORT int simt_wait(simt::Run* run, unsigned milliseconds) {
    return run->wait(std::chrono::milliseconds(milliseconds));
}

SIMT_EXPORT void simt_interrupt(simt::Run* run) { run->interrupt(); }

// Why it failed, if it did: a `Failure`.
SIMT_EXPORT int simt_finish(simt::Run* run, char* error, std::size_t size) {
    std::snprintf(error, size, "%s", run->finish().c_str());
    std::fflush(stdout);  // what the kernel has printed
    const int failure = run->failure();
    delete run;
    return failure;
}
