"""Kernels whose warpgroups multiply in Hopper's tensor cores, straight from shared memory.

A step takes the longest of what overlaps: the tensor cores' products, their reads of shared memory, and the tiles that
come through a multiprocessor's port to the L2 cache, or that it asks for. Lines of A and B that do not begin at a
multiple of 128 bytes are requested twice, by the block that loads them: to others of its cluster they come once.
Results are stored while the tensor cores wait, or, where warpgroups alternate, while the other one multiplies. Blocks
of a cluster run at the same time, in a part of the GPU that has room for all of them. Tensor cores that are busy reach
the GPU's power limit. Power grows with the cube of the clock, so the clock falls with the cube root of the share of
cycles in which they are busy.

Float8 is taken for 16 bits at twice the rate, but for what it costs to load A to registers. What threads add up every
128 of k is left out.

The constants were fitted to 966 measurements of gemm_sm90 on an H200, of 904 bfloat16 and 62 float16 products. The mean
error is 6%: 7% for NN, 6% for NT and TN, 5% for TT; 6% where lines begin at multiples of 128 bytes or of 16; 12% where
operands are relaid out; 7% where blocks load tiles of B for each other, and 4 to 7% where they divide k. The largest is
56%, for a relayout of 67 columns. On 194 runs that it was not fitted to, with tiles that reach past the result, the
mean error is 10%. Of the configs measured on a problem, the one predicted to be fastest takes 1.9% longer than the
fastest in the mean, 18% at worst. DRAM is slower than predicted where few rows of A meet a large B
(16x4096x4096). Rungs 20 to 22 took 3 to 9% longer than predicted, in runs of another day. Rung 19 was measured once,
which is where `_LOAD_LATENCY` comes from.
"""

import math
from typing import NamedTuple

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.gpus import Multiprocessor
from tilewright.core.hardware import SECTOR_BYTES, round_up
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import VECTOR_BYTES, Variant
from tilewright.tools.explain.cost.models.block import Asked, Footprint, Usage, granted, join

_PORT_BYTES = 84
"""Bytes that a multiprocessor gets from the L2 cache in a clock, where nothing else takes as long."""
L2_BYTES = 50
"""Bytes that the L2 cache serves in a clock for each multiprocessor, when all ask: data that blocks load for each other
counts once. Fitted to 1,399 runs of gemm_sm90 on an H100, each also timed after other work: of the configs measured on
a problem, the one predicted to be fastest then takes 3.5% longer than the fastest in the mean, and 9.5% with 84."""
_SECTOR_SHARE = 0.25
"""Share of a line that the L2 cache serves in addition where a line does not begin at a multiple of a line."""
_BANKS_BYTES = 128
"""Bytes that shared memory delivers in a clock."""
_LINE_BYTES = 128
"""Bytes of one request of the copy engine, at most."""
WHOLE_LINES = (_LINE_BYTES, _LINE_BYTES)
"""Starts of rows (or columns) of A and of B, in bytes, where all are at multiples of a line."""
_THREADS = 128
"""In a warpgroup."""
_ROWS = 64
"""Rows of A in one instruction."""
_DEPTH_BYTES = 32
"""Bytes along k in one instruction."""
_A_IN_REGISTERS = 20.0
"""Cycles between two instructions of float8 whose A is in registers: fitted to 512x4096x4096 and 4096 on an H100."""
_WAITS = 1.13
"""How many times longer a step takes than the longest part of it: instructions and barriers wait for each other."""
_COPY_LATENCY = 1780.0
"""Cycles from the load of a tile by a tensor map to its use."""
_SHARED_LATENCY = 2520.0
"""Cycles like `_COPY_LATENCY` for a tile that a cluster's blocks load for each other: all need a free buffer."""
_LOAD_LATENCY = 730.0
"""Cycles from a thread's load of 16 bytes to its next one, which the store to shared memory between them delays."""
_START = 2200.0
"""Cycles of a block before its first step and after its last one: barriers, tensor maps, the first tiles. Launches that
overlap hide them."""
_CLUSTER_START = 380.0
"""Cycles that the blocks of a cluster wait for each other, before and after."""
_STORED_RUN = 0.71
"""Cycles of a multiprocessor to store a run of D, besides `_STORED` for each element."""
_STORED = 0.17
"""Cycles of a multiprocessor to store an element of D, whatever its type."""
_CHECKED = 2.1
"""Factor of `_STORED` where each run is checked against the ends of D."""
_ENDS = 7
"""Elements at both ends of a tile's row that are stored one by one, in the mean of rows that start anywhere. This is
counted: no such store has been timed."""
_STORED_ASIDE = 1.38
"""How many times longer one warpgroup takes to store a tile than both together."""
_SWAPPED = 0.525
"""Cycles of a multiprocessor for each of its sums that blocks exchange."""
_MISPLACED = 0.92
"""Share of a line's time that it takes longer where it begins within a sector of 32 bytes."""
DRAM_SHARE = 0.75
"""Share of DRAM's peak rate that these kernels reach."""
SUSTAINED = 0.5
"""Share of their peak at the boost clock that all tensor cores can sustain at that clock within the power limit."""
_REGISTERS = 40
"""Registers of a thread besides sums, where no compiler reports them."""


