"""Kernels that stage tiles through registers, or stage nothing: loads, barriers and arithmetic follow one another."""

import math

from tilewright.analysis.models.block import (
    FRAGMENT_WIDTH,
    SPILL_TRAFFIC,
    WARP,
    Footprint,
    Needs,
    fragment,
    join,
    spread,
)
from tilewright.analysis.models.block import registers_given as given
from tilewright.analysis.occupancy import Occupancy
from tilewright.gpus import Multiprocessor
from tilewright.kernels.families import Staging
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import VECTOR_BYTES, Variant
from tilewright.problem import ITEM_BYTES

_TENSOR_RATE = {"tf32": 4, "float16": 8, "bfloat16": 8}
"""How many times more products a clock the tensor cores make than the FP32 lanes, through fragments."""
_BANK_GROUPS = 8
"""Groups of four banks: 128-bit loads that hit distinct ones share a wavefront."""
_LOAD_LATENCY = 1000.0
"""Cycles from a load of a tile to its use, the barriers around it included."""
_UNSTAGED_LATENCY = 125.0
"""The same for a kernel that stages nothing, whose loads of several k are under way together."""
_STAGING = 1.3
"""Cycles of a multiprocessor to move a warp's worth of elements, 32, into shared memory."""
_EDGES = 4.6
"""How many times longer staging takes with bounds checks."""
_UNALIGNED = 1.6
"""How many times longer where rows cannot be moved as float4s."""
_SCALAR_LOAD = 0.8
"""Cycles of shared memory for a 32-bit load of a warp: less than one, since the compiler merges some of them."""
_FRAGMENT_LOAD = 2.0
"""Wavefronts of a warp's load of a piece of a tensor core's fragment."""
_BLOCK_ENDS = 1700.0
"""Cycles of a block before its first step and after its last."""
_SPILLED_BYTE = 0.01
"""What each byte a thread spills adds to a block's time, as a share of it."""
_OTHER_REGISTERS = 32
"""Registers of a thread besides results and fragments, as an estimate."""


def needs(kernel: Kernel, config: Config, sm: Multiprocessor, layout: str) -> Needs:
    """Estimates without a compiler's report."""
    rows, cols, *_ = fragment(kernel, config)
    tile = kernel.tile(config)
    wanted = int(rows * cols + rows + cols) + _OTHER_REGISTERS
    registers = given(wanted, kernel, config, sm)
    declared = tile.k > 1 and not kernel.shared_bytes(config, layout)
    return Needs(registers, SPILL_TRAFFIC * (wanted - registers), 4 * tile.k * (tile.m + tile.n) if declared else 0)


def footprint(
    kernel: Kernel,
    family: Staging,
    config: Config,
    sm: Multiprocessor,
    variant: Variant,
    room: Occupancy,
    spill_bytes: int,
) -> Footprint:
    """What a block asks for, with room for these."""
    tile, (rows, cols, *_) = kernel.tile(config), fragment(kernel, config)
    warps = room.warps_per_block
    width = VECTOR_BYTES // ITEM_BYTES[variant.factors] if kernel.vectorized else 1
    loads = (rows + cols) / width
    rate = _TENSOR_RATE[kernel.precision or variant.factors] if family.tensor_cores else 1
    # Cycles of a multiprocessor for one k of one warp.
    lanes = rows * cols * WARP / (sm.lanes * rate)
    issue = (rows * cols / rate + loads) / sm.partitions
    compute = max(lanes, issue)
    # Wavefronts of wide loads, which only wait for each other, were found to add to the time of the arithmetic.
    fed = compute + wavefronts(kernel, config) if width > 1 else join(compute, loads * _SCALAR_LOAD)
    staged = tile.k > 1
    staging = (tile.m + tile.n) * tile.k / WARP * _STAGING if staged else 0.0
    staging *= _EDGES if variant.edges else 1
    if kernel.vectorized and not variant.aligned:
        staging *= _UNALIGNED
    latency = _LOAD_LATENCY if staged else _UNSTAGED_LATENCY
    slowdown = 1 + _SPILLED_BYTE * spill_bytes
    return Footprint(
        tile=tile,
        occupancy=room,
        busy=(tile.k * warps * fed + staging) * slowdown,
        alone=(spread(warps, sm.partitions) * tile.k * fed + staging + latency) * slowdown,
        ends=_BLOCK_ENDS,
        store=0.0,
    )


def wavefronts(kernel: Kernel, config: Config) -> float:
    """Wavefronts of shared memory for a warp's 128-bit loads of its fragments at one k.

    Neighbouring lanes read neighbouring pieces of columns, or of rows. Lanes that read the same piece share it; loads
    from the same banks take a wavefront each.
    """
    rows, cols, lanes_n, pieces_m, pieces_n = fragment(kernel, config)
    if isinstance(kernel.cost, Staging) and kernel.cost.tensor_cores:
        return _FRAGMENT_LOAD * (rows + cols) / (VECTOR_BYTES // 2)
    of_b = cols / FRAGMENT_WIDTH * _conflicts(lanes_n, int(cols / pieces_n) // FRAGMENT_WIDTH)
    of_a = rows / FRAGMENT_WIDTH * _conflicts(WARP // lanes_n, int(rows / pieces_m) // FRAGMENT_WIDTH)
    return of_a + of_b


def _conflicts(pieces: int, apart: int) -> int:
    """Wavefronts for 16-byte loads at this distance, in 16 bytes."""
    return -(-pieces // (_BANK_GROUPS // math.gcd(_BANK_GROUPS, max(apart, 1))))
