// cooperative_groups::memcpy_async on the emulator: the threads of a group copy a part each, and wait for all of them.
#pragma once

#include "../cooperative_groups.h"
#include "../cuda_memcpy_async.hpp"

namespace cooperative_groups {

template <typename Group, typename Type, typename Size>
void memcpy_async(const Group& group, Type* to, const Type* from, const Size& bytes, SIMT_LOCATION) {
    simt::copy_together(to, from, bytes, group.thread_rank(), group.size(), {simt::Operation::copy_async, file, line});
    simt_commit_copies(simt_thread());
}

// Of the smaller of two numbers of elements.
template <typename Group, typename Type, typename Layout>
void memcpy_async(const Group& group, Type* to, const Layout& room, const Type* from, const Layout& count, SIMT_LOCATION) {
    memcpy_async(group, to, from, (count < room ? count : room) * sizeof(Type), file, line);
}

template <unsigned PENDING, typename Group>
void wait_prior(const Group& group, SIMT_LOCATION) {
    simt_wait_copies(simt_thread(), PENDING);
    group.sync(file, line);
}

template <typename Group>
void wait(const Group& group, SIMT_LOCATION) {
    wait_prior<0>(group, file, line);
}

}  // namespace cooperative_groups
