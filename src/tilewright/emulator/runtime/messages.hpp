// Words of the runtime's messages: calls, places and threads as a reader of the kernel knows them.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

#include "abi.hpp"

namespace simt {

// In the order of Operation.
inline const char* const OPERATION_NAMES[] = {
    "__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "cluster_sync",
    "grid_group::sync", "__syncwarp",
    "__shfl_sync",   "__shfl_up_sync",      "__shfl_down_sync",  "__shfl_xor_sync",  "__all_sync",
    "__any_sync",    "__ballot_sync",       "__activemask",      "__reduce_add_sync", "__reduce_min_sync",
    "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync", "__match_any_sync",
    "__match_all_sync", "load_matrix_sync", "mma_sync",
    "store_matrix_sync", "copy_async", "barrier_init", "barrier_arrive", "in_block",
    "barrier_wait",  "wait_for_count", "load_tile",   "load_tile_to", "store_tile_async", "load_matrices", "store_matrices", "multiply_fragments", "multiply_async", "commit_products", "wait_products",
    "setmaxnreg_dec", "setmaxnreg_inc", "sync_named", "arrive_named", "shared memory", "barrier_inval",
};

inline std::string place(const char* file, int line) {
    const char* slash = std::strrchr(file, '/');
    return std::string(slash ? slash + 1 : file) + ":" + std::to_string(line);
}

inline std::string describe(const Call& call) {
    return std::string(call.instruction ? call.instruction : OPERATION_NAMES[int(call.operation)]) + " (" + place(call.file, call.line) + ")";
}

// What a source has to call: a header's function, or in PTX an instruction, whose name has dots.
inline std::string wanted(const Call& call, const char* function, const char* instruction) {
    return call.instruction && std::strchr(call.instruction, '.') ? instruction : function;
}

inline std::string describe(const uint3& index) {
    return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

inline std::string hexadecimal(unsigned long long number) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%08llx", number);
    return text;
}

inline std::string count_of_threads(std::size_t count) {
    return std::to_string(count) + (count == 1 ? " thread" : " threads");
}

}  // namespace simt
