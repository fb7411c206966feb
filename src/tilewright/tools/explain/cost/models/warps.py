"""Kernels whose warps multiply in tensor cores (mma.sync) from tiles that asynchronous copies load.

A step takes the longer of the tensor cores' products and the reads of fragments from shared memory; and then what
threads add to sums of their own, since all warps of a block begin a step together, and so come to that together. The
next tiles come meanwhile.

No such kernel has been measured: the rates are those of `gpus`, the rest is taken over from kernels alike.
"""

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.gpus import Multiprocessor
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warps
from tilewright.kernels.kernel import Kernel
from tilewright.tools.explain.cost.models.block import Asked, Footprint, Usage, granted, join

_PRODUCTS = {1: 1024, 2: 1024, 4: 512}
"""Multiply-adds a clock that a multiprocessor's tensor cores make at most for instructions of warps, by bytes of an
element: what fragments were found to get on an H200, half of what warpgroups do. Hopper's make those of float8 of
half."""
_BANKS_BYTES = 128
"""Bytes that shared memory delivers in a clock."""
_WAITS = 1.13
"""How many times longer a step takes than the longest part of it, as of warpgroups."""
_COPY_LATENCY = 1030.0
"""Cycles from a copy into shared memory to its use, as of `copying`."""
_BLOCK_ENDS = 1700.0
"""Cycles of a block before its first step and after its last, as of `staging`."""
_STORE = 0.23
"""Cycles of a multiprocessor to store an element of D, as of `copying`."""
_REGISTERS = 60
"""Registers of a thread besides sums."""


def needs(kernel: Kernel, family: Warps, config: Config, sm: Multiprocessor, layout: str) -> Usage:
    """Estimates without a compiler's report: sums, and as many that tensor cores begin anew, if they do."""
    tile = kernel.tile(config)
    wanted = (2 if family.anew else 1) * tile.m * tile.n // kernel.threads(config) + _REGISTERS
    return Usage(granted(wanted, kernel, config, sm), 0, 0)


def footprint(asked: Asked, family: Warps) -> Footprint:
    """Footprint of a block of this family."""
    kernel, config, sm, variant, room, *_ = asked
    tile, parts = kernel.tile(config), kernel.parts
    item = ITEM_BYTES[kernel.split.dtype if kernel.split else variant.factors]
    elements = tile.m * tile.n
    rate = {1: sm.float8_products, 2: sm.half_products, 4: sm.tf32_products}[item]
    tensor = parts * (parts + 1) / 2 * elements * tile.k / min(rate, _PRODUCTS[item])
    # Fragments of all parts are loaded once, and those of the first for the largest products again.
    loaded = parts + 1 if parts > 1 else 1
    reads = room.warps_per_block * loaded * sum(family.part(config)) * tile.k * item / _BANKS_BYTES
    promotions = 0.0
    if family.anew:
        promotions = 1.0 if parts == 1 else 1 + tile.k / config.PROMOTE
    added = promotions * elements / sm.lanes
    return Footprint(
        occupancy=room,
        busy=_WAITS * join(tensor, reads) + added,
        alone=_COPY_LATENCY / (family.stages(config) - 1),
        ends=_BLOCK_ENDS,
        store=_STORE * elements,
    )
