// cooperative_groups::reduce on the emulator: all threads of a tile or of a coalesced group get the result.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

#define SIMT_OPERATOR(name, expression)                      \
    template <typename Type>                                    \
    struct name {                                            \
        Type operator()(Type a, Type b) const { return expression; }  \
    };
SIMT_OPERATOR(plus, a + b)
SIMT_OPERATOR(less, b < a ? b : a)
SIMT_OPERATOR(greater, a < b ? b : a)
SIMT_OPERATOR(bit_and, a & b)
SIMT_OPERATOR(bit_or, a | b)
SIMT_OPERATOR(bit_xor, a ^ b)
#undef SIMT_OPERATOR

template <unsigned Size, typename Parent, typename Type, typename Operator>
Type reduce(const thread_block_tile<Size, Parent>& tile, Type value, Operator combine, SIMT_LOCATION) {
    for (unsigned distance = Size / 2; distance != 0; distance /= 2) {
        value = combine(value, tile.shfl_xor(value, distance, file, line));
    }
    return value;
}

template <typename Type, typename Operator>
Type reduce(const coalesced_group& group, Type value, Operator combine, SIMT_LOCATION) {
    Type total = group.shfl(value, 0, file, line);
    for (unsigned rank = 1; rank < group.size(); ++rank) total = combine(total, group.shfl(value, rank, file, line));
    return total;
}

}  // namespace cooperative_groups
