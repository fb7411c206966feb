"""The cost model: how long a kernel with a config would take on a problem, from what it asks of a GPU.

Blocks run in waves, as many at a time as the multiprocessors hold; the tail is a wave of fewer. Within a wave a
multiprocessor needs the time of the arithmetic, of the issue of instructions and of the wavefronts of shared memory of
all its blocks, or that of one block with its latencies where few blocks hide them (`footprint.py`). The traffic of the
L2 cache and of DRAM takes its time beside that. Where blocks share tiles, their parts are added afterwards, beside
blocks with a tile of their own that take longer; where operands are packed, that comes before.

The model is there to rank. On an H200 it tells rungs 2 to 10 from 64 to 8192 with a mean error of 14%, and rungs 12 and
15 to 18 on the problems of the tuned table, with the configs that are fast there, with one of 5%. What it does not
know of a kernel is for a calibration by measured times.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.analysis.footprint import Footprint, footprint, join
from tilewright.engines.base import CompileReport
from tilewright.gpus import Gpu
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import VECTOR_BYTES
from tilewright.problem import ITEM_BYTES, Problem

_LAUNCH_US = 1.27
_L2_SHARE = 0.7
"""Share of the L2 cache that operands can be kept in."""
_L2_RATE = 1.9
"""How many times faster than estimated for microbenchmarks the L2 cache was found to serve blocks' tiles."""
_LINE_BYTES = 128
"""What the L2 cache takes as long to serve as any part of it."""
_PACKING_US = 1.85
"""What it takes, the traffic aside, to pack operands and to start the kernel behind that."""
_GATHER_US = 4.6
"""What it takes the last block to add the parts of all others."""
_LEVEL_US = 1.03
"""What it takes two blocks to add their parts, ..."""
_LEVEL_US_PER_RESULT = 7.5e-5
"""... and each result of their tile."""
_STRADDLE = 0.92
"""Levels that ranges of k add that begin in one tile and end in the next."""


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
    blocks: float
    """Blocks over multiprocessors."""
    parts: float
    """Blocks that share a tile, where some do."""


