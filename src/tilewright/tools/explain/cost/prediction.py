"""The cost model: how long a kernel with a config would take on a problem, from what it asks of a GPU.

Blocks run in waves, as many at a time as the multiprocessors hold; the tail is a wave of fewer. Within a wave a
multiprocessor needs the time of the arithmetic, of the issue of instructions and of the wavefronts of shared memory of
all its blocks, or that of one block with its latencies where few blocks hide them (`models`). The traffic of the L2
cache and of DRAM overlaps with that. Where blocks share tiles, their partial sums are added afterwards, while blocks
with a tile of their own still run; where operands are copied into another layout, that comes before.

The model ranks configs for a search, and says in an explanation what a launch takes: there with what was counted of it
(`demand`). Kernels are not picked by it, but by `select.model`. On an H200's squares its mean error is 8%
(`studies/counters/nearness.py`); on the problems of the tuned table, with the configs that are fast there, 4 to 7% for
rungs 12, 15, 16 and 18, 23% for rung 17, 7% for gemm_sm90 (`models.warpgroups`), 15 to 23% for products of parts. What
it does not know of a kernel is for a calibration by measured times.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.gpus import Gpu, clusters
from tilewright.core.hardware import ceil_div, round_up
from tilewright.core.problem import Layout, Problem
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Copying, SmallM, Staging, Streaming, Warpgroups, Warps
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.library import schedule
from tilewright.kernels.support import VECTOR_BYTES, Variant, all_aligned
from tilewright.runtime.executable import CompileReport
from tilewright.tools.explain.cost.models import copying, small_m, staging, streaming, warpgroups, warps
from tilewright.tools.explain.cost.models.block import Asked, Demand, Footprint, Usage, join
from tilewright.tools.explain.cost.occupancy import occupancy

_MODELS: Mapping[type, Any] = {
    Staging: staging, Copying: copying, Streaming: streaming, SmallM: small_m, Warpgroups: warpgroups, Warps: warps,
}  # fmt: skip
"""By family, the module with its `needs` and its `footprint`."""

LAUNCH_US = 1.27
_L2_SHARE = 0.7
"""Share of the L2 cache that operands can be kept in."""
L2_BYTES = 38
"""Bytes that the L2 cache was found to serve in a clock for each multiprocessor, of blocks' tiles, on an H200."""
_L2_BYTES_OF_COPIES = 21
"""Bytes like `L2_BYTES` for tiles that threads of a user kernel copy asynchronously: 21 products by mma.sync, with
tiles of 64x64 to 128x128, got 16.4 to 20.6 bytes a clock and multiprocessor on an H100 at 4096, and this is about the
most of them. Chosen on these; other sizes, measured since, are as near where blocks fill the GPU. L2's slices then look
up requests in nine of ten cycles: of lines in the other partition, both partitions may be asked."""
_LINE_BYTES = 128
"""Bytes that the L2 cache serves together: any part of a line takes as long as the line."""
_NARROW_BYTES = 2
"""Bytes of an element that warpgroups multiply."""
_RELAYOUT_US = 1.85
"""Microseconds, the traffic aside, to copy operands into another layout and to start the kernel after that."""
_SPLITTING_US = 4.0
"""Microseconds that a launch's blocks need, the traffic aside, to split the factors and to wait for each other. This
and the next were fitted to 520 products of bfloat16 and float16 parts in the H200's table, as far as the selector's
picks get no slower: with 6 us the times of 1024 would be a tenth nearer."""
_SCALING = 1.5
"""How many times longer squares of the factors take that are scaled: their largest elements are looked for first."""
_GATHER_US = 4.6
"""Microseconds that the last block needs to add the partial sums of all others."""
_LEVEL_US = 1.03
"""Microseconds that two blocks need to add their partial sums, besides `_LEVEL_US_PER_RESULT`."""
_LEVEL_US_PER_RESULT = 7.5e-5
"""Microseconds that each result of a tile adds to `_LEVEL_US`."""
_STRADDLE = 0.92
"""Levels that ranges of k add that begin in one tile and end in the next."""


class Cost(NamedTuple):
    """Predicted time of a run, in microseconds, and its parts."""

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
    l2_us: float
    """Microseconds that the L2 cache needs to serve all blocks."""
    l2_bytes: float
    """Bytes that the L2 cache serves: tiles of A and B that blocks load and the L1 cache lacks, and D."""
    dram_bytes: float
    """Bytes of `l2_bytes` that the L2 cache lacks, and of D."""
    working: float
    """Share of a step in which a multiprocessor with as many blocks as it gets works for one of them; in the rest all
    wait."""


