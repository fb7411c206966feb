// What a block's warpgroups do: see wgmma.hpp.

#include <algorithm>
#include <cstring>
#include <string>

#include "block_runner.hpp"
#include "cluster.hpp"
#include "messages.hpp"

namespace simt {
namespace {

constexpr unsigned ROWS = 64;
constexpr std::uint32_t WINDOW_ALIGNMENT = 1024;

constexpr unsigned PIECE_BYTES = 16;  // that lie together, and which swizzles move as a whole

// Calls `visit` for the first element of each run of neighbours, of this many bytes, among those that an instruction reads.
template <typename Visit>
void each_run(const WgmmaFactor& factor, unsigned sides, unsigned bytes, const Visit& visit) {
    const MatrixLayout layout(factor);
    const unsigned run = bytes / bytes_of(factor.type);
    const unsigned side_step = factor.across_k ? run : 1, k_step = factor.across_k ? 1 : run;
    for (unsigned k = 0; k < depth_of(factor.type); k += k_step) {
        for (unsigned side = 0; side < sides; side += side_step) visit(side, k, layout.address(side, k));
    }
}

bool same(const WgmmaFactor& a, const WgmmaFactor& b) {
    return a.descriptor == b.descriptor && a.across_k == b.across_k && a.type == b.type;
}

}  // namespace

bool Accumulator::touched(unsigned t) const {
    for (unsigned i = 0; i < columns / 2; ++i) {
        if (std::memcmp(&registers[t][i], &sums[index(t, i, columns)], sizeof(float)) != 0) return true;
    }
    return false;
}

void Accumulator::load() {
    for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) {
        for (unsigned i = 0; i < columns / 2; ++i) sums[index(t, i, columns)] = registers[t][i];
    }
}

void Accumulator::poison() const {
    for (float* own : registers) std::memset(own, POISON, columns / 2 * sizeof(float));
}

void Accumulator::store() const {
    for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) {
        for (unsigned i = 0; i < columns / 2; ++i) registers[t][i] = sums[index(t, i, columns)];
    }
}

bool RegisterFactor::touched(unsigned t) const { return std::memcmp(registers[t], words[t], sizeof words[t]) != 0; }

void RegisterFactor::load(unsigned t) { std::memcpy(words[t], registers[t], sizeof words[t]); }

unsigned registers_of_thread(std::size_t threads) {
    constexpr std::size_t OF_MULTIPROCESSOR = 65536, MOST = 256, UNIT = 8;
    return unsigned(std::min(OF_MULTIPROCESSOR / threads / UNIT * UNIT, MOST));
}

void Warpgroup::begin_block(unsigned registers_of_thread) {
    arrived = 0;
    registers = asked = registers_of_thread;
    std::fill(std::begin(fenced), std::end(fenced), false);
    accumulators.clear();
    factors.clear();
    open.clear();
    groups.clear();
}

std::uint32_t BlockRunner::dynamic_window() const {
    const std::uintptr_t end = number(static_shared_.data) + static_shared_.bytes;
    return std::uint32_t(end - static_window() + WINDOW_ALIGNMENT - 1) / WINDOW_ALIGNMENT * WINDOW_ALIGNMENT;
}

std::uintptr_t BlockRunner::static_window() const {
    return number(static_shared_.data) / WINDOW_ALIGNMENT * WINDOW_ALIGNMENT;
}

unsigned BlockRunner::shared_address(const void* shared) const {
    const std::uintptr_t in_dynamic = number(shared) - number(block_.dynamic_shared);
    if (in_dynamic <= launch_.dynamic_shared_bytes) return dynamic_window() + std::uint32_t(in_dynamic);
    return std::uint32_t(number(shared) - static_window());  // of other memory, nonsense, as on a GPU
}

