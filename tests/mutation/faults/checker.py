"""Faults of the checker: what it no longer reports, and false alarms."""

from .fault import Fault

FAULTS = (
    Fault(
        "a plain read of what is updated atomically",
        "} else if (!(last_write.flags & one.flags & Stamp::ATOMIC)) {",
        "} else if (!(last_write.flags & Stamp::ATOMIC)) {",
        "a race of an atomic operation and an ordinary read is not reported",
    ),
    Fault(
        "shuffles order accesses",
        "if (call.operation == Operation::syncwarp) order_.warp_barrier(warp, lanes);",
        "order_.warp_barrier(warp, lanes);",
        "a missing __syncwarp is not reported where threads shuffle",
    ),
    Fault(
        "the bias may be written",
        'constant = {"A", "B", "bias"}',
        'constant = {"A", "B"}',
        "a kernel that overwrites the caller's bias is not reported",
    ),
    Fault(
        "past the end of a shared array",
        "        if (!in_one_variable(offset, one.bytes)) return outside(one);\n",
        "",
        "accesses past the end of an array in shared memory are not reported",
    ),
    Fault(
        "NaN differs from itself",
        "different = np.argwhere(other.view(bits) != result.view(bits)).tolist()",
        "different = np.argwhere(other != result).tolist()",
        "results with NaN are said to depend on the order of threads",
    ),
    Fault(
        "no turns at atomic operations",
        "    if has_turns:\n        found[",
        "    if has_turns and together:\n        found[",
        "what goes wrong between two atomic operations is not seen",
    ),
    Fault(
        "a walk over the rows of a shared array",
        "if root is None or not root[0] or root[0] in shared or",
        "if root is None or not root[0] or",
        "a false alarm: tile[0][i] past the first row is no fault in shared memory",
    ),
    Fault(
        "local variables hold what was there",
        'CHECKED = replace(TRACED, traced=False, bounded=True, locals_hold="pattern")',
        "CHECKED = replace(TRACED, traced=False, bounded=True)",
        "a local variable that is read before it is written may give the right result by luck",
    ),
    Fault(
        "an index that wraps and comes back",
        "        if (exact_ == (long long)value_) operation_ = 0;\n",
        "",
        "a false alarm at (unsigned)(wide + 2), of a wide that is i - 2u",
    ),
    Fault(
        "faults of one line merged",
        "places = frozenset(party.place for party in (self.party, self.other) if party)",
        "places = frozenset(party.place for party in (self.party,) if party)",
        "of two faults at one line only the first is shown",
    ),
)
