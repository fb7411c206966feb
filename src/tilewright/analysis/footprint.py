"""What a block of a kernel asks of a multiprocessor: room, and cycles for one step along k, whatever the problem.

The constants of kernels that stage through registers were fitted to rungs 2 to 10 on an H200, those of kernels whose
copies run beside the arithmetic (rungs 12 and 15 to 18) to 10,000 measurements on one, of 187 problems.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tilewright.analysis.occupancy import Occupancy, occupancy
from tilewright.engines.base import CompileReport
from tilewright.gpus import Gpu, Multiprocessor
from tilewright.kernels.spec import Config, Kernel, Tile
from tilewright.kernels.takes import VECTOR_BYTES, Variant
from tilewright.problem import ITEM_BYTES

_WARP = 32
_OVERLAP = 4
"""Exponent of the norm that joins times that overlap, though not wholly."""
_TENSOR_RATE = {"tf32": 4, "float16": 8, "bfloat16": 8}
"""How many times more products a clock the tensor cores make than the FP32 lanes, through fragments."""
_BANK_GROUPS = 8
"""Groups of four banks: 128-bit loads that hit distinct ones share a wavefront."""

# Kernels that stage through registers, or not at all.
_LOAD_LATENCY = 1000.0
"""Cycles from a load of a tile to its use, the barriers around it included."""
_UNSTAGED_LATENCY = 125.0
"""The same for a kernel that stages nothing, whose loads of several k are under way together."""
_STAGING = 1.3
"""Cycles of a multiprocessor to bring a warp's worth of elements, 32, into shared memory."""
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
_SPILL_TRAFFIC = 8
"""Bytes that a register too many is spilled with: stored, and loaded again."""

# Kernels whose copies run beside the arithmetic.
_WIDE_LOAD = 2.1
"""Cycles of shared memory for a warp's 128-bit load of fragments, of which neighbours share pieces."""
_WIDE_LATENCY = 9.2
"""Cycles of such a load that nothing hides where a partition has one warp, which loads one k ahead."""
_COPY_LATENCY = 1030.0
"""Cycles from a copy into shared memory to its use."""
_COPY_4 = 3.7
"""Cycles of a multiprocessor for a warp's copies of 4 bytes each, 16 side by side in each of two rows."""
_COPY_4_UNALIGNED = 6.5
"""The same where rows begin off 16-byte boundaries: 16 then touch a third sector."""
_COPY_4_ROW = 2.75
"""Of 4 bytes each, all side by side in such a row."""
_COPY_16 = 7.1
"""The same of 16 bytes each."""
_COPY_APART = 13.2
"""The same of 4 bytes each, 16 bytes apart."""
_COPY_BOX = 0.75
"""Cycles for 32 elements that come through a tensor map."""
_TRANSPOSITION = 2.2
"""Cycles of a multiprocessor for a warp to read 32 elements of A in shared memory and to write them transposed."""
_EDGE_ENDS = 630.0
"""Cycles that edges add before the first step of a block and after its last."""
_BLOCK_BEGINS = 350.0
"""Cycles of a block before its first step and after its last."""
_SLICE_SUM = 4.0
"""Cycles for a slice to hand over a sum of a warp's lanes in shared memory, and for another to add it."""
_STORE = 7.3
"""Cycles of a multiprocessor to write 32 results."""
_EXPOSED_BYTE = 0.004
"""What a byte that a thread spills adds to a step of a block that is alone, as a share of it."""
_COPYING_REGISTERS = (76, 0.75)
"""Registers of a thread, and more of it for each result, as NVRTC 13.0 was found to take them for sm_90a."""
_SHARING_REGISTERS = (28, 2.05)
"""The same where blocks share tiles, and the threads of a block do not divide k among them."""
_BARRIER_BYTES = 1024
"""Static shared memory, of barriers and of what aligns the dynamic part."""

# Kernels that stage nothing and stream their operands.
_STREAM_LATENCY = 800.0
"""Cycles from the load of the large operand's elements to their use."""
_STREAM_SUMS = 1500.0
"""Cycles that a block takes of its multiprocessor to begin, and to add what its threads along k have."""
_ROWS_LATENCY = 215.0
"""Cycles from the loads of two rows' elements of the small operand to their use."""
_STREAM_REGISTERS = 24
"""Registers of a thread besides sums and elements, as an estimate."""


@dataclass(frozen=True)
class Footprint:
    """What a block asks of a multiprocessor. Times are cycles."""

    tile: Tile
    occupancy: Occupancy
    busy: float
    """That the multiprocessor works on one step of the block: arithmetic, issue, shared memory, staging."""
    alone: float
    """From one step of the block to its next where no other block is in its way: its latencies are not hidden then, and
    a block of few warps leaves partitions idle."""
    ends: float
    """Before the block's first step and after its last."""
    store: float
    """That the multiprocessor works on writing the block's results."""