const unsigned char* BlockRunner::at_shared(std::uint32_t address, std::size_t bytes) const {
    const bool in_static = address < dynamic_window();
    const std::uintptr_t begin = in_static ? number(static_shared_.data) : number(block_.dynamic_shared);
    const std::size_t size = in_static ? static_shared_.bytes : launch_.dynamic_shared_bytes;
    const std::uintptr_t offset = in_static ? static_window() + address - begin : address - dynamic_window();
    // Past the end of dynamic shared memory the host may have the static.
    return offset < size && bytes <= size - offset ? reinterpret_cast<const unsigned char*>(begin + offset) : nullptr;
}

// Where an address of the window lies, which may be in another block of the cluster.
void* BlockRunner::in_window(const Call& call, std::uint32_t address) {
    const unsigned rank = address >> WINDOW_BITS;
    BlockRunner& there = rank == 0 || rank - 1 == block_.rank ? *this : in_cluster(call, int(rank - 1));
    const unsigned char* const at = there.at_shared(address & ((1u << WINDOW_BITS) - 1), 1);
    if (at == nullptr) fail(call, " for the address " + hexadecimal(address) + ", which is not in shared memory");
    if (&there != this && is_static(at)) return cluster_->kept(there.block_.rank) + (at - static_cast<unsigned char*>(static_shared_.data));
    return const_cast<unsigned char*>(at);
}

// Waits until all threads of the warpgroup have arrived at this call; says whether this one is the last.
bool BlockRunner::warpgroup_syncs(GpuThread* self, const Call& call) {
    Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    if (group.size != WARPGROUP_SIZE) {
        fail(call, ", which takes the 128 threads of a warpgroup, and this one has " + std::to_string(group.size));
    }
    if (group.arrived == 0) group.call = call;
    // Threads that wait at different calls wait for ever.
    if (same_location(call, group.call) && ++group.arrived == WARPGROUP_SIZE) {
        group.arrived = 0;
        return true;
    }
    suspend(self, call);
    return false;
}

void BlockRunner::release_warpgroup(const GpuThread* self) {
    const Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) {
        if (&group.threads[t] != self) ready_.push(&group.threads[t]);
    }
}

void BlockRunner::fence_sums(const GpuThread* self) {
    Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    const unsigned t = self->number % WARPGROUP_SIZE;
    group.fenced[t] = true;
    for (RegisterFactor& factor : group.factors) factor.load(t);
}

// A of a product in registers, as they are now.
RegisterFactor BlockRunner::register_factor(Warpgroup& group, const Call& call) {
    RegisterFactor now = {};
    for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) {
        now.registers[t] = group.arguments[t].a_registers;
        if (!now.exists()) return now;
        now.load(t);
    }
    const auto is_same = [&](const RegisterFactor& one) { return one.registers[0] == now.registers[0]; };
    const auto known = std::find_if(group.factors.begin(), group.factors.end(), is_same);
    if (known == group.factors.end()) {
        group.factors.push_back(now);
        return now;
    }
    for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) {
        if (known->touched(t)) {
            fail(call, " without a " + wanted(call, "fence_sums", "wgmma.fence") + " since thread " + describe(group.threads[t].index) +
                 " has written A's registers");
        }
    }
    return now;
}

