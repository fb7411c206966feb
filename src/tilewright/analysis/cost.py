"""The cost model: how long a kernel with a config would take on a problem, from what it asks of a GPU.

Blocks run in waves, as many at a time as the multiprocessors hold; the tail is a wave of fewer. Within a wave a
multiprocessor needs, for every step along k, the time of the arithmetic, of the issue of instructions and of the
wavefronts of shared memory of all its blocks, or the latency of one block's loads where few blocks hide it. The
traffic of the L2 cache and of DRAM takes its time beside that.

The model is there to rank. Its constants were fitted to rungs 2 to 10 on an H200 from 64 to 8192, which it tells with a
mean error of 13%; what it does not know of a kernel (a layout against bank conflicts, say) is for a calibration by
measured times.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tilewright.analysis.occupancy import Occupancy, occupancy
from tilewright.engines.base import CompileReport
from tilewright.gpus import Gpu, Multiprocessor
from tilewright.kernels.spec import VECTOR_BYTES, Config, Kernel, Tile
from tilewright.problem import ITEM_BYTES, Problem

_WARP = 32
_LAUNCH_US = 2.2
_LOAD_LATENCY = 1000.0
"""Cycles from a load of a tile to its use, the barriers around it included."""
_UNSTAGED_LATENCY = 125.0
"""The same for a kernel that stages nothing, whose loads of several k are under way together."""
_STAGING = 1.3
"""Cycles of a multiprocessor to bring a warp's worth of elements, 32, into shared memory."""
_BLOCK_ENDS = 1700.0
"""Cycles of a block before its first step and after its last."""
_EDGES = 4.6
"""How many times longer staging takes with bounds checks."""
_UNALIGNED = 1.6
"""How many times longer where rows cannot be moved as float4s."""
_SCALAR_LOAD = 0.8
"""Cycles of shared memory for a 32-bit load of a warp: less than one, since the compiler merges some of them."""
_FRAGMENT_LOAD = 2.0
"""Wavefronts of a warp's load of a piece of a tensor core's fragment."""
_BANK_GROUPS = 8
"""Groups of four banks: 128-bit loads that hit distinct ones share a wavefront."""
_OVERLAP = 4
"""Exponent of the norm that joins times that overlap, though not wholly."""
_SPILLED_BYTE = 0.01
"""What each byte a thread spills adds to a block's time, as a share of it."""
_OTHER_REGISTERS = 32
"""Registers of a thread besides results and fragments, as an estimate."""
_SPILL_TRAFFIC = 8
"""Bytes that a register too many is spilled with: stored, and loaded again."""
_REDUCTION_US = 2.0
"""What it takes, the traffic aside, to add the parts of a product that is split along k."""
_L2_SHARE = 0.7
"""Share of the L2 cache that operands can be kept in."""
_TENSOR_RATE = {"tf32": 4, "float16": 8, "bfloat16": 8}
"""How many times more products a clock the tensor cores make than the FP32 lanes, through fragments."""


@dataclass(frozen=True)
class Footprint:
    """What a kernel with a config asks of a GPU, whatever the problem. Times are cycles."""

    tile: Tile
    occupancy: Occupancy
    staged: bool
    """Whether tiles go through shared memory."""
    arithmetic: float
    """Of a multiprocessor, for one step of one block: arithmetic, issue and shared memory."""
    lone_arithmetic: float
    """The same where the block is alone, and leaves some of the multiprocessor's partitions without a warp."""
    staging: float
    """Of a multiprocessor, to stage the tiles of one step, with neither edges nor unaligned rows."""
    latency: float
    """Of a step's loads, as far as stages in flight do not hide it."""
    slowdown: float
    """What spills multiply the time with."""


@dataclass(frozen=True)
class Cost:
    """What a run is predicted to take, in microseconds, and of what."""

    us: float
    blocks_us: float
    """The waves of blocks."""
    traffic_us: float
    """The larger of L2's and DRAM's time."""
    waves: float
    """Blocks over those that the GPU holds at a time."""