@lru_cache(maxsize=8192)
def footprint(
    kernel: Kernel, config: Config, gpu: Gpu, guards: Variant, report: CompileReport | None = None
) -> Footprint:
    """What a kernel with a config asks of a GPU; registers are estimated where there is no report."""
    sm = gpu.multiprocessor
    needs = _needs(kernel, config, sm, guards, report)
    room = occupancy(sm, kernel.threads(config), needs.registers, needs.shared_bytes, kernel.bundle(config))
    if "THREADS_N" in config:
        return _streaming(kernel, config, sm, room)
    if _copies(kernel, config):
        return _copying(kernel, config, sm, guards, room, needs.spill_bytes)
    return _staging(kernel, config, sm, guards, room, needs.spill_bytes)


def _staging(
    kernel: Kernel, config: Config, sm: Multiprocessor, guards: Variant, room: Occupancy, spill_bytes: int
) -> Footprint:
    tile, (rows, cols) = kernel.tile(config), fragment(kernel, config)
    warps = room.warps_per_block
    width = VECTOR_BYTES // ITEM_BYTES[guards.factors] if kernel.vectorized else 1
    loads = (rows + cols) / width
    rate = _TENSOR_RATE.get(kernel.precision or guards.factors, 1)
    # Cycles of a multiprocessor for one k of one warp.
    lanes = rows * cols * _WARP / (sm.lanes * rate)
    issue = (rows * cols / rate + loads) / sm.partitions
    compute = max(lanes, issue)
    # Wavefronts of wide loads, which only wait for each other, were found to add to the time of the arithmetic.
    shared = wavefronts(kernel, config) if width > 1 else 0.0
    fed = compute + shared if shared else join(compute, loads * _SCALAR_LOAD)
    staged = tile.k > 1
    staging = (tile.m + tile.n) * tile.k / _WARP * _STAGING if staged else 0.0
    staging *= _EDGES if guards.edges else 1
    if kernel.vectorized and not guards.aligned:
        staging *= _UNALIGNED
    latency = _LOAD_LATENCY if staged else _UNSTAGED_LATENCY
    slowdown = 1 + _SPILLED_BYTE * spill_bytes
    return Footprint(
        tile=tile,
        occupancy=room,
        busy=(tile.k * warps * fed + staging) * slowdown,
        alone=(_spread(warps, sm.partitions) * tile.k * fed + staging + latency) * slowdown,
        ends=_BLOCK_ENDS,
        store=0.0,
    )