void BlockRunner::multiply_async(GpuThread* self, const Call& call, const WgmmaArguments& arguments) {
    Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    group.arguments[self->number % WARPGROUP_SIZE] = arguments;
    if (!warpgroup_syncs(self, call)) return;
    for (const WgmmaArguments& other : group.arguments) {
        if (!same(other.a, arguments.a) || !same(other.b, arguments.b) || other.adds != arguments.adds) {
            fail(call, " with descriptors that are not the same in all threads of the warpgroup");
        }
    }
    const RegisterFactor a_registers = register_factor(group, call);
    if (!a_registers.exists()) check_descriptor(call, arguments.a, 'A', ROWS);
    check_descriptor(call, arguments.b, 'B', arguments.columns);

    const auto is_same = [&](const Accumulator& one) {
        return one.registers[0] == group.arguments[0].sums && one.columns == arguments.columns;
    };
    auto found = std::find_if(group.accumulators.begin(), group.accumulators.end(), is_same);
    const bool is_new = found == group.accumulators.end();
    if (is_new) {
        found = group.accumulators.insert(found, Accumulator{{}, arguments.columns, {}});
        found->sums.resize(ROWS * arguments.columns);
        for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) found->registers[t] = group.arguments[t].sums;
    }
    if (found->in_flight == 0) {
        for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) {
            if (!group.fenced[t] && (is_new || found->touched(t))) {
                fail(call, " without a " + wanted(call, "fence_sums", "wgmma.fence") + " since thread " + describe(group.threads[t].index) +
                     " has touched the sums");
            }
        }
        found->load();
        found->poison();
    }
    ++found->in_flight;
    const auto accumulator = std::size_t(found - group.accumulators.begin());
    group.open.push_back({call, a_registers, arguments.a, arguments.b, arguments.columns, arguments.adds,
                          accumulator});
    if (observed()) announce(group, group.open.back());
    release_warpgroup(self);
}

// Tells the observer what the product reads.
void BlockRunner::announce(const Warpgroup& group, const WgmmaProduct& product) {
    std::vector<FactorWords> factors;
    const auto add = [&](const WgmmaFactor& factor, unsigned sides) {
        const unsigned elements = 4 / bytes_of(factor.type);  // of a word
        const unsigned lines = factor.across_k ? sides / elements : sides, step = factor.across_k ? 1 : lines;
        factors.push_back({{}, lines * depth_of(factor.type) / (factor.across_k ? 1 : elements), lines});
        factors.back().pieces.reserve(factors.back().words / (PIECE_BYTES / 4) + depth_of(factor.type));
        each_run(factor, sides, PIECE_BYTES, [&](unsigned side, unsigned k, std::uint32_t address) {
            const unsigned first = factor.across_k ? k * lines + side / elements : k / elements * lines + side;
            const unsigned words = factor.across_k ? std::min(PIECE_BYTES / 4, lines - side / elements) : PIECE_BYTES / 4;
            factors.back().pieces.push_back({number(at_shared(address, PIECE_BYTES)), first, step, words});
        });
    };
    if (!product.a_registers.exists()) add(product.a, ROWS);
    add(product.b, product.columns);
    observer_->product_started(group, product.call, factors);
    stop_if_refused();
}

// Every element must lie in shared memory, and eight lines where the pattern of a swizzle does.
void BlockRunner::check_descriptor(const Call& call, const WgmmaFactor& factor, char name, unsigned sides) {
    const MatrixLayout layout(factor);
    if (layout.has_base_offset()) {
        fail(call, std::string(" with a descriptor of ") + name + " whose base offset, bits 49 to 51, is not 0");
    }
    each_run(factor, sides, PIECE_BYTES, [&](unsigned side, unsigned k, std::uint32_t address) {
        if (at_shared(address, PIECE_BYTES) != nullptr) return;
        fail(call, std::string(" with a descriptor of ") + name + " by which " + (name == 'A' ? "row " : "column ") +
                       std::to_string(side) + " has its k " + std::to_string(k) + " outside of shared memory");
    });
    if (layout.past_pattern() != 0) {
        const std::string period = std::to_string(layout.period());
        fail(call, std::string(" with a descriptor of ") + name + " whose first line is " + std::to_string(layout.past_pattern()) +
                       " bytes past a multiple of " + period + ", where the pattern of its swizzle begins: the array takes alignas(" + period + ")");
    }
}

void BlockRunner::commit_products(GpuThread* self, const Call& call) {
    if (!warpgroup_syncs(self, call)) return;
    Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    group.groups.push_back(std::move(group.open));
    group.open.clear();
    release_warpgroup(self);
}

void BlockRunner::wait_products(GpuThread* self, const Call& call, unsigned pending) {
    if (!warpgroup_syncs(self, call)) return;
    Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    while (group.groups.size() > pending) {
        for (const WgmmaProduct& product : group.groups.front()) {
            finish(group, product);
            if (observed()) observer_->product_ended(group);
        }
        group.groups.pop_front();
    }
    release_warpgroup(self);
}