def footprint(
    kernel: Kernel,
    config: Config,
    gpu: Gpu,
    variant: Variant,
    report: CompileReport | None = None,
    starts: tuple[int, int] = warpgroups.WHOLE_LINES,
    demand: Demand | None = None,
) -> Footprint:
    """Room of a kernel's block on a multiprocessor and cycles for one step along k, whatever the problem.

    Args:
        kernel, config: what is run.
        gpu: where.
        variant: facts about the operands.
        report: the compiler's; without one, registers and shared memory are estimated from the tiles.
        starts: the bytes at multiples of which rows (or columns) of A and of B start, at most a line's.
        demand: demand counted for a kernel of the family `Staging`; without, it is estimated.
    """
    sm, family, bundle = gpu.multiprocessor, kernel.cost, kernel.bundle(config)
    model = _MODELS[type(family)]
    if report is not None and report.registers is not None:
        needs = Usage(report.registers, report.spill_bytes or 0, report.shared_bytes or 0)
    else:
        needs = model.needs(kernel, family, config, sm, variant.layout)
    shared_bytes = bundle * kernel.shared_bytes(config, variant.layout) + needs.static_shared_bytes
    room = occupancy(sm, kernel.threads(config), needs.registers, shared_bytes, bundle)
    asked = Asked(kernel, config, sm, variant, room, needs.spill_bytes, starts, demand)
    found: Footprint = model.footprint(asked, family)
    return found


class _Work(NamedTuple):
    """How a problem's tiles are assigned to blocks."""

    whole: int
    """Blocks with a tile of their own."""
    workers: int = 0
    """Blocks that share tiles."""
    without: int = 0
    """Blocks that find no tile to share."""
    share: float = 0.0
    """Steps of a worker along k, or what takes as long."""
    parts: float = 1.0
    """Workers of a tile."""


def predict(
    kernel: Kernel,
    config: Config,
    problem: Problem,
    gpu: Gpu,
    report: CompileReport | None = None,
    demand: Demand | None = None,
) -> Cost | None:
    """Predict one run of a kernel, base addresses aligned; None where the GPU cannot hold even one of its blocks.

    report, demand: see `footprint`.
    """
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    tile, family, split = kernel.tile(config), kernel.cost, kernel.split
    down, across, steps = ceil_div(m, tile.m), ceil_div(n, tile.n), ceil_div(k, tile.k)
    edges = bool(m % tile.m or n % tile.n or k % tile.k)
    read, starts = kernel.layout_read(config, problem.layout), line_starts(problem)
    variant = Variant(edges, all_aligned(problem), problem.dtype, problem.result, read, problem.epilogue)
    needs = footprint(kernel, config, gpu, variant, report, starts, demand)
    held = needs.occupancy.blocks
    if not held:
        return None

    # Blocks of a cluster: rows and columns of tiles, and those that divide a tile's k.
    rows, cols, splits = 1, 1, 1
    if isinstance(family, Warpgroups):
        rows, cols, splits = family.cluster(config), family.across(config), family.splits(config)
    cluster = rows * cols * splits
    tiles, steps = batch * round_up(down, rows) * round_up(across, cols), ceil_div(steps, splits)
    together = held * clusters(gpu.multiprocessors, cluster) * cluster
    work = _divided(kernel, config, problem, gpu, tiles, steps)
    work = work._replace(whole=work.whole * splits)
    copied = _copied_bytes(kernel, config, problem, read)
    cycles, idle = _cycles(needs, work, steps, together, kernel.bundle(config), gpu.multiprocessors, copied > 0)
    blocks_us = cycles / gpu.clock_mhz
    if needs.tensor and tiles:
        if needs.aside:  # all but the last tile's
            cycles = join(cycles, (cycles + (ceil_div(work.whole, together) - 1) * needs.aside) / 2)
        cycles += needs.once
        busy = work.whole * steps * needs.tensor / gpu.multiprocessors
        blocks_us = cycles / (gpu.clock_mhz * warpgroups.clock_share(busy / cycles))

    l2_rate, dram_share = _rates(kernel, gpu)
    dram_rate = dram_share * 1e3 * gpu.dram_gbs
    item = ITEM_BYTES[problem.dtype]
    result_bytes = ITEM_BYTES[problem.result] * batch * m * n
    through_l2 = _side_bytes(kernel, config, read, item, starts) * tiles * k + result_bytes
    from_dram = _read_over_given(kernel) * sum(_factor_bytes(problem))
    if from_dram > _L2_SHARE * gpu.l2_bytes:
        # Blocks that run at a time share what they read; the next ones read it again.
        running = max(min(int(held * gpu.multiprocessors / (work.parts * splits)), tiles), 1)
        high, wide = ceil_div(running, max(across, 1)), min(running, across)
        # Rows of tiles that are computed column by column, or columns row by row.
        swapped = kernel.swap_ab(config)
        group_m = family.group_m(config) if isinstance(family, Warpgroups | Warps) else 1
        if (grouped := (cols if swapped else rows) * group_m) > 1:
            first = min(grouped, across if swapped else down, running)
            high, wide = (ceil_div(running, first), first) if swapped else (first, ceil_div(running, first))
        of_wave = (high * tile.m + wide * tile.n) * k * item
        from_dram = max(from_dram, min(_read_over_given(kernel) * of_wave * (tiles / running), through_l2))
    l2_us, dram_us = through_l2 / l2_rate, (from_dram + result_bytes) / dram_rate
    traffic_us = max(l2_us, dram_us)

    us = LAUNCH_US + join(blocks_us, traffic_us)
    if work.parts > 1 and family.workers(config):  # sums are added as a tree
        levels = math.ceil(math.log2(work.parts) + (_STRADDLE if work.parts % 1 else 0.0))
        level_us = _LEVEL_US + _LEVEL_US_PER_RESULT * tile.m * tile.n
        us += max(levels * level_us - idle / gpu.clock_mhz, 0.0)
    elif work.parts > 1:
        us += _GATHER_US
    if copied:
        copied_rate = (dram_rate if split else 1e3 * gpu.dram_gbs) / (_SCALING if split and split.scaled else 1)
        us += (_SPLITTING_US if kernel.splits else _RELAYOUT_US) + copied / copied_rate
    blocks = (work.whole + work.workers) / gpu.multiprocessors
    resident = min(math.ceil(blocks), held)
    working = min(resident * needs.busy / needs.step(resident), 1.0) if resident else 0.0
    dram_bytes = from_dram + result_bytes
    return Cost(us, blocks_us, traffic_us, blocks / held, blocks, work.parts, l2_us, through_l2, dram_bytes, working)


