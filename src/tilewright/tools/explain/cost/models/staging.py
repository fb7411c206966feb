"""Kernels that stage tiles through registers, or stage nothing: loads, barriers and arithmetic follow one another.

A step of a block takes a multiprocessor's time in two ways that overlap in part: instructions are issued and multiply,
and the banks of shared memory, which the L1 cache lies in, deliver words. A block that is alone waits besides: for
loads of global memory and at barriers, and where partitions have few warps for shared memory. Other blocks use that
time.

What a step asks for (`Demand`) is counted where a launch is explained (`tools/explain/demand.py`), and estimated from
the tiles where thousands of configs are ranked. The constants were fitted to what was counted of rungs 1 to 11, 13 and
14, in 138 measurements on an H200: the mean error is 7%.
"""

import math
from functools import lru_cache

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.gpus import Multiprocessor
from tilewright.core.hardware import WARP, ceil_div, round_up
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Staging
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.tools.explain.cost.models.block import (
    FRAGMENT_WIDTH,
    Asked,
    Demand,
    Footprint,
    Usage,
    fragment,
    queue,
    spilling,
)

WARP_PRODUCTS = 1024
"""Multiply-adds a clock that tensor cores make at most of 16-bit factors for instructions of one warp: half of what
warpgroups get on an H200."""
_LONGEST = 2048
"""Multiply-adds of the longest such instruction, from compute capability 8.0 on; of TF32 and before, of half as many.
Fragments of TF32 are multiplied by instructions of a quarter."""
GENERIC_LOAD = 3.0
"""Cycles of the banks for a warp's load that does not say which memory it reads: fragments of bfloat16 and TF32."""
LOAD = 450.0
"""Cycles from a load of global memory to its use that nothing else of the block fills."""
BARRIERS = 250.0
"""Cycles of a step in which a block's warps wait for each other."""
UNSTAGED_LOADS = 860.0
"""Cycles that an iteration waits for its loads where nothing is staged: those of several k are in flight together."""
UNSTAGED_UNROLLED = 16
"""Values of k of such an iteration, as an estimate."""
_SHARED_LATENCY = 33.0
"""Cycles from a load of shared memory to its use. (Microbenchmarks of Hopper find 29 to 33.)"""
_AT_ONCE = 0.35
"""Where an iteration begins with its loads of shared memory, the share of all warps' that a warp waits for."""
_BLOCK_ENDS = 1700.0
"""Cycles of a block before its first step and after its last."""
_SPILLED_BYTE = 0.01
"""Share of a block's time that each byte a thread spills adds to it."""
_OTHER_REGISTERS = 32
"""Registers of a thread besides results and fragments, as an estimate."""

_BANK_GROUPS = 8
"""Groups of four banks: 128-bit loads that hit distinct ones share a wavefront."""
_STAGED = 3.6
"""Wavefronts to move 32 elements from global to shared memory, transposed ones among them, as an estimate."""
_LOADED = 32
"""Elements that a thread has registers for, from global memory to shared memory, as an estimate."""
_EDGES = 1.3
"""Factor of `_STAGED` where rows are checked against the ends of their matrix."""
_UNALIGNED = 1.6
"""Factor of `_STAGED` where rows cannot be moved as float4s."""
_BESIDES = 1.1
"""Instructions for each that multiplies or loads, as an estimate."""


def needs(kernel: Kernel, family: Staging, config: Config, sm: Multiprocessor, layout: str) -> Usage:
    """Estimates without a compiler's report."""
    rows, cols, *_ = fragment(kernel, config)
    tile = kernel.tile(config)
    wanted = int(rows * cols + rows + cols) + _OTHER_REGISTERS
    declared = tile.k > 1 and not kernel.shared_bytes(config, layout)
    return spilling(wanted, kernel, config, sm, 4 * tile.k * (tile.m + tile.n) if declared else 0)


def footprint(asked: Asked, family: Staging) -> Footprint:
    """Footprint of a block of this family."""
    kernel, config, sm, variant, room, spill_bytes, *_ = asked
    demand = asked.demand or estimate(kernel, family, config, sm, variant)
    partitions, warps = sm.partitions, room.warps_per_block
    busy, lone = demand.busy, demand.busy * round_up(warps, partitions) / warps
    if demand.reads:
        of_partition = ceil_div(warps, partitions)
        queued = _AT_ONCE * demand.banks / demand.reads if demand.at_once else 0.0
        service = lone / demand.reads / of_partition
        lone = demand.reads * queue(of_partition, service, _SHARED_LATENCY + queued)
    slowdown = 1 + _SPILLED_BYTE * spill_bytes
    return Footprint(
        occupancy=room,
        busy=busy * slowdown,
        alone=(lone + demand.waits) * slowdown,
        ends=_BLOCK_ENDS,
        store=0.0,
        queued=True,
    )


