"""The cost model: how long a kernel with a config would take on a problem, from what it asks of a GPU.

Blocks run in waves, as many at a time as the multiprocessors hold; the tail is a wave of fewer. Within a wave a
multiprocessor needs the time of the arithmetic, of the issue of instructions and of the wavefronts of shared memory of
all its blocks, or that of one block with its latencies where few blocks hide them (`models`). The traffic of the L2
cache and of DRAM overlaps with that. Where blocks share tiles, their partial sums are added afterwards, while blocks
with a tile of their own still run; where operands are copied into another layout, that comes before.

The model is there to rank. On an H200 its mean error is 14% for rungs 2 to 10 from 64 to 8192; on the problems of the
tuned table, with the configs that are fast there, 4 to 7% for rungs 12, 15, 16 and 18, and 23% for rung 17;
3% for rungs 19 to 22 and gemm_sm90 (`models.warpgroups`). What it does not know of a kernel is for a calibration by
measured times.
"""

import math
from typing import NamedTuple

from tilewright.analysis.footprint import footprint
from tilewright.analysis.models import warpgroups
from tilewright.analysis.models.block import Footprint, join
from tilewright.engines.base import CompileReport
from tilewright.gpus import Gpu
from tilewright.kernels.families import Copying, Streaming, Warpgroups
from tilewright.kernels.library import schedule
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import VECTOR_BYTES, Addresses, Variant, all_aligned
from tilewright.problem import ITEM_BYTES, Layout, Order, Problem

_LAUNCH_US = 1.27
_L2_SHARE = 0.7
"""Share of the L2 cache that operands can be kept in."""
_L2_RATE = 1.9
"""How many times faster than estimated for microbenchmarks the L2 cache was found to serve blocks' tiles."""
_LINE_BYTES = 128
"""What the L2 cache takes as long to serve as any part of it."""
_RELAYOUT_US = 1.85
"""What it takes, the traffic aside, to copy operands into another layout and to start the kernel after that."""
_GATHER_US = 4.6
"""What it takes the last block to add the partial sums of all others."""
_LEVEL_US = 1.03
"""What it takes two blocks to add their partial sums, ..."""
_LEVEL_US_PER_RESULT = 7.5e-5
"""... and each result of their tile."""
_STRADDLE = 0.92
"""Levels that ranges of k add that begin in one tile and end in the next."""


class Cost(NamedTuple):
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


class Sizes(NamedTuple):
    """What the model needs of a problem, found once for all configs that are compared on it."""

    problem: Problem
    m: int
    n: int
    k: int
    batch: int
    item_bytes: int
    result_bytes: int
    """Of D, all matrices of the batch."""
    factor_bytes: int
    """Of A and B, each matrix once."""
    layout: str
    aligned: bool
    """Whether every line of A, B, C and D starts at a multiple of 16 bytes."""

    @classmethod
    def of(cls, problem: Problem, addresses: Addresses = Addresses()) -> "Sizes":
        """The sizes of a problem with operands at these addresses."""
        m, n, k, batch, item = problem.m, problem.n, problem.k, problem.batch, ITEM_BYTES[problem.dtype]
        factors = item * k * (m * _matrices(problem.a, batch) + n * _matrices(problem.b, batch))
        result = ITEM_BYTES[problem.result] * batch * m * n
        return cls(problem, m, n, k, batch, item, result, factors, problem.layout, all_aligned(problem, addresses))


class _Work(NamedTuple):
    """How a problem's tiles are assigned to blocks."""

    whole: int
    """Blocks with a tile of their own."""
    workers: int
    """Blocks that share tiles."""
    without: int
    """Blocks that find none to share."""
    share: float
    """Steps along k of each of these, or what takes as long."""
    parts: float
    """Workers of a tile."""


_ALONE = _Work(0, 0, 0, 0, 1)
"""Of a problem each of whose tiles has a block of its own, what is not the number of tiles."""


class _Room(NamedTuple):
    """What a GPU holds of a kernel's blocks."""

    needs: Footprint
    held: int
    """Blocks on a multiprocessor."""
    together: int
    """Blocks on all of them."""
    waves: tuple[tuple[float, float], ...]
    """By blocks on a multiprocessor, up to those that it holds: its cycles for a step along k of each, and besides."""
    side_bytes: int
    """What a block loads through the L2 cache for one k."""

    @classmethod
    def of(cls, needs: Footprint, multiprocessors: int, side_bytes: int) -> "_Room":
        held = needs.occupancy.blocks
        waves = ((join(count * needs.busy, needs.alone), needs.ends + count * needs.store) for count in range(held + 1))
        return cls(needs, held, held * multiprocessors, tuple(waves), side_bytes)


