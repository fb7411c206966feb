"""Kernels whose warpgroups split the large factor in registers, and multiply its parts by those of a factor of few
rows.

A step takes the longest of what overlaps: the tensor cores' products; the instructions that split both factors and add
up what tensor cores have made; and, in the cost model, what comes from memory. A warpgroup's own instructions wait
while it gives the tensor cores registers to multiply, so that it takes several to keep both busy. A block computes one
tile, or a part of its k.

The constants are fitted to runs of both kernels on an H100 and an H200, of 16 to 256 rows (table_small_m.json of
each).
"""

from tilewright.kernels.cost_family import SmallM
from tilewright.tools.explain.cost.models.block import Asked, Footprint, join
from tilewright.tools.explain.cost.models.warpgroups import needs

__all__ = ["footprint", "needs"]

_WARPGROUP = 128
_LEAST_COLUMNS = 16
"""Columns of an instruction below which it takes no less time."""
_WIDE_ELEMENT = 9.7
"""Instructions of a thread for an element of the large factor: it is loaded from shared memory, looked at, split."""
_FEW_ELEMENT = 24.0
"""Instructions of a thread for an element of the small factor, from the L2 cache to shared memory."""
_BESIDES = 63.0
"""Further instructions of a thread, each time that sums are added up: it starts products, waits, moves registers."""
_WAITS = 1.44
"""How many times longer a step takes than the longest part of it."""
_COPY_LATENCY = 1780.0
"""Cycles from the load of a tile by a tensor map to its use."""
_START = 11000.0
"""Cycles of a block before its first step and after its last one."""
_STORED = 0.2
"""Cycles of a multiprocessor to store a result through shared memory."""
_SWAPPED = 0.2
"""Cycles of a multiprocessor to move a sum from one block of a cluster to another."""


def footprint(asked: Asked, family: SmallM) -> Footprint:
    """Footprint of a block of this family."""
    kernel, config, sm, _, room, *_ = asked
    tile, consumers = kernel.tile(config), family.consumers(config)
    products = family.parts * (family.parts + 1) // 2
    tensor = products * max(tile.m, _LEAST_COLUMNS) * tile.n * tile.k / sm.half_products
    promote = kernel.sums(config).promote
    times = tile.k / (promote or tile.k)
    adds = 2 * tile.m * tile.n / _WARPGROUP * times
    splits = tile.n * _WIDE_ELEMENT * tile.k / _WARPGROUP
    slices = family.slices(config)
    of_consumers = adds + splits + consumers / slices * _BESIDES * times
    issue = of_consumers + tile.m * _FEW_ELEMENT * tile.k / _WARPGROUP
    in_turns = (tensor + of_consumers) / consumers
    elements = tile.m * tile.n
    store = elements * _STORED
    if family.splits(config) > 1:
        store = store / family.splits(config) + elements * _SWAPPED
    return Footprint(
        occupancy=room,
        busy=_WAITS * join(tensor, issue),
        alone=max(in_turns, _COPY_LATENCY / max(family.stages(config) - 1, 1)),
        ends=_START,
        store=store,
        tensor=tensor,
    )
