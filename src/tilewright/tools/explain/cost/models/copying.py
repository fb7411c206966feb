"""Kernels whose copies into shared memory run while they multiply: their latency is hidden, their issue is not."""

from tilewright.core.gpus import Multiprocessor
from tilewright.core.hardware import WARP, round_up
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Copying
from tilewright.kernels.kernel import Kernel
from tilewright.tools.explain.cost.models.block import FRAGMENT_WIDTH, Asked, Footprint, Usage, fragment, granted, join

_WIDE_LOAD = 2.1
"""Cycles of shared memory for a warp's 128-bit load of fragments, of which neighbours share pieces."""
_WIDE_LATENCY = 9.2
"""Cycles of such a load that nothing hides where a partition has one warp, which loads one k ahead."""
_COPY_LATENCY = 1030.0
"""Cycles from a copy into shared memory to its use."""
_COPY_4 = 3.7
"""Cycles of a multiprocessor for a warp's copies of 4 bytes each, 16 neighbours in each of two rows."""
_COPY_4_UNALIGNED = 6.5
"""Cycles for copies like `_COPY_4` whose rows begin off 16-byte boundaries: 16 neighbours then touch a third sector."""
_COPY_4_ROW = 2.75
"""Cycles for a warp's copies of 4 bytes each, all neighbours in one row that begins off 16-byte boundaries."""
_COPY_16 = 7.1
"""Cycles of a multiprocessor for a warp's copies of 16 bytes each, all neighbours in one row."""
_COPY_STRIDED = 13.2
"""Cycles of a multiprocessor for a warp's copies of 4 bytes each, 16 bytes apart."""
_COPY_BOX = 0.75
"""Cycles for 32 elements that come through a tensor map."""
_TRANSPOSITION = 2.2
"""Cycles of a multiprocessor for a warp to read 32 elements in shared memory and to write them transposed."""
_EDGE_ENDS = 630.0
"""Cycles that edges add before the first step of a block and after its last."""
_BLOCK_BEGINS = 350.0
"""Cycles of a block before its first step and after its last."""
_SLICE_SUM = 4.0
"""Cycles for a slice to hand over a sum of a warp's lanes in shared memory, and for another to add it."""
_STORE = 7.3
"""Cycles of a multiprocessor to write 32 results."""
_EXPOSED_BYTE = 0.004
"""Share of a step that each byte a thread spills adds to a step of a block that is alone."""
_REGISTERS = (76, 0.75)
"""Registers of a thread, and more of it for each result, as NVRTC 13.0 was found to take them for sm_90a."""
_SHARING_REGISTERS = (28, 2.05)
"""Registers like `_REGISTERS` where blocks share tiles, and the threads of a block do not divide k among them."""
_BARRIER_BYTES = 1024
"""Static shared memory, of barriers and of what aligns the dynamic part."""


def needs(kernel: Kernel, family: Copying, config: Config, sm: Multiprocessor, layout: str) -> Usage:
    """Estimates without a compiler's report: it spills nothing, and does with fewer registers where it must."""
    rows, cols, *_ = fragment(kernel, config)
    shares = family.workers(config) > 0
    others, of_each = _SHARING_REGISTERS if shares and family.k_slices(config) == 1 else _REGISTERS
    registers = granted(int(others + of_each * rows * cols), kernel, config, sm)
    return Usage(registers, 0, _BARRIER_BYTES if shares or family.copies == "tensor maps" else 0)


def footprint(asked: Asked, family: Copying) -> Footprint:
    """Footprint of a block of this family."""
    kernel, config, sm, variant, room, spill_bytes, *_ = asked
    tile, (rows, cols, *_) = kernel.tile(config), fragment(kernel, config)
    warps, slices = room.warps_per_block, family.k_slices(config)
    loads = (rows + cols) / FRAGMENT_WIDTH
    # Cycles of a multiprocessor for one k of one warp, and for one k of a block that is alone, as if every partition
    # were as full as the fullest.
    lanes = rows * cols * WARP / sm.lanes
    fed = join(max(lanes, (rows * cols + loads) / sm.partitions), loads * _WIDE_LOAD)
    lone = join(round_up(warps, sm.partitions) * fed, loads * _WIDE_LATENCY)
    along_k = (variant.layout[0] == "N", variant.layout[1] == "T")
    copying = sum(
        length * tile.k / WARP * _copy(family, transposed, variant.aligned)
        for length, transposed in zip((tile.m, tile.n), along_k, strict=True)
    )
    steps = tile.k / slices  # of k, that a warp takes of a tile's
    exposed = 1 + _EXPOSED_BYTE * spill_bytes
    gathering = (slices - 1) * rows * cols * warps / slices * _SLICE_SUM
    return Footprint(
        occupancy=room,
        busy=steps * warps * fed + copying,
        alone=join((steps * lone + copying) * exposed, _COPY_LATENCY / max(family.stages(config) - 1, 1)),
        ends=_BLOCK_BEGINS + (_EDGE_ENDS if variant.edges else 0.0) + gathering,
        store=tile.m * tile.n / WARP * _STORE,
    )


def _copy(family: Copying, along_k: bool, aligned: bool) -> float:
    """Cycles of a multiprocessor for 32 elements of an operand."""
    transposed = family.transposes and along_k
    if family.copies == "tensor maps":
        return _COPY_BOX + (_TRANSPOSITION if transposed else 0.0)
    if transposed:
        return _COPY_4 if aligned else _COPY_4_UNALIGNED
    if aligned:
        return _COPY_16 / FRAGMENT_WIDTH
    return _COPY_4_ROW if family.transposes else _COPY_STRIDED