def predict(
    kernel: Kernel, config: Config, problem: Problem, gpu: Gpu, report: CompileReport | None = None
) -> Cost | None:
    """Predict one run of a kernel; None where the GPU cannot hold even one of its blocks.

    Args:
        kernel, config: what to run.
        problem: sizes and leading dimensions; base addresses are taken for aligned.
        gpu: where.
        report: the compiler's; without one, registers and shared memory are estimated from the tiles.
    """
    needs = footprint(kernel, config, gpu, problem.dtype, report)
    held = needs.occupancy.blocks
    if not held:
        return None
    tile, m, n, k = needs.tile, problem.m, problem.n, problem.k
    tiles = -(-m // tile.m) * -(-n // tile.n)
    blocks = kernel.blocks(tiles, config)
    splits = max(blocks / max(tiles, 1), 1.0)
    steps = math.ceil(k / (tile.k * splits))
    guards = kernel.specialize(problem, config, (0, 0, 0))
    staging = needs.staging * (_EDGES if guards.edges else 1)
    if kernel.vectorized and not guards.aligned:
        staging *= _UNALIGNED
    busy = needs.arithmetic + staging
    alone = needs.lone_arithmetic + staging + needs.latency

    def wave(per_multiprocessor: int) -> float:
        return steps * max(per_multiprocessor * busy, alone) + _BLOCK_ENDS

    full, rest = divmod(blocks, held * gpu.multiprocessors)
    cycles = full * wave(held) + (wave(-(-rest // gpu.multiprocessors)) if rest else 0)
    blocks_us = cycles * needs.slowdown / gpu.clock_mhz
    traffic_us = _traffic_us(needs, problem, gpu, tiles, splits)
    us = _LAUNCH_US + _join(blocks_us, traffic_us)
    if splits > 1:
        us += _REDUCTION_US + 8 * m * n * (splits - 1) / _l2_bytes_per_us(gpu)
    if kernel.packs:  # A is read and written once more by a kernel of its own
        us += _LAUNCH_US + 8 * m * k / (1e3 * gpu.dram_gbs)
    return Cost(us, blocks_us, traffic_us, blocks / (held * gpu.multiprocessors))


@lru_cache(maxsize=4096)
def footprint(kernel: Kernel, config: Config, gpu: Gpu, dtype: str, report: CompileReport | None = None) -> Footprint:
    """What a kernel with a config asks of a GPU; estimated from the tiles where there is no report."""
    sm, tile, threads = gpu.multiprocessor, kernel.tile(config), kernel.threads(config)
    rows, cols = fragment(kernel, config)
    warps = -(-threads // _WARP)
    staged = tile.k > 1
    needs = _needs(kernel, config, sm, report)
    held = occupancy(sm, threads, needs.registers, needs.shared_bytes)
    width = VECTOR_BYTES // ITEM_BYTES[dtype] if kernel.vectorized else 1
    loads = (rows + cols) / width
    rate = _TENSOR_RATE.get(kernel.precision or dtype, 1)
    # Cycles of a multiprocessor for one k of one warp.
    lanes = rows * cols * _WARP / (sm.lanes * rate)
    issue = (rows * cols / rate + loads) / sm.partitions
    compute = max(lanes, issue)
    # Wavefronts of wide loads, which only wait for each other, were found to add to the time of the arithmetic.
    shared = wavefronts(kernel, config) if width > 1 else 0.0
    fed = compute + shared if shared else _join(compute, loads * _SCALAR_LOAD)
    in_step = _spread(warps, sm.partitions) * tile.k
    stages = max(config.get("STAGES", 1), 1)
    hidden = (stages - 1) * in_step * fed
    return Footprint(
        tile=tile,
        occupancy=held,
        staged=staged,
        arithmetic=tile.k * warps * fed,
        lone_arithmetic=in_step * fed,
        staging=(tile.m + tile.n) * tile.k / _WARP * _STAGING if staged else 0.0,
        latency=max((_LOAD_LATENCY if staged else _UNSTAGED_LATENCY) - hidden, 0.0),
        slowdown=1 + _SPILLED_BYTE * needs.spill_bytes,
    )


def fragment(kernel: Kernel, config: Config) -> tuple[float, float]:
    """Rows and columns of C that a thread computes, as seen by its loads from shared memory."""
    tile = kernel.tile(config)
    results = tile.m * tile.n / kernel.threads(config)
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


def _conflicts(pieces: int, apart: int) -> int:
    """Wavefronts for 16-byte pieces that lie so many pieces apart."""
    return -(-pieces // (_BANK_GROUPS // math.gcd(_BANK_GROUPS, max(apart, 1))))


class _Needs(NamedTuple):
    registers: int
    spill_bytes: int
    shared_bytes: int


def _needs(kernel: Kernel, config: Config, sm: Multiprocessor, report: CompileReport | None) -> _Needs:
    """What the compiler says of a kernel; without a report, what its results, fragments and tiles come to."""
    dynamic, tile = kernel.shared_bytes(config), kernel.tile(config)
    if report is not None and report.registers is not None:
        return _Needs(report.registers, report.spill_bytes or 0, dynamic + (report.shared_bytes or 0))
    rows, cols = fragment(kernel, config)
    wanted = int(rows * cols + rows + cols) + _OTHER_REGISTERS
    # The compiler keeps a block within a multiprocessor's registers, and spills what is too much.
    given = min(wanted, sm.registers_per_thread, sm.registers // kernel.threads(config) // 8 * 8)
    tiles = 4 * tile.k * (tile.m + tile.n) if tile.k > 1 and not dynamic else 0
    return _Needs(given, _SPILL_TRAFFIC * (wanted - given), dynamic + tiles)


def _spread(warps: int, partitions: int) -> int:
    """Warps, counted as if each partition had as many as the fullest."""
    return -(-warps // partitions) * partitions


def _traffic_us(needs: Footprint, problem: Problem, gpu: Gpu, tiles: int, splits: float) -> float:
    tile, m, n, k = needs.tile, problem.m, problem.n, problem.k
    size = ITEM_BYTES[problem.dtype]
    result = 4 * m * n * (2 if problem.beta else 1)
    through_l2 = size * tiles * (tile.m + tile.n) * k + result
    least = size * k * (m + n)
    from_dram = float(least)
    if least > _L2_SHARE * gpu.l2_bytes:
        # A wave shares what it reads; the next one reads it again.
        across = -(-n // tile.n)
        held = max(min(int(needs.occupancy.blocks * gpu.multiprocessors / splits), tiles), 1)
        a_wave = (-(-held // across) * tile.m + min(held, across) * tile.n) * k * size
        from_dram = max(least, min(a_wave * (tiles / held), through_l2))
    return max(through_l2 / _l2_bytes_per_us(gpu), (from_dram + result) / (1e3 * gpu.dram_gbs))


def _l2_bytes_per_us(gpu: Gpu) -> float:
    return gpu.l2_bytes_per_clock * gpu.clock_mhz


def _join(one: float, other: float) -> float:
    """The time of two things that overlap, though not wholly."""
    return float((one**_OVERLAP + other**_OVERLAP) ** (1 / _OVERLAP))