class CostModel:
    """A kernel with a config on a GPU: predicts runs of it, and finds once what does not depend on their sizes."""

    def __init__(self, kernel: Kernel, config: Config, gpu: Gpu, report: CompileReport | None = None) -> None:
        """Set up a model.

        Args:
            kernel, config: what to run.
            gpu: where.
            report: the compiler's; without one, registers and shared memory are estimated from the tiles.
        """
        family = kernel.cost
        self._kernel, self._config, self._gpu, self._report = kernel, config, gpu, report
        self._tile, self._bundle = kernel.tile(config), kernel.bundle(config)
        self._workers = family.workers(config) * gpu.multiprocessors if isinstance(family, Copying) else 0
        self._splits = isinstance(family, Streaming)
        self._rooms: dict[tuple[bool, bool, str, int], _Room] = {}
        l2_bytes_per_clock = _L2_RATE * gpu.l2_bytes_per_clock
        if isinstance(family, Warpgroups):
            l2_bytes_per_clock = warpgroups.PORT_BYTES * gpu.multiprocessors
        self._l2_bytes_per_us = l2_bytes_per_clock * gpu.clock_mhz
        self._l2_bytes = _L2_SHARE * gpu.l2_bytes
        self._dram_bytes_per_us = 1e3 * gpu.dram_gbs
        self._multiprocessors, self._clock_mhz = gpu.multiprocessors, gpu.clock_mhz
        self._relayouts, self._shares = kernel.relayouts(config), self._workers > 0 or self._splits

    def predict(self, sizes: Sizes) -> Cost | None:
        """Predict one run; None where the GPU cannot hold even one block."""
        _, m, n, k, batch, item_bytes, result_bytes, factor_bytes, layout, aligned = sizes
        (tile_m, tile_n, tile_k), multiprocessors = self._tile, self._multiprocessors
        down, across, steps = -(-m // tile_m), -(-n // tile_n), -(-k // tile_k)
        edges = down * tile_m != m or across * tile_n != n or steps * tile_k != k
        room = self._rooms.get((edges, aligned, layout, item_bytes)) or self._room(sizes, edges)
        held = room.held
        if not held:
            return None
        tiles = batch * down * across
        work = self._divide(sizes, tiles, steps) if self._shares else _ALONE
        copied = self._relayout_bytes(sizes, *self._relayouts) if self._relayouts else 0
        if work is _ALONE and self._bundle == 1:
            full, rest = divmod(tiles, room.together)
            of_step, besides = room.waves[held]
            cycles = full * (steps * of_step + besides)
            if rest:
                of_step, besides = room.waves[-(-rest // multiprocessors)]
                cycles += steps * of_step + besides
            idle, blocks = 0.0, tiles / multiprocessors
        else:
            if work is _ALONE:
                work = _ALONE._replace(whole=tiles)
            cycles, idle = self._cycles(room.needs, work, steps, copied > 0)
            blocks = (work.whole + work.workers) / multiprocessors
        blocks_us = cycles / self._clock_mhz
        if room.needs.tensor and tiles:
            cycles += room.needs.once
            busy = tiles * steps * room.needs.tensor / multiprocessors
            blocks_us = cycles / (self._clock_mhz * warpgroups.clock_share(busy / cycles))
        through_l2, from_dram = room.side_bytes * tiles * k + result_bytes, float(factor_bytes)
        if from_dram > self._l2_bytes:
            from_dram = self._from_dram(sizes, held, tiles, across, work.parts, through_l2)
        traffic_us = max(through_l2 / self._l2_bytes_per_us, (from_dram + result_bytes) / self._dram_bytes_per_us)
        us = _LAUNCH_US + join(blocks_us, traffic_us)
        if work.parts > 1 and self._workers:  # as a tree
            levels = math.ceil(math.log2(work.parts) + (_STRADDLE if work.parts % 1 else 0.0))
            us += max(levels * (_LEVEL_US + _LEVEL_US_PER_RESULT * tile_m * tile_n) - idle / self._clock_mhz, 0.0)
        elif work.parts > 1:
            us += _GATHER_US
        if copied:
            us += _RELAYOUT_US + copied / self._dram_bytes_per_us
        return Cost(us, blocks_us, traffic_us, blocks / held, blocks, work.parts)

    def _room(self, sizes: Sizes, edges: bool) -> _Room:
        """What is found once for all problems that the same code serves."""
        problem, layout = sizes.problem, self._kernel.layout_read(self._config, sizes.layout)
        variant = Variant(edges, sizes.aligned, problem.dtype, problem.result, layout, problem.epilogue)
        needs = footprint(self._kernel, self._config, self._gpu, variant, self._report)
        found = _Room.of(needs, self._multiprocessors, self._side_bytes(layout, sizes.item_bytes))
        self._rooms[edges, sizes.aligned, sizes.layout, sizes.item_bytes] = found
        return found

    def _divide(self, sizes: Sizes, tiles: int, steps: int) -> _Work:
        workers = self._workers
        left = tiles % workers if workers else 0
        if left and steps:
            sharing = schedule.sharing(left, steps, workers)
            # Tiles that begin within a worker's range, before whose first step it waits anew.
            begun = left / sharing if sharing % left else 0.0
            return _Work(tiles - left, sharing, workers - sharing, -(-left * steps // sharing) + begun, sharing / left)
        if self._splits and tiles and steps > 1:
            blocks = self._kernel.grid(sizes.problem, self._config, self._gpu.multiprocessors)
            parts = min(blocks // tiles, steps)
            if parts > 1:
                return _Work(0, tiles * parts, 0, -(-steps // parts), parts)
        return _ALONE

    def _of_one(self, whole: int, work: _Work) -> tuple[int, int]:
        """Blocks with a tile of their own, and workers, that a multiprocessor gets at most."""
        multiprocessors, bundle = self._gpu.multiprocessors, self._bundle
        if bundle == 1:
            return -(-whole // multiprocessors), -(-work.workers // multiprocessors)
        bundles = -(-(whole + work.workers + work.without) // bundle)
        each, own = -(-bundles // multiprocessors), -(-whole // bundles)
        return each * own, each * min(bundle - own, -(-work.workers // bundles))

    def _cycles(self, needs: Footprint, work: _Work, steps: int, after_relayout: bool) -> tuple[float, float]:
        """Cycles of the waves of blocks, one after the other; and of these, those in which only blocks with a tile of
        their own have work left."""
        held = needs.occupancy.blocks
        full, rest = divmod(work.whole, held * self._gpu.multiprocessors)
        cycles = full * _wave(needs, held, held * steps, steps) if full else 0.0
        if not (rest or work.workers):
            return cycles, 0.0
        own, workers = self._of_one(rest, work)
        if not full and own and workers and own + workers <= held and self._bundle == 1:
            # Blocks go to one multiprocessor after another, but some get one with a tile of its own too many. Where
            # they begin as the launch before ends, neighbours in the grid gather: blocks of one kind.
            more = workers if after_relayout else 1
            own, workers = own + more, workers - more
        rounds = -(-(own + workers) // held)
        longest = steps + (rounds - 1) * work.share if own else rounds * work.share
        last = _wave(needs, own + workers, own * steps + workers * work.share, longest)
        # Most workers end twice: what they have of one tile, and of the next.
        ends = needs.ends if workers else 0.0
        idle, until = 0.0, work.share + 1  # workers wait about a step where they begin
        if work.workers and own and rounds == 1 and until < steps:
            idle = last - _wave(needs, own + workers, (own + workers) * until, until)
        return cycles + last + ends, idle

    def _relayout_bytes(self, sizes: Sizes, of_a: Order | None, of_b: Order | None) -> int:
        """Bytes that a relayout before the launch, to these orders, reads and writes."""
        problem, copied = sizes.problem, 0
        for order, layout, length in ((of_a, problem.a, sizes.m), (of_b, problem.b, sizes.n)):
            if order not in (None, layout.order) or not layout.aligned(sizes.item_bytes, VECTOR_BYTES):
                copied += length * _matrices(layout, sizes.batch)
        return 2 * sizes.item_bytes * sizes.k * copied

    def _side_bytes(self, layout: str, item_bytes: int) -> int:
        """What a block loads of A and of B through the L2 cache for one k; of a line's bytes all or none."""
        family, tile, line = self._kernel.cost, self._tile, _LINE_BYTES // item_bytes
        if isinstance(family, Warpgroups):
            return warpgroups.side_bytes(self._kernel, family, self._config, layout, item_bytes)
        rows = tile.m if layout[0] == "N" else max(tile.m, line)
        cols = tile.n if layout[1] == "T" else max(tile.n, line)
        return item_bytes * (rows + cols)

    def _from_dram(self, sizes: Sizes, held: int, tiles: int, across: int, parts: float, through_l2: int) -> float:
        """Bytes of A and B that come from DRAM where they do not fit into the L2 cache.

        A wave shares what it reads; the next one reads it again.
        """
        tile = self._tile
        running = max(min(int(held * self._multiprocessors / parts), tiles), 1)
        high, wide = -(-running // max(across, 1)), min(running, across)
        if (band := warpgroups.band(self._kernel, self._config)) > 1:
            high = min(band, -(-sizes.m // tile.m), running)
            wide = -(-running // high)
        a_wave = (high * tile.m + wide * tile.n) * sizes.k * sizes.item_bytes
        return max(sizes.factor_bytes, min(a_wave * (tiles / running), through_l2))


def predict(
    kernel: Kernel, config: Config, problem: Problem, gpu: Gpu, report: CompileReport | None = None
) -> Cost | None:
    """Predict one run of a kernel, base addresses aligned; None where the GPU cannot hold even one of its blocks."""
    return CostModel(kernel, config, gpu, report).predict(Sizes.of(problem))


def _wave(needs: Footprint, blocks: int, steps: float, longest: float) -> float:
    """Cycles of a multiprocessor whose blocks have this many steps, of which the longest sequence is one of these."""
    return join(steps * needs.busy, longest * needs.alone) + needs.ends + blocks * needs.store


def _matrices(layout: Layout, batch: int) -> int:
    """Matrices that an operand has: one where the same serves the whole batch."""
    return batch if layout.batch_stride else min(batch, 1)
