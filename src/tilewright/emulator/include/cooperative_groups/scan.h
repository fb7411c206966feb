// cooperative_groups::inclusive_scan and exclusive_scan on the emulator, of a tile or of a coalesced group.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <typename Group, typename Type, typename Operator>
Type inclusive_scan(const Group& group, Type value, Operator combine, SIMT_LOCATION) {
    for (unsigned distance = 1; distance < group.size(); distance *= 2) {
        const Type before = group.shfl_up(value, distance, file, line);
        if (group.thread_rank() >= distance) value = combine(before, value);
    }
    return value;
}

template <typename Group, typename Type>
Type inclusive_scan(const Group& group, Type value, SIMT_LOCATION) {
    return inclusive_scan(group, value, plus<Type>(), file, line);
}

// The first thread gets the value of the type without arguments.
template <typename Group, typename Type, typename Operator>
Type exclusive_scan(const Group& group, Type value, Operator combine, SIMT_LOCATION) {
    const Type before = group.shfl_up(inclusive_scan(group, value, combine, file, line), 1, file, line);
    return group.thread_rank() == 0 ? Type() : before;
}

template <typename Group, typename Type>
Type exclusive_scan(const Group& group, Type value, SIMT_LOCATION) {
    return exclusive_scan(group, value, plus<Type>(), file, line);
}

}  // namespace cooperative_groups