def _copying(
    kernel: Kernel, config: Config, sm: Multiprocessor, guards: Variant, room: Occupancy, spill_bytes: int
) -> Footprint:
    tile, (rows, cols) = kernel.tile(config), fragment(kernel, config)
    warps, slices = room.warps_per_block, config.get("SLICES", 1)
    loads = (rows + cols) / (VECTOR_BYTES // 4)
    # Cycles of a multiprocessor for one k of one warp, and for one k of a block that is alone.
    lanes = rows * cols * _WARP / sm.lanes
    fed = join(max(lanes, (rows * cols + loads) / sm.partitions), loads * _WIDE_LOAD)
    lone = join(_spread(warps, sm.partitions) * fed, loads * _WIDE_LATENCY)
    of_a, of_b = tile.m * tile.k / _WARP, tile.n * tile.k / _WARP
    if kernel.tensor_maps:
        copying = (of_a + of_b) * _COPY_BOX + of_a * (_TRANSPOSITION if kernel.relayouts == (None, None) else 0)
    elif "SLICES" in config:  # A is transposed on its way
        if guards.aligned:
            copying = of_a * _COPY_4 + of_b * _COPY_16 / 4
        else:
            copying = of_a * _COPY_4_UNALIGNED + of_b * _COPY_4_ROW
    else:
        copying = (of_a + of_b) * (_COPY_16 / 4 if guards.aligned else _COPY_APART)
    steps = tile.k / slices  # of k, that a warp takes of a tile's
    exposed = 1 + _EXPOSED_BYTE * spill_bytes
    gathering = (slices - 1) * rows * cols * warps / slices * _SLICE_SUM
    return Footprint(
        tile=tile,
        occupancy=room,
        busy=steps * warps * fed + copying,
        alone=join((steps * lone + copying) * exposed, _COPY_LATENCY / max(config.get("STAGES", 2) - 1, 1)),
        ends=_BLOCK_BEGINS + (_EDGE_ENDS if guards.edges else 0.0) + gathering,
        store=tile.m * tile.n / _WARP * _STORE,
    )


def _streaming(kernel: Kernel, config: Config, sm: Multiprocessor, room: Occupancy) -> Footprint:
    tile, (rows, cols), warps = kernel.tile(config), fragment(kernel, config), room.warps_per_block
    loads = (rows + cols) / (VECTOR_BYTES // 4)
    fed = join(max(rows * cols * _WARP / sm.lanes, (rows * cols + loads) / sm.partitions), loads)
    small = _ROWS_LATENCY * math.ceil(rows / 2) if config.THREADS_N > 1 else 0.0
    latency = _STREAM_LATENCY / (1 + config.AHEAD) + small
    return Footprint(
        tile=tile,
        occupancy=room,
        busy=config.DEPTH * warps * fed,
        alone=join(config.DEPTH * _spread(warps, sm.partitions) * fed, latency),
        ends=0.0,
        store=_STREAM_SUMS,
    )


def _copies(kernel: Kernel, config: Config) -> bool:
    """Whether its tiles come by copies that run beside the arithmetic."""
    return "STAGES" in config or kernel.tensor_maps is not None


def fragment(kernel: Kernel, config: Config) -> tuple[float, float]:
    """Rows and columns of C that a thread computes, as seen by its loads from shared memory."""
    tile, threads = kernel.tile(config), kernel.threads(config)
    # Of the threads, so many stand along k.
    along_k = threads // config["THREADS_N"] if "THREADS_N" in config else config.get("SLICES", 1)
    results = tile.m * tile.n * along_k / threads
    cols = config["TN"] * config.get("WNITER", 1) if "TN" in config else math.sqrt(results)
    return results / cols, cols


def wavefronts(kernel: Kernel, config: Config) -> float:
    """Wavefronts of shared memory for a warp's 128-bit loads of its fragments at one k.

    As the rungs with transposed tiles lay them out: lanes stand side by side along a row of C, TN columns apart, then
    TM rows apart. Lanes that read the same piece share it; pieces in the same banks take a wavefront each.
    """
    rows, cols = fragment(kernel, config)
    if "TM" not in config or "TN" not in config:
        tensor_pieces = (rows + cols) / (VECTOR_BYTES // 2)
        return _FRAGMENT_LOAD * tensor_pieces
    width = VECTOR_BYTES // 4
    row = config["WN"] // config.get("WNITER", 1) if "WN" in config else kernel.tile(config).n
    across = min(max(row // config["TN"], 1), _WARP)
    of_b = cols / width * _conflicts(across, config["TN"] // width)
    of_a = rows / width * _conflicts(_WARP // across, config["TM"] // width)
    return of_a + of_b


def join(one: float, other: float) -> float:
    """The time of two things that overlap, though not wholly."""
    return float((one**_OVERLAP + other**_OVERLAP) ** (1 / _OVERLAP))


def _conflicts(pieces: int, apart: int) -> int:
    """Wavefronts for 16-byte pieces that lie so many pieces apart."""
    return -(-pieces // (_BANK_GROUPS // math.gcd(_BANK_GROUPS, max(apart, 1))))


class _Needs(NamedTuple):
    registers: int
    spill_bytes: int
    shared_bytes: int
    """Of a bundle."""


def _needs(kernel: Kernel, config: Config, sm: Multiprocessor, guards: Variant, report: CompileReport | None) -> _Needs:
    """What the compiler says of a kernel; without a report, what its results, fragments and tiles come to."""
    dynamic, tile = kernel.bundle(config) * kernel.shared_bytes(config), kernel.tile(config)
    if report is not None and report.registers is not None:
        return _Needs(report.registers, report.spill_bytes or 0, dynamic + (report.shared_bytes or 0))
    rows, cols = fragment(kernel, config)
    spills = True
    if "THREADS_N" in config:
        elements = config.DEPTH * (rows + (1 + config.AHEAD) * cols)
        wanted, tiles = int(rows * cols + elements) + _STREAM_REGISTERS, 4 * min(4096, tile.m * tile.n * _WARP)
    elif _copies(kernel, config):
        shares = config.get("WAVE", 0) > 1 and config.get("SLICES", 1) == 1
        others, of_each = _SHARING_REGISTERS if shares else _COPYING_REGISTERS
        wanted, spills = int(others + of_each * rows * cols), False  # it does with less where it must
        tiles = _BARRIER_BYTES if config.get("WAVE") or kernel.tensor_maps else 0
    else:
        wanted = int(rows * cols + rows + cols) + _OTHER_REGISTERS
        tiles = 4 * tile.k * (tile.m + tile.n) if tile.k > 1 and not dynamic else 0
    # The compiler keeps so many blocks within a multiprocessor's registers, and spills what is too much.
    together = kernel.threads(config) * config.get("BLOCKS", 1)
    given = min(wanted, sm.registers_per_thread, sm.registers // together // 8 * 8)
    return _Needs(given, _SPILL_TRAFFIC * (wanted - given) if spills else 0, dynamic + tiles)


def _spread(warps: int, partitions: int) -> int:
    """Warps, counted as if each partition had as many as the fullest."""
    return -(-warps // partitions) * partitions