def needs(kernel: Kernel, family: Warpgroups, config: Config, sm: Multiprocessor, layout: str) -> Usage:
    """Estimates without a compiler's report. Where warpgroups have roles, they get all registers."""
    tile, threads = kernel.tile(config), kernel.threads(config)
    wanted = sm.registers_per_thread if threads > _THREADS else tile.m * tile.n // threads + _REGISTERS
    static = 0 if family.copies == "tensor maps" else ITEM_BYTES["bfloat16"] * tile.k * (tile.m + tile.n)
    return Usage(granted(wanted, kernel, config, sm), 0, static)


def footprint(asked: Asked, family: Warpgroups) -> Footprint:
    """Footprint of a block of this family."""
    kernel, config, sm, variant, room, _, starts, _ = asked
    tile, item = kernel.tile(config), ITEM_BYTES[kernel.split.dtype if kernel.split else variant.factors]
    cluster, across, splits = family.cluster(config), family.across(config), family.splits(config)
    parts = kernel.parts
    products = parts * (parts + 1) // 2
    rates = {1: sm.float8_products, 2: sm.half_products, 4: sm.tf32_products}
    rows, cols = (tile.n, tile.m) if kernel.swap_ab(config) else (tile.m, tile.n)
    instructions = products * rows / _ROWS * tile.k * item / _DEPTH_BYTES
    tensor = products * tile.m * tile.n * tile.k / rates[item]
    if family.in_registers and item == 1:
        tensor += instructions * _A_IN_REGISTERS
    reads = instructions * _DEPTH_BYTES * (_ROWS + cols) / _BANKS_BYTES
    by_threads = family.copies == "registers"
    a, b = lines(kernel, config, variant.layout, item, starts)
    requested = (a.once + a.again) / across + (b.once + b.again) / cluster
    loaded = parts * max(a.once + b.once, requested) * tile.k * item / _PORT_BYTES
    busy = _WAITS * join(max(tensor, reads), loaded)
    if by_threads:
        loads = item * tile.k * (tile.m + tile.n) / VECTOR_BYTES / kernel.threads(config)
        alone = tensor + loads * _LOAD_LATENCY
    else:
        alone = (_SHARED_LATENCY if cluster * across > 1 else _COPY_LATENCY) / max(family.stages(config) - 1, 1)
    elements = tile.m * tile.n
    checked = _CHECKED if variant.edges else 1.0
    single = _single(kernel, family, config, variant)
    store = _STORED * checked * elements + _STORED_RUN * (single + (elements - single) / family.run(config))
    start = 0.0 if kernel.overlaps else _START
    if cluster * across * splits > 1:
        start += _CLUSTER_START
    if splits > 1:
        store = store / splits + elements * _SWAPPED
    # One block computes tile after tile, except where a cluster computes one.
    persistent = family.persistent and splits == 1
    aside = _STORED_ASIDE * store if family.alternates(config) else 0.0
    return Footprint(
        occupancy=room,
        busy=busy,
        alone=alone,
        ends=0.0 if persistent else start,
        store=0.0 if aside else store,
        tensor=tensor,
        once=aside + (start if persistent else 0.0),
        aside=aside,
    )


def _single(kernel: Kernel, family: Warpgroups, config: Config, variant: Variant) -> int:
    """Elements of a tile of D that are stored one by one."""
    tile = kernel.tile(config)
    if variant.aligned:
        return 0
    parts = tile.m * family.splits(config)  # of rows: the blocks that divide k store some columns each
    realigns = family.realigns and ITEM_BYTES[variant.result] == 2 and not kernel.swap_ab(config)
    return _ENDS * parts if realigns else tile.m * tile.n


class Lines(NamedTuple):
    """Rows of A, or columns of B, that the lines come to which a block loads of them for one k."""

    once: float
    again: float
    """Rows or columns that a second request is for, and the time to load lines that begin within a sector, as rows or
    columns."""


def lines(
    kernel: Kernel, config: Config, layout: str, item: int, starts: tuple[int, int] = WHOLE_LINES
) -> tuple[Lines, Lines]:
    """Lines of A and of B that a block loads for one k.

    Across k a tile counts by whole lines, also where it is loaded by halves of them. A line that does not begin at a
    multiple of a line is two requests.
    """
    tile, line = kernel.tile(config), _LINE_BYTES // item
    along_k = (layout[0] == "N", layout[1] == "T")
    found = []
    for side, along, start in zip((tile.m, tile.n), along_k, starts, strict=True):
        once = side if along else round_up(side, line)
        begin = start if along else math.gcd(start, side * item)
        again = 1 - begin / _LINE_BYTES + (_MISPLACED if begin < SECTOR_BYTES else 0.0)
        found.append(Lines(once, once * again))
    return found[0], found[1]


def side_bytes(
    kernel: Kernel, family: Warpgroups, config: Config, layout: str, item: int, starts: tuple[int, int]
) -> int:
    """Bytes that the L2 cache serves a block for one k: its part of the tiles that the blocks of a cluster share."""
    a, b = (of.once + _SECTOR_SHARE * of.again for of in lines(kernel, config, layout, item, starts))
    return round(item * (a / family.across(config) + b / family.cluster(config)))


def clock_share(tensor_share: float) -> float:
    """The clock under load as a share of the boost clock, by the share of all cycles that tensor cores are busy."""
    return math.cbrt(SUSTAINED / tensor_share) if tensor_share > SUSTAINED else 1.0