class _Work(NamedTuple):
    """How a problem's tiles fall to blocks."""

    whole: int
    """Blocks with a tile of their own."""
    sharers: int
    """Blocks that share tiles."""
    without: int
    """Blocks that find none to share."""
    share: float
    """Steps along k of each of these, or what takes as long."""
    parts: float
    """Sharers of a tile."""


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
    needs = footprint(kernel, config, gpu, kernel.variant(problem, config), report)
    held = needs.occupancy.blocks
    if not held:
        return None
    tile = needs.tile
    tiles = -(-problem.m // tile.m) * -(-problem.n // tile.n)
    steps = -(-problem.k // tile.k)
    work = _divide(kernel, config, problem, tiles, steps, gpu.multiprocessors)
    packed = _packed_bytes(kernel, problem)
    # For the first step of every chunk but one, as long as a step takes.
    waits = max(-(-problem.k // config["CHUNK"]) - 1, 0) if config.get("CHUNK") else 0
    cycles, idle = _cycles(needs, work, steps + waits, gpu.multiprocessors, kernel.bundle(config), packed > 0)
    blocks_us = cycles / gpu.clock_mhz
    traffic_us = _traffic_us(needs, problem, gpu, tiles, work.parts)
    us = _LAUNCH_US + join(blocks_us, traffic_us)
    if work.parts > 1 and "WAVE" in config:  # as a tree
        levels = math.ceil(math.log2(work.parts) + (_STRADDLE if work.parts % 1 else 0.0))
        us += max(levels * (_LEVEL_US + _LEVEL_US_PER_RESULT * tile.m * tile.n) - idle / gpu.clock_mhz, 0.0)
    elif work.parts > 1:
        us += _GATHER_US
    if packed:
        us += _PACKING_US + packed / (1e3 * gpu.dram_gbs)
    blocks = (work.whole + work.sharers) / gpu.multiprocessors
    return Cost(us, blocks_us, traffic_us, blocks / held, blocks, work.parts)


def _divide(kernel: Kernel, config: Config, problem: Problem, tiles: int, steps: int, multiprocessors: int) -> _Work:
    blocks = kernel.grid(problem, config, multiprocessors)
    wave = config.get("WAVE", 0)
    left = tiles % wave if wave else 0
    if left and steps:
        sharers = min(wave, left * steps)
        begun = left / sharers if sharers % left else 0.0  # tiles within a range, before whose first step it waits anew
        share = -(-left * steps // sharers) + begun
        return _Work(tiles - left, sharers, wave - sharers, share, sharers / left)
    if not wave and blocks > tiles > 0 and steps > 1:
        parts = min(blocks // tiles, steps)
        return _Work(0, tiles * parts, 0, -(-steps // parts), parts)
    return _Work(tiles, 0, 0, 0, 1)


def _of_one(whole: int, sharers: int, without: int, multiprocessors: int, bundle: int) -> tuple[int, int]:
    """Blocks with a tile of their own and sharers that a multiprocessor gets of so many, at most."""
    if bundle == 1:
        return -(-whole // multiprocessors), -(-sharers // multiprocessors)
    bundles = -(-(whole + sharers + without) // bundle)
    each, own = -(-bundles // multiprocessors), -(-whole // bundles)
    return each * own, each * min(bundle - own, -(-sharers // bundles))


def _cycles(
    needs: Footprint, work: _Work, steps: int, multiprocessors: int, bundle: int, gather: bool
) -> tuple[float, float]:
    """Of the waves of blocks, one after the other; and of these, those in which only blocks with a tile of their own
    have work left."""
    held = needs.occupancy.blocks
    full, rest = divmod(work.whole, held * multiprocessors)
    cycles = full * _wave(needs, held, held * steps, steps)
    if not (rest or work.sharers):
        return cycles, 0.0
    own, sharers = _of_one(rest, work.sharers, work.without, multiprocessors, bundle)
    if not full and own and sharers and own + sharers <= held and bundle == 1:
        # Blocks go to one multiprocessor after another, but some get one with a tile of its own too many. Where they
        # begin as the launch before ends, neighbours in the grid gather: blocks of one kind.
        more = sharers if gather else 1
        own, sharers = own + more, sharers - more
    turns = -(-(own + sharers) // held)
    longest = steps + (turns - 1) * work.share if own else turns * work.share
    # Most sharers end twice: what they have of one tile, and of the next.
    ends = needs.ends if sharers else 0.0
    last = _wave(needs, own + sharers, own * steps + sharers * work.share, longest)
    idle, until = 0.0, work.share + 1  # sharers wait about a step where they begin
    if own and turns == 1 and until < steps:
        idle = last - _wave(needs, own + sharers, (own + sharers) * until, until)
    return cycles + last + ends, idle


def _wave(needs: Footprint, blocks: int, steps: float, longest: float) -> float:
    """Cycles of a multiprocessor with so many blocks and steps of theirs, so many of which follow one another."""
    return join(steps * needs.busy, longest * needs.alone) + needs.ends + blocks * needs.store


def _packed_bytes(kernel: Kernel, problem: Problem) -> int:
    """That packing reads and writes: A and B where their rows are not aligned, and A where it is to be transposed."""
    if kernel.relayouts is None:
        return 0
    item = ITEM_BYTES[problem.dtype]
    of_a = problem.m if kernel.relayouts == ("column", "row") or problem.a.ld * item % VECTOR_BYTES else 0
    of_b = problem.n if problem.b.ld * item % VECTOR_BYTES else 0
    return 2 * item * problem.k * (of_a + of_b)


def _traffic_us(needs: Footprint, problem: Problem, gpu: Gpu, tiles: int, parts: float) -> float:
    tile, m, n, k = needs.tile, problem.m, problem.n, problem.k
    size = ITEM_BYTES[problem.dtype]
    result = ITEM_BYTES[problem.result] * m * n
    through_l2 = size * tiles * (tile.m + max(tile.n, _LINE_BYTES // size)) * k + result
    least = size * k * (m + n)
    from_dram = float(least)
    if least > _L2_SHARE * gpu.l2_bytes:
        # A wave shares what it reads; the next one reads it again.
        across = -(-n // tile.n)
        held = max(min(int(needs.occupancy.blocks * gpu.multiprocessors / parts), tiles), 1)
        a_wave = (-(-held // across) * tile.m + min(held, across) * tile.n) * k * size
        from_dram = max(least, min(a_wave * (tiles / held), through_l2))
    l2_bytes_per_us = _L2_RATE * gpu.l2_bytes_per_clock * gpu.clock_mhz
    return max(through_l2 / l2_bytes_per_us, (from_dram + result) / (1e3 * gpu.dram_gbs))