void BlockRunner::load_factor(const WgmmaFactor& factor, unsigned sides, TensorFactor& to) const {
    each_run(factor, sides, PIECE_BYTES, [&](unsigned side, unsigned k, std::uint32_t address) {
        const unsigned char* const piece = at_shared(address, PIECE_BYTES);
        if (factor.type == FactorType::tf32) {
            for (unsigned i = 0; i < PIECE_BYTES / 4; ++i) std::memcpy(&to.values[k + i][side], piece + 4 * i, 4);
        } else if (bytes_of(factor.type) == 1) {
            for (unsigned i = 0; i < PIECE_BYTES; ++i) to.bits[k + i][side] = piece[i];
        } else if (factor.across_k) {
            std::memcpy(&to.bits[k][side], piece, PIECE_BYTES);
        } else {
            for (unsigned i = 0; i < PIECE_BYTES / 2; ++i) std::memcpy(&to.bits[k + i][side], piece + 2 * i, 2);
        }
    });
    to.decode(sides, factor.type);
}

// Of a factor in registers: a float or 2 or 4 elements along k in each, of rows 8 apart and then k half an instruction apart.
void BlockRunner::load_factor(const RegisterFactor& factor, const WgmmaProduct& product, TensorFactor& to) {
    for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) {
        if (factor.touched(t)) {
            fail(product.call, " whose A in registers has been written before the product was waited for");
        }
        for (unsigned i = 0; i < FACTOR_WORDS; ++i) {
            const unsigned row = t / WARP_SIZE * 16 + t % WARP_SIZE / 4 + i % 2 * 8;
            if (product.a.type == FactorType::tf32) {
                std::memcpy(&to.values[i / 2 * 4 + t % 4][row], &factor.words[t][i], sizeof(float));
                continue;
            }
            const unsigned bytes = bytes_of(product.a.type), each = 4 / bytes, k = i / 2 * 4 * each + t % 4 * each;
            for (unsigned j = 0; j < each; ++j) {
                to.bits[k + j][row] = std::uint16_t(factor.words[t][i] >> 8 * bytes * j) & (bytes == 1 ? 0xff : 0xffff);
            }
        }
    }
    to.decode(ROWS, product.a.type);
}

void BlockRunner::finish(Warpgroup& group, const WgmmaProduct& product) {
    Accumulator& to = group.accumulators[product.accumulator];
    const unsigned columns = product.columns;
    if (product.a_registers.exists()) {
        load_factor(product.a_registers, product, of_a_);
    } else {
        load_factor(product.a, ROWS, of_a_);
    }
    load_factor(product.b, columns, of_b_);
    for (unsigned row = 0; row < ROWS; ++row) {
        float* const sums = &to.sums[std::size_t(row) * columns];
        if (!product.adds) std::fill_n(sums, columns, 0.0f);
        add_products(TensorCores::hopper, product.b.type, of_a_, row, of_b_, columns, sums);
    }
    if (--to.in_flight == 0) {
        to.store();
        std::fill(std::begin(group.fenced), std::end(group.fenced), false);
    }
}

// Waits for the warpgroup; says whether this thread is the last, which is to act for all.
bool BlockRunner::change_registers(GpuThread* self, const Call& call, unsigned count) {
    self->value = count;
    if (!warpgroup_syncs(self, call)) return false;
    Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) {
        if (group.threads[t].value != count) fail(call, " with counts that are not the same in all threads of the warpgroup");
    }
    const bool gives = call.operation == Operation::setmaxnreg_dec;
    if (gives ? count > group.registers : count < group.registers) {
        fail(call, " to have " + std::to_string(count) + " registers a thread, and has " + (gives ? "only " : "already ") +
             std::to_string(group.registers));
    }
    group.asked = count;
    return true;
}

