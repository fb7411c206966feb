// Cooperative groups on the emulator: blocks, tiles of warps, and lanes that have converged; as in the CUDA C++ Programming
// Guide, "Cooperative Groups". Where a kernel synchronises its grid, all blocks run together.
#pragma once

namespace cooperative_groups {

class thread_block {
  public:
    static void sync(SIMT_LOCATION) { __syncthreads(file, line); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned num_threads() { return size(); }
    static unsigned thread_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};

class grid_group {
  public:
    static bool is_valid() { return true; }
    static void sync(SIMT_LOCATION) { simt_grid_sync(simt_thread(), {simt::Operation::grid_sync, file, line}); }
    static unsigned long long size() { return num_blocks() * thread_block::size(); }
    static unsigned long long num_threads() { return size(); }
    static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long block_rank() { return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
    static unsigned long long thread_rank() {
        return block_rank() * thread_block::size() + thread_block::thread_rank();
    }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 block_index() { return blockIdx; }
};

class cluster_group {
  public:
    static void sync(SIMT_LOCATION) { simt_cluster_sync(simt_thread(), {simt::Operation::cluster_sync, file, line}); }
    static void barrier_arrive() {}  // a thread arrives when it waits
    static void barrier_wait(SIMT_LOCATION) { sync(file, line); }
    static unsigned block_rank() { return simt_thread()->block->rank; }
    static unsigned num_blocks() { return simt_thread()->block->cluster; }
    static unsigned thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
    static unsigned num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned size() { return num_threads(); }
    template <typename Type>
    static Type* map_shared_rank(Type* shared, int rank, SIMT_LOCATION) {
        return static_cast<Type*>(simt_in_block(simt_thread(), {simt::Operation::in_block, file, line}, shared, rank));
    }
};

inline grid_group this_grid() { return {}; }
inline cluster_group this_cluster() { return {}; }
inline thread_block this_thread_block() { return {}; }

// `Size` threads with neighbouring ranks in their parent group, all in one warp.
template <unsigned Size, typename Parent = void>
class thread_block_tile {
    static_assert(Size <= unsigned(warpSize) && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

  public:
    thread_block_tile(unsigned rank_in_parent, unsigned parent_size)
        : meta_rank_(rank_in_parent / Size), meta_size_((parent_size + Size - 1) / Size) {}
    template <typename Other>
    thread_block_tile(const thread_block_tile<Size, Other>& other)
        : meta_rank_(other.meta_group_rank()), meta_size_(other.meta_group_size()) {}

    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return simt_thread()->lane % Size; }
    unsigned meta_group_rank() const { return meta_rank_; }
    unsigned meta_group_size() const { return meta_size_; }

    void sync(SIMT_LOCATION) const { __syncwarp(mask(), file, line); }
    template <typename Type>
    Type shfl(Type value, int rank, SIMT_LOCATION) const {
        return __shfl_sync(mask(), value, rank, Size, file, line);
    }
    template <typename Type>
    Type shfl_up(Type value, unsigned delta, SIMT_LOCATION) const {
        return __shfl_up_sync(mask(), value, delta, Size, file, line);
    }
    template <typename Type>
    Type shfl_down(Type value, unsigned delta, SIMT_LOCATION) const {
        return __shfl_down_sync(mask(), value, delta, Size, file, line);
    }
    template <typename Type>
    Type shfl_xor(Type value, unsigned rank_mask, SIMT_LOCATION) const {
        return __shfl_xor_sync(mask(), value, rank_mask, Size, file, line);
    }
    int any(int predicate, SIMT_LOCATION) const { return __any_sync(mask(), predicate, file, line); }
    int all(int predicate, SIMT_LOCATION) const { return __all_sync(mask(), predicate, file, line); }
    unsigned ballot(int predicate, SIMT_LOCATION) const {
        return __ballot_sync(mask(), predicate, file, line) >> first();
    }
    template <typename Type>
    unsigned match_any(Type value, SIMT_LOCATION) const {
        return __match_any_sync(mask(), value, file, line) >> first();
    }

    static unsigned mask() { return 0xffffffff >> (warpSize - Size) << first(); }  // no part of CUDA's class

  private:
    static unsigned first() { return simt_thread()->lane & ~(Size - 1); }