def line_starts(problem: Problem) -> tuple[int, int]:
    """The bytes at multiples of which lines of A and of B start, at most a line's, after a relayout of those that do
    not start at multiples of 16 bytes. It matters to warpgroups alone, and float32 factors count as whole."""
    if ITEM_BYTES[problem.dtype] != _NARROW_BYTES:
        return warpgroups.WHOLE_LINES
    return _starts(problem.a, problem.m, problem.k), _starts(problem.b, problem.k, problem.n)


def _starts(factor: Layout, rows: int, cols: int) -> int:
    pitch = factor.ld * _NARROW_BYTES
    if pitch % VECTOR_BYTES:  # relaid out, with the least padding
        pitch = round_up((cols if factor.order == "row" else rows) * _NARROW_BYTES, VECTOR_BYTES)
    return math.gcd(pitch, _LINE_BYTES)


def _factor_bytes(problem: Problem) -> tuple[int, int]:
    """Bytes of A and of B, each matrix once: one may serve the whole batch."""
    item, batch = ITEM_BYTES[problem.dtype], problem.batch
    a, b = (batch if factor.batch_stride else min(batch, 1) for factor in (problem.a, problem.b))
    return item * problem.k * problem.m * a, item * problem.k * problem.n * b


def _rates(kernel: Kernel, gpu: Gpu) -> tuple[float, float]:
    """Bytes a microsecond of the L2 cache, and the share of DRAM's peak rate that a kernel reaches."""
    family = kernel.cost
    if isinstance(family, Warpgroups):
        return warpgroups.L2_BYTES * gpu.multiprocessors * gpu.clock_mhz, warpgroups.DRAM_SHARE
    size = _L2_BYTES_OF_COPIES if isinstance(family, Staging) and family.copies else L2_BYTES
    return size * gpu.multiprocessors * gpu.clock_mhz, 1.0


def _read_over_given(kernel: Kernel) -> float:
    """Bytes that blocks read for each byte of the factors."""
    return kernel.parts * ITEM_BYTES[kernel.split.dtype] / ITEM_BYTES["float32"] if kernel.split else 1.0


