"""Kernels that stage nothing and stream their operands: what counts is how many loads are in flight."""

import math

from tilewright.core.gpus import Multiprocessor
from tilewright.core.hardware import WARP, round_up
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Streaming
from tilewright.kernels.kernel import Kernel
from tilewright.tools.explain.cost.models.block import FRAGMENT_WIDTH, Asked, Footprint, Usage, fragment, join, spilling

_STREAM_LATENCY = 800.0
"""Cycles from the load of the large operand's elements to their use."""
_STREAM_SUMS = 1500.0
"""Cycles that a block takes of its multiprocessor to begin, and to add what its threads along k have."""
_ROWS_LATENCY = 215.0
"""Cycles from the loads of two rows' elements of the small operand to their use."""
_OTHER_REGISTERS = 24
"""Registers of a thread besides sums and elements, as an estimate."""
_MOST_SUMS = 4096
"""float32 in static shared memory, for sums of threads along k."""


def needs(kernel: Kernel, family: Streaming, config: Config, sm: Multiprocessor, layout: str) -> Usage:
    """Estimates without a compiler's report."""
    few, wide = _sides(kernel, family, config)
    tile = kernel.tile(config)
    elements = family.depth(config) * (few + (1 + family.ahead(config)) * wide)
    wanted = int(few * wide + elements) + _OTHER_REGISTERS
    return spilling(wanted, kernel, config, sm, 4 * min(_MOST_SUMS, tile.m * tile.n * WARP))


def footprint(asked: Asked, family: Streaming) -> Footprint:
    """Footprint of a block of this family."""
    kernel, config, sm, _, room, *_ = asked
    (few, wide), warps, depth = _sides(kernel, family, config), room.warps_per_block, family.depth(config)
    loads = (few + wide) / FRAGMENT_WIDTH
    fed = join(max(few * wide * WARP / sm.lanes, (few * wide + loads) / sm.partitions), loads)
    small = _ROWS_LATENCY * math.ceil(few / 2) if family.threads_wide(config) > 1 else 0.0
    latency = _STREAM_LATENCY / (1 + family.ahead(config)) + small
    return Footprint(
        occupancy=room,
        busy=depth * warps * fed,
        alone=join(depth * round_up(warps, sm.partitions) * fed, latency),
        ends=0.0,
        store=_STREAM_SUMS,
    )


def _sides(kernel: Kernel, family: Streaming, config: Config) -> tuple[float, float]:
    """Sides of a thread's fragment, along the small factor and along the large one."""
    rows, cols, *_ = fragment(kernel, config)
    return (cols, rows) if family.tall(config) else (rows, cols)