// Takes what the warpgroup has asked for, if that much is free.
bool BlockRunner::has_taken(Warpgroup& group) {
    const unsigned more = group.asked - group.registers;
    if (more > free_registers_) return false;
    free_registers_ -= more;
    group.registers = group.asked;
    return true;
}

void BlockRunner::setmaxnreg_dec(GpuThread* self, const Call& call, unsigned count) {
    if (!change_registers(self, call, count)) return;
    Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    free_registers_ += group.registers - count;
    group.registers = count;
    release_warpgroup(self);
    for (auto group = increasing_.begin(); group != increasing_.end();) {
        if (has_taken(**group)) {
            for (unsigned t = 0; t < WARPGROUP_SIZE; ++t) ready_.push(&(*group)->threads[t]);
            group = increasing_.erase(group);
        } else {
            ++group;
        }
    }
}

void BlockRunner::setmaxnreg_inc(GpuThread* self, const Call& call, unsigned count) {
    if (!change_registers(self, call, count)) return;
    Warpgroup& group = warpgroups_[self->number / WARPGROUP_SIZE];
    if (has_taken(group)) return release_warpgroup(self);
    increasing_.push_back(&group);
    suspend(self, call);
}

// What a thread that waits in setmaxnreg_inc lacks, if its whole warpgroup has arrived.
std::string BlockRunner::missing_registers(const GpuThread& thread) const {
    const Warpgroup& group = warpgroups_[thread.number / WARPGROUP_SIZE];
    if (std::find(increasing_.begin(), increasing_.end(), &group) == increasing_.end()) return "";
    return ", where their warpgroup waits for " + std::to_string(group.asked) + " registers a thread: it has " +
           std::to_string(group.registers) + ", and " + std::to_string(free_registers_) + " more are free";
}

void BlockRunner::check_that_products_ended() {
    for (const Warpgroup& group : warpgroups_) {
        const WgmmaProduct* first = group.open.empty() ? nullptr : &group.open.front();
        for (auto one = group.groups.rbegin(); one != group.groups.rend(); ++one) {
            if (!one->empty()) first = &one->front();
        }
        if (first == nullptr || !error_.empty()) continue;
        error_ = "in block " + describe(block_.index) +
                 " all threads have returned, and nobody has waited for the product of " + describe(first->call);
    }
}

}  // namespace simt

// What the stand-in of wgmma.cuh calls, and what the PTX of other headers becomes: see abi.hpp.

unsigned simt_shared_address(const simt::Thread* self, const void* shared) {
    return as_gpu_thread(self)->runner->shared_address(shared);
}

bool simt_is_shared(const simt::Thread* self, const void* address) { return as_gpu_thread(self)->runner->is_shared(address, 1); }

bool simt_is_local(const void* address) { return simt::Stacks::hold_here(simt::number(address)); }

void* simt_at_shared(const simt::Thread* self, simt::Call call, unsigned address) {
    return as_gpu_thread(self)->runner->in_window(call, address);
}

unsigned simt_shared_address_in_block(unsigned address, unsigned rank) {
    return (address & ((1u << simt::WINDOW_BITS) - 1)) | (rank + 1) << simt::WINDOW_BITS;
}

void simt_fence_sums(const simt::Thread* self) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->fence_sums(thread);
}

void simt_multiply_async(const simt::Thread* self, simt::Call call, simt::WgmmaArguments arguments) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->multiply_async(thread, call, arguments);
}

void simt_commit_products(const simt::Thread* self, simt::Call call) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->commit_products(thread, call);
}

void simt_wait_products(const simt::Thread* self, simt::Call call, unsigned pending) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->wait_products(thread, call, pending);
}

void simt_setmaxnreg_dec(const simt::Thread* self, simt::Call call, unsigned count) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->setmaxnreg_dec(thread, call, count);
}

void simt_setmaxnreg_inc(const simt::Thread* self, simt::Call call, unsigned count) {
    simt::GpuThread* const thread = as_gpu_thread(self);
    thread->runner->setmaxnreg_inc(thread, call, count);
}