def estimate(kernel: Kernel, family: Staging, config: Config, sm: Multiprocessor, variant: Variant) -> Demand:
    """Demand of a step, estimated from the tiles alone."""
    tile, (rows, cols, *_) = kernel.tile(config), fragment(kernel, config)
    warps, item = ceil_div(kernel.threads(config), WARP), ITEM_BYTES[variant.factors]
    if tile.k == 1:
        passes = _unstaged(kernel, config, sm, variant)
        issue = _BESIDES * (rows * cols + rows + cols) * warps / sm.partitions
        waits = UNSTAGED_LOADS / UNSTAGED_UNROLLED
        return Demand(rows * cols * WARP / sm.lanes * warps, issue, passes * warps, 0, False, waits)
    staged = (tile.m + tile.n) * tile.k / WARP * _STAGED * (_EDGES if variant.edges else 1.0)
    if kernel.support.vectorized and not variant.aligned:
        staged *= _UNALIGNED
    in_flight = (tile.m + tile.n) * tile.k / (kernel.threads(config) * _LOADED)
    waits = BARRIERS + LOAD * math.ceil(in_flight)
    if family.tensor_cores:
        precision = kernel.support.precision or variant.factors
        tf32 = precision == "tf32"
        multiply = tile.m * tile.n * tile.k / tensor_rate(sm, tf32, _LONGEST // 4 if tf32 else _LONGEST)
        # Of the fragments of a warp, whose part of D is as square as may be.
        loaded = warps * tile.k * (rows + cols) * math.sqrt(WARP) * item / (4 * WARP)
        banks = loaded * (1.0 if precision == "float16" else GENERIC_LOAD) + staged * item / 4
        return Demand(multiply, 0.0, banks, 0, False, BARRIERS)
    products = rows * cols * warps * tile.k
    # Loads at one k that the source makes one by one: those of A are merged along k.
    one_by_one = rows / 2 + (cols if cols < FRAGMENT_WIDTH else 2 * cols)
    wavefronts = wide(kernel, config) if kernel.support.vectorized else one_by_one
    width = FRAGMENT_WIDTH if kernel.support.vectorized else 1
    issue = _BESIDES * (products + (rows + cols) / width * warps * tile.k) / sm.partitions
    banks = wavefronts * warps * tile.k + staged
    return Demand(products * WARP / sm.lanes, issue, banks, tile.k, False, waits)


def tensor_rate(sm: Multiprocessor, tf32: bool, products: int) -> float:
    """Multiply-adds a clock that tensor cores make for instructions of one warp.

    Args:
        sm: where.
        tf32: whether factors are TF32, and not of 16 bits.
        products: multiply-adds of an instruction. One of fewer than the longest occupies the tensor cores as long.
    """
    longest = _LONGEST // (2 if tf32 or not sm.tf32_products else 1)
    most = sm.tf32_products if tf32 else sm.half_products
    return min(most, WARP_PRODUCTS // (2 if tf32 else 1)) * min(products / longest, 1.0)


def _unstaged(kernel: Kernel, config: Config, sm: Multiprocessor, variant: Variant) -> float:
    """Passes over the L1 cache's banks for a warp's loads at one k. Where tiles divide the problem, rows of A are taken
    to be a power of two apart: all lanes then fall on one bank."""
    lanes_n = fragment(kernel, config).lanes_n
    of_a = WARP // lanes_n
    return (of_a / sm.l1_lines if variant.edges else of_a) + 1


def wide(kernel: Kernel, config: Config) -> int:
    """Wavefronts of shared memory for a warp's 128-bit loads of its fragments at one k.

    Neighbouring lanes read neighbouring pieces of columns, or of rows.
    """
    rows, cols, lanes_n, pieces_m, pieces_n = fragment(kernel, config)
    of_b = cols / FRAGMENT_WIDTH * _wavefronts(1, lanes_n, int(cols / pieces_n) // FRAGMENT_WIDTH)
    of_a = rows / FRAGMENT_WIDTH * _wavefronts(lanes_n, WARP, int(rows / pieces_m) // FRAGMENT_WIDTH)
    return int(of_a + of_b)


@lru_cache(maxsize=256)
def _wavefronts(alike: int, lanes: int, stride: int) -> int:
    """Wavefronts of a 128-bit load: `alike` neighbouring lanes read one piece, the next ones a piece `apart` x 16 bytes
    from it; after `lanes` lanes they begin anew. As pipe_model.hpp has it."""
    pieces = [lane % lanes // alike * stride for lane in range(WARP)]
    total, quarter = 0, WARP // 4
    for half in (pieces[: WARP // 2], pieces[WARP // 2 :]):
        together = any(all(half[lane] == half[lane ^ other] for lane in range(len(half))) for other in (1, 2))
        for served in [half] if together else [half[:quarter], half[quarter:]]:
            groups = [piece % _BANK_GROUPS for piece in set(served)]
            total += max(groups.count(group) for group in set(groups))
    return total
