"""Kernels whose warpgroups multiply in Hopper's tensor cores, straight from shared memory.

A step takes the longest of what overlaps: the tensor cores' products, their reads of shared memory, and the tiles that
come through a multiprocessor's port to the L2 cache. Results are stored while the tensor cores wait. Tensor cores that
are busy reach the GPU's power limit. Power grows with the cube of the clock, so the clock falls with the cube root of
the share of cycles in which they are busy.

The constants were fitted to 50 measurements of rungs 20 to 22 and gemm_sm90 on an H200, of bfloat16 matrices. The mean
error of these is 3%: 1% at 512, 3% at 1024, 4% at 2048, 2% at 4096, 3% at 8192, and 4% at 512x4096x4096. The largest
is 11%, for a row-major B where BN is no multiple of 64. float16 takes 5% longer than predicted, and a GPU in another
clock state took 10% less. Rung 19 was measured once, which is where `_LOAD_LATENCY` comes from.
"""

import math

from tilewright.analysis.models.block import Footprint, Needs, join
from tilewright.analysis.models.block import registers_given as given
from tilewright.analysis.occupancy import Occupancy
from tilewright.gpus import Multiprocessor
from tilewright.kernels.families import Warpgroups
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import VECTOR_BYTES, Variant
from tilewright.problem import ITEM_BYTES

PORT_BYTES = 86
"""What a multiprocessor gets from the L2 cache in a clock, where nothing else takes as long."""
_BANKS_BYTES = 128
"""What shared memory delivers in a clock."""
_LINE_BYTES = 128
"""What one request of the copy engine asks for, at most."""
_THREADS = 128
"""In a warpgroup."""
_ROWS = 64
"""Of A, in one instruction."""
_DEPTH = 16
"""Of k, in one instruction."""
_WAITS = 1.06
"""How many times longer a step takes than the longest part of it: instructions and barriers wait for each other."""
_COPY_LATENCY = 1000.0
"""Cycles from the load of a tile by a tensor map to its use."""
_LOAD_LATENCY = 730.0
"""Cycles from a thread's load of 16 bytes to its next one, which the store to shared memory between them delays."""
_START = 2200.0
"""Cycles of a block before its first step and after its last one: barriers, tensor maps, the first tiles."""
_STORED_RUN = 2.2
"""Cycles of a multiprocessor to store a run of D, whatever its elements' type."""
_SUSTAINED = 0.355
"""Share of their peak at the boost clock that all tensor cores can sustain at that clock within the power limit."""
_REGISTERS = 40
"""Registers of a thread besides sums, where no compiler reports them."""


def needs(kernel: Kernel, family: Warpgroups, config: Config, sm: Multiprocessor) -> Needs:
    """Estimates without a compiler's report. Where warpgroups have roles, they get all registers."""
    tile, threads = kernel.tile(config), kernel.threads(config)
    wanted = sm.registers_per_thread if threads > _THREADS else tile.m * tile.n // threads + _REGISTERS
    static = 0 if family.copies == "tensor maps" else ITEM_BYTES["bfloat16"] * tile.k * (tile.m + tile.n)
    return Needs(given(wanted, kernel, config, sm), 0, static)


def footprint(
    kernel: Kernel, family: Warpgroups, config: Config, sm: Multiprocessor, variant: Variant, room: Occupancy
) -> Footprint:
    """What a block asks for, with room for these."""
    tile, item = kernel.tile(config), ITEM_BYTES[variant.factors]
    tensor = tile.m * tile.n * tile.k / sm.half_products
    instructions = tile.m / _ROWS * tile.k / _DEPTH
    reads = instructions * item * _DEPTH * (_ROWS + tile.n) / _BANKS_BYTES
    by_threads = family.copies == "registers"
    loaded = sum(lines(kernel, config, variant.layout, item)) * tile.k * item / PORT_BYTES
    busy = _WAITS * join(max(tensor, reads), loaded)
    if by_threads:
        loads = item * tile.k * (tile.m + tile.n) / VECTOR_BYTES / kernel.threads(config)
        alone = tensor + loads * _LOAD_LATENCY
    else:
        alone = _COPY_LATENCY / max(family.stages(config) - 1, 1)
    store = tile.m * tile.n / family.run(config) * _STORED_RUN
    hidden = store if family.alternates(config) else 0.0  # but for that of the last tile
    return Footprint(
        tile=tile,
        occupancy=room,
        busy=busy,
        alone=alone,
        ends=0.0 if family.persistent else _START,
        store=store - hidden,
        tensor=tensor,
        once=hidden + (_START if family.persistent else 0.0),
    )


def band(kernel: Kernel, config: Config) -> int:
    """Rows of tiles that are computed column by column; 1 where tiles are computed row by row."""
    family = kernel.cost
    return family.band(config) * family.cluster(config) if isinstance(family, Warpgroups) else 1


def lines(kernel: Kernel, config: Config, layout: str, item: int) -> tuple[float, float]:
    """Rows of A and columns of B that the lines come to which a block loads of them for one k.

    Across k a tile is loaded by whole lines; those that do not begin at a multiple of a line are two requests each.
    """
    tile, line = kernel.tile(config), _LINE_BYTES // item
    along_k = (layout[0] == "N", layout[1] == "T")
    rows, cols = (
        float(side) if along else -(-side // line) * line * (2 - math.gcd(side, line) / line)
        for side, along in zip((tile.m, tile.n), along_k, strict=True)
    )
    return rows, cols


def side_bytes(kernel: Kernel, family: Warpgroups, config: Config, layout: str, item: int) -> int:
    """What the L2 cache serves a block for one k: of B, its part of what the blocks of a cluster share."""
    rows, cols = lines(kernel, config, layout, item)
    return round(item * (rows + cols / family.cluster(config)))


def clock_share(tensor_share: float) -> float:
    """The clock under load as a share of the boost clock, by the share of all cycles that tensor cores are busy."""
    return min(1.0, math.cbrt(_SUSTAINED / tensor_share)) if tensor_share else 1.0