def _copied_bytes(kernel: Kernel, config: Config, problem: Problem, read: str) -> float:
    """Bytes that copies of A and B, in the orders that are read, or of their parts, move first: read and written."""
    a_bytes, b_bytes = _factor_bytes(problem)
    if kernel.split:
        each = 1 + _read_over_given(kernel)
        return each * a_bytes + each * b_bytes
    if kernel.relayouts(config) is None:
        return 0.0
    # A thread moves one element or four at a time, so that narrow ones take as long.
    item = ITEM_BYTES[problem.dtype]
    moved, given = 4.0 if item == _NARROW_BYTES else 2.0, problem.layout
    of_a = moved * (given[0] != read[0] or not problem.a.aligned(item, VECTOR_BYTES))
    of_b = moved * (given[1] != read[1] or not problem.b.aligned(item, VECTOR_BYTES))
    return of_a * a_bytes + of_b * b_bytes


def _divided(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu, tiles: int, steps: int) -> _Work:
    """How tiles of this many steps are assigned to blocks."""
    family = kernel.cost
    most = family.workers(config) * gpu.multiprocessors
    left = tiles % most if most else 0
    if left and steps:
        workers = schedule.sharing(left, steps, most)
        # Tiles that begin within a worker's range, before whose first step it waits anew.
        begun = left / workers if workers % left else 0.0
        share = ceil_div(left * steps, workers) + begun
        return _Work(tiles - left, workers, most - workers, share, workers / left)
    if isinstance(family, Streaming) and tiles and steps > 1:
        parts = min(kernel.grid(problem, config, gpu.multiprocessors) // tiles, steps)
        if parts > 1:
            return _Work(0, tiles * parts, 0, ceil_div(steps, parts), parts)
    return _Work(tiles)


def _cycles(
    needs: Footprint, work: _Work, steps: int, together: int, bundle: int, multiprocessors: int, after_relayout: bool
) -> tuple[float, float]:
    """Cycles of the waves of blocks, one after the other; and of these, those in which only blocks with a tile of
    their own have work left.

    together: blocks that run at a time.
    """
    whole, sharing, without, share, _ = work
    held = needs.occupancy.blocks
    full, rest = divmod(whole, together)
    cycles = full * needs.wave(held, steps)
    if not sharing and (bundle == 1 or not rest):
        return cycles + (needs.wave(ceil_div(rest, multiprocessors), steps) if rest else 0.0), 0.0
    # Blocks with a tile of their own, and workers, that a multiprocessor gets at most.
    if bundle == 1:
        own, workers = ceil_div(rest, multiprocessors), ceil_div(sharing, multiprocessors)
    else:
        bundles = ceil_div(rest + sharing + without, bundle)
        each, own = ceil_div(bundles, multiprocessors), ceil_div(rest, bundles)
        own, workers = each * own, each * min(bundle - own, ceil_div(sharing, bundles))
    if not full and own and workers and own + workers <= held and bundle == 1:
        # Blocks go to one multiprocessor after another, but some get one with a tile of its own too many. Where
        # they begin as the launch before ends, neighbours in the grid gather: blocks of one kind.
        more = workers if after_relayout else 1
        own, workers = own + more, workers - more
    blocks = own + workers
    rounds = ceil_div(blocks, held)
    longest = steps + (rounds - 1) * share if own else rounds * share
    working = (own * steps + workers * share) * needs.busy
    last = join(working, longest * needs.alone) + needs.ends + blocks * needs.store
    idle, until = 0.0, share + 1  # workers wait about a step where they begin
    if sharing and own and rounds == 1 and until < steps:
        idle = last - needs.wave(blocks, until)
    # Most workers end twice: what they have of one tile, and of the next.
    return cycles + last + (needs.ends if workers else 0.0), idle


def _side_bytes(kernel: Kernel, config: Config, layout: str, item_bytes: int, starts: tuple[int, int]) -> int:
    """Bytes of A and of B that a block loads through the L2 cache for one k; of a line's bytes all or none."""
    if kernel.split:
        item_bytes, starts = ITEM_BYTES[kernel.split.dtype], warpgroups.WHOLE_LINES
    family, tile, line = kernel.cost, kernel.tile(config), _LINE_BYTES // item_bytes
    if isinstance(family, Warpgroups):
        return kernel.parts * warpgroups.side_bytes(kernel, family, config, layout, item_bytes, starts)
    rows = tile.m if layout[0] == "N" else max(tile.m, line)
    cols = tile.n if layout[1] == "T" else max(tile.n, line)
    return kernel.parts * item_bytes * (rows + cols)