    unsigned meta_rank_, meta_size_;
};

template <unsigned Size>
thread_block_tile<Size, thread_block> tiled_partition(const thread_block& block) {
    return {block.thread_rank(), block.size()};
}

template <unsigned Size, unsigned ParentSize, typename Grandparent>
thread_block_tile<Size, thread_block_tile<ParentSize, Grandparent>> tiled_partition(
    const thread_block_tile<ParentSize, Grandparent>& parent) {
    static_assert(Size <= ParentSize, "a tile is part of its parent");
    return {parent.thread_rank(), ParentSize};
}

// Lanes of a warp that were at one place together; their ranks count them from the lowest lane on.
class coalesced_group {
  public:
    explicit coalesced_group(unsigned mask) : mask_(mask) {}

    unsigned size() const { return __popc(mask_); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return __popc(mask_ & ((1u << simt_thread()->lane) - 1)); }
    unsigned meta_group_rank() const { return 0; }
    unsigned meta_group_size() const { return 1; }

    void sync(SIMT_LOCATION) const { __syncwarp(mask_, file, line); }
    template <typename Type>
    Type shfl(Type value, unsigned rank, SIMT_LOCATION) const {
        return __shfl_sync(mask_, value, lane_of(rank % size()), warpSize, file, line);
    }
    template <typename Type>
    Type shfl_up(Type value, unsigned delta, SIMT_LOCATION) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank >= delta ? rank - delta : rank, file, line);
    }
    template <typename Type>
    Type shfl_down(Type value, unsigned delta, SIMT_LOCATION) const {
        const unsigned rank = thread_rank();
        return shfl(value, rank + delta < size() ? rank + delta : rank, file, line);
    }
    int any(int predicate, SIMT_LOCATION) const { return __any_sync(mask_, predicate, file, line); }
    int all(int predicate, SIMT_LOCATION) const { return __all_sync(mask_, predicate, file, line); }
    unsigned ballot(int predicate, SIMT_LOCATION) const {
        const unsigned lanes = __ballot_sync(mask_, predicate, file, line);
        unsigned ranks = 0;
        for (unsigned rank = 0; rank < size(); ++rank) ranks |= (lanes >> lane_of(rank) & 1) << rank;
        return ranks;
    }

    unsigned mask() const { return mask_; }  // no part of CUDA's class

  private:
    unsigned lane_of(unsigned rank) const {
        unsigned lanes = mask_;
        while (rank-- != 0) lanes &= lanes - 1;
        return __builtin_ctz(lanes);
    }

    unsigned mask_;
};

// Those lanes of a tile, or of such a group, that have the same label.
template <typename Group, typename Label>
coalesced_group labeled_partition(const Group& group, Label label, SIMT_LOCATION) {
    return coalesced_group(__match_any_sync(group.mask(), label, file, line));
}

template <typename Group>
coalesced_group binary_partition(const Group& group, bool predicate, SIMT_LOCATION) {
    return labeled_partition(group, int(predicate), file, line);
}

inline coalesced_group coalesced_threads(SIMT_LOCATION) { return coalesced_group(__activemask(file, line)); }

// Any of these groups.
class thread_group {
  public:
    thread_group(const thread_block& block)
        : size_(block.size()), rank_(block.thread_rank()), lanes_(0) {}
    template <unsigned Size, typename Parent>
    thread_group(const thread_block_tile<Size, Parent>& tile)
        : size_(Size), rank_(tile.thread_rank()), lanes_(tile.mask()) {}
    thread_group(const coalesced_group& group)
        : size_(group.size()), rank_(group.thread_rank()), lanes_(group.mask()) {}

    unsigned size() const { return size_; }
    unsigned num_threads() const { return size_; }
    unsigned thread_rank() const { return rank_; }
    void sync(SIMT_LOCATION) const {
        if (lanes_ == 0) {
            __syncthreads(file, line);
        } else {
            __syncwarp(lanes_, file, line);
        }
    }

  private:
    unsigned size_, rank_;
    unsigned lanes_;  // 0: the block
};

template <typename Group>
void sync(const Group& group, SIMT_LOCATION) {
    group.sync(file, line);
}

}  // namespace cooperative_groups
