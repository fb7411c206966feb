"""The cost model: how long a kernel with a config would take on a problem, from what it asks of a GPU.

Blocks run in waves, as many at a time as the multiprocessors hold; the tail is a wave of fewer. Within a wave a
multiprocessor needs the time of the arithmetic, of the issue of instructions and of the wavefronts of shared memory of
all its blocks, or that of one block with its latencies where few blocks hide them (`models`). The traffic of the L2
cache and of DRAM overlaps with that. Where blocks share tiles, their partial sums are added afterwards, while blocks
with a tile of their own still run; where operands are copied into another layout, that comes before.

The model ranks configs for a search, and says in an explanation what a launch takes: there with what was counted of it
(`demand`). Kernels are not picked by it, but by `select.model`. On an H200's squares its mean error is 8%
(`report.nearness`); on the problems of the tuned table, with the configs that are fast there, 4 to 7% for rungs 12, 15,
16 and 18, 23% for rung 17, 7% for gemm_sm90 (`models.warpgroups`), 15 to 23% for products of parts. What it does not
know of a kernel is for a calibration by measured times.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.gpus import Gpu, clusters
from tilewright.core.problem import Layout, Problem
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Copying, Staging, Streaming, Warpgroups, Warps
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.library import schedule
from tilewright.kernels.support import VECTOR_BYTES, Addresses, Variant, all_aligned
from tilewright.runtime.executable import CompileReport
from tilewright.tools.explain.cost.footprint import footprint
from tilewright.tools.explain.cost.models import warpgroups
from tilewright.tools.explain.cost.models.block import Demand, Footprint, join

LAUNCH_US = 1.27
_L2_SHARE = 0.7
"""Share of the L2 cache that operands can be kept in."""
_L2_RATE = 1.9
"""How many times faster than estimated for microbenchmarks the L2 cache was found to serve blocks' tiles."""
_L2_RATE_OF_COPIES = 1.05
"""Factor like `_L2_RATE` for tiles that threads of a user kernel copy asynchronously: 21 products by mma.sync, with
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


@dataclass(frozen=True, eq=False)
class Form:
    """Properties of a problem that decide, with a config, whether tiles are guarded and which code and copies it
    uses."""

    layout: str
    item_bytes: int
    result_item_bytes: int
    aligned: bool
    """Whether every line of A, B, C and D starts at a multiple of 16 bytes."""
    a_gaps: bool
    """Whether distances between lines of A, or between its matrices, are no multiples of 16 bytes."""
    b_gaps: bool
    starts: tuple[int, int]
    """The bytes at multiples of which lines of A and of B start, at most a line's, after a relayout of those that do
    not start at multiples of 16 bytes. It matters to warpgroups alone, and float32 factors count as whole."""


_form = lru_cache(maxsize=None)(Form)  # one for all alike, so that it is found by its address


class Dims(NamedTuple):
    """Numbers of a problem that the model needs, found once for all configs that are compared on it."""

    problem: Problem
    m: int
    n: int
    k: int
    batch: int
    result_bytes: int
    """Bytes of D, all matrices of the batch."""
    a_bytes: int
    """Bytes of A, each matrix once."""
    b_bytes: int
    copied_bytes: tuple[int, int]
    """Bytes of A and of B that a call may have to copy: 0 for an operand whose copy is cached."""
    form: Form

    @property
    def aligned(self) -> bool:
        """Whether every line of A, B, C and D starts at a multiple of 16 bytes."""
        return self.form.aligned

    @classmethod
    def of(cls, problem: Problem, addresses: Addresses = Addresses(), cached: str | None = None) -> "Dims":
        """The sizes of a problem with operands at these addresses, and a copy of A or of B cached: see
        `Engine.plan`."""
        m, n, k, batch, a, b = problem.m, problem.n, problem.k, problem.batch, problem.a, problem.b
        item, result = ITEM_BYTES[problem.arithmetic.factors], ITEM_BYTES[problem.arithmetic.result]
        # One matrix may serve the whole batch.
        a_bytes = item * k * m * (batch if a.batch_stride else min(batch, 1))
        b_bytes = item * k * n * (batch if b.batch_stride else min(batch, 1))
        copied = 0 if cached == "A" else a_bytes, 0 if cached == "B" else b_bytes
        form = _form(
            problem.layout,
            item,
            result,
            all_aligned(problem, addresses),
            not a.aligned(item, VECTOR_BYTES),
            not b.aligned(item, VECTOR_BYTES),
            (_starts(a, m, k), _starts(b, k, n)) if item == _NARROW_BYTES else warpgroups.WHOLE_LINES,
        )
        return cls(problem, m, n, k, batch, result * batch * m * n, a_bytes, b_bytes, copied, form)


_Terms = tuple[float, float, float, float, float, float, float, float, float]
"""The fields of a `Cost`, plain for the reason given at `_Work`."""

_Work = tuple[int, int, int, float, float]
"""How a problem's tiles are assigned to blocks: blocks with a tile of their own; workers, blocks that share tiles;
blocks that find none to share; a worker's steps along k, or what takes as long; workers of a tile, 1 where there are
none. It is plain, and not named, because the selector asks for several of them in every call of a new shape."""


class _Occupied(NamedTuple):
    """A kernel's blocks on a GPU, and the data that they read: one object for all problems that one code serves."""

    held: int
    """Blocks on a multiprocessor."""
    together: int
    """Blocks on all of them."""
    waves: tuple[tuple[float, float], ...]
    """By blocks on a multiprocessor, up to those that it holds: its cycles for a step along k of each, and besides."""
    busy: float
    """This and the next six as in `Footprint`."""
    alone: float
    ends: float
    store: float
    tensor: float
    once: float
    aside: float
    side_bytes: int
    """Bytes that a block loads through the L2 cache for one k."""
    queued: bool
    """As in `Footprint`."""
    copies_a: float
    """Bytes that a copy of A, or of its terms, moves first for each byte of it; 0 where it is read as it is."""
    copies_b: float

    @classmethod
    def of(cls, needs: Footprint, multiprocessors: int, side_bytes: int, copies: tuple[float, float]) -> "_Occupied":
        held, busy, alone, ends, store = needs.occupancy.blocks, needs.busy, needs.alone, needs.ends, needs.store
        waves = tuple((needs.step(count), ends + count * store) for count in range(held + 1))
        of_block = busy, alone, ends, store, needs.tensor, needs.once, needs.aside
        return cls(held, held * multiprocessors, waves, *of_block, side_bytes, needs.queued, *copies)


class CostModel:
    """A kernel with a config on a GPU: predicts runs of it, and finds once what does not depend on their sizes."""

    def __init__(
        self,
        kernel: Kernel,
        config: Config,
        gpu: Gpu,
        report: CompileReport | None = None,
        demand: Demand | None = None,
    ) -> None:
        """Set up a model.

        Args:
            kernel, config: what to run.
            gpu: where.
            report: the compiler's; without one, registers and shared memory are estimated from the tiles.
            demand: what was counted of the problem that is predicted; see `footprint`.
        """
        family = kernel.cost
        self._kernel, self._config, self._gpu, self._report, self._demand = kernel, config, gpu, report, demand
        self._tile, self._bundle = kernel.tile(config), kernel.bundle(config)
        self._workers = family.workers(config) * gpu.multiprocessors if isinstance(family, Copying) else 0
        self._splits = isinstance(family, Streaming)
        self._rooms: tuple[dict[Form, _Occupied], dict[Form, _Occupied]] = ({}, {})  # without edges, and with
        l2_rate = _L2_RATE_OF_COPIES if isinstance(family, Staging) and family.copies else _L2_RATE
        l2_bytes_per_clock, dram_share = l2_rate * gpu.l2_bytes_per_clock, 1.0
        # Blocks of a cluster: rows and columns of tiles, and those that divide a tile's k.
        self._rows, self._cols, self._splits_k = 1, 1, 1
        if isinstance(family, Warpgroups):
            l2_bytes_per_clock, dram_share = warpgroups.L2_BYTES * gpu.multiprocessors, warpgroups.DRAM_SHARE
            self._rows, self._splits_k = family.cluster(config), family.splits(config)
            self._cols = family.across(config)
        # Rows of tiles that are computed column by column.
        self._group_m = self._rows * family.group_m(config) if isinstance(family, Warpgroups | Warps) else 1
        self._l2_bytes_per_us = l2_bytes_per_clock * gpu.clock_mhz
        self._l2_bytes = _L2_SHARE * gpu.l2_bytes
        self._cluster = self._rows * self._cols * self._splits_k
        self._dram_bytes_per_us = dram_share * 1e3 * gpu.dram_gbs
        split = kernel.split
        self._copied_bytes_per_us = self._dram_bytes_per_us if split else 1e3 * gpu.dram_gbs
        if split and split.scaled:
            self._copied_bytes_per_us /= _SCALING
        self._copying_us = _SPLITTING_US if kernel.splits else _RELAYOUT_US
        self._multiprocessors, self._clock_mhz = gpu.multiprocessors, gpu.clock_mhz
        self._relays = kernel.relayouts(config) is not None
        self._shares = self._workers > 0 or self._splits or self._bundle > 1
        self._split, self._item_bytes = split, ITEM_BYTES[split.dtype] if split else 0
        # Bytes that blocks read for each byte of the factors.
        self._read = kernel.parts * self._item_bytes / ITEM_BYTES["float32"] if split else 1.0
        self._level_us = _LEVEL_US + _LEVEL_US_PER_RESULT * self._tile.m * self._tile.n

    def predict(self, sizes: Dims) -> Cost | None:
        """Predict one run; None where the GPU cannot hold even one block."""
        found = self.terms(sizes)
        return None if found is None else Cost(*found)

    def terms(self, sizes: Dims) -> _Terms | None:
        """The prediction of `predict`, as a plain tuple."""
        _, m, n, k, batch, result_bytes, a_bytes, b_bytes, copies, form = sizes
        tile_m, tile_n, tile_k = self._tile
        # Written out here and below: with a call for each division, a prediction would take a third more calls.
        down, across, steps = -(-m // tile_m), -(-n // tile_n), -(-k // tile_k)
        edges = down * tile_m != m or across * tile_n != n or steps * tile_k != k
        room = self._rooms[edges].get(form) or self._room(sizes, edges)
        held, together, waves, _, _, _, _, tensor, once, aside, side_bytes, _, copies_a, copies_b = room
        if not held:
            return None
        multiprocessors, clock_mhz = self._multiprocessors, self._clock_mhz
        tiles, copied = batch * down * across, copies_a * copies[0] + copies_b * copies[1]
        if self._cluster > 1:
            tiles = batch * -(-down // self._rows) * self._rows * -(-across // self._cols) * self._cols
            steps = -(-steps // self._splits_k)
        whole, workers, parts, idle = tiles * self._splits_k, 0, 1.0, 0.0
        if self._shares and ((work := self._divide(sizes, tiles, steps))[1] or self._bundle > 1):
            whole, workers, _, _, parts = work
            cycles, idle = self._cycles(room, work, steps, copied > 0)
        else:
            full = whole // together
            of_step, besides = waves[held]
            cycles = full * (steps * of_step + besides)
            if rest := whole - full * together:
                of_step, besides = waves[-(-rest // multiprocessors)]
                cycles += steps * of_step + besides
        blocks_us = cycles / clock_mhz
        if tensor and tiles:
            if aside:  # all but the last tile's
                cycles = join(cycles, (cycles + (-(-whole // together) - 1) * aside) / 2)
            cycles += once
            busy = whole * steps * tensor / multiprocessors
            blocks_us = cycles / (clock_mhz * warpgroups.clock_share(busy / cycles))
        through_l2 = side_bytes * tiles * k + result_bytes
        from_dram = self._read * (a_bytes + b_bytes)
        if from_dram > self._l2_bytes:
            from_dram = self._from_dram(sizes, held, tiles, across, parts * self._splits_k, through_l2)
        dram_bytes = from_dram + result_bytes
        l2_us, dram_us = through_l2 / self._l2_bytes_per_us, dram_bytes / self._dram_bytes_per_us
        traffic_us = l2_us if l2_us >= dram_us else dram_us
        us = LAUNCH_US + join(blocks_us, traffic_us)
        if parts > 1:
            if self._workers:  # as a tree
                levels = math.ceil(math.log2(parts) + (_STRADDLE if parts % 1 else 0.0))
                us += max(levels * self._level_us - idle / clock_mhz, 0.0)
            else:
                us += _GATHER_US
        if copied:
            us += self._copying_us + copied / self._copied_bytes_per_us
        blocks = (whole + workers) / multiprocessors
        return us, blocks_us, traffic_us, blocks / held, blocks, parts, l2_us, through_l2, dram_bytes

    def working(self, sizes: Dims) -> float:
        """Share of a step in which a multiprocessor with as many blocks as it gets works for one of them; in the rest
        all wait. 0 where it holds none.
        """
        cost = self.predict(sizes)
        if cost is None:
            return 0.0
        room = next(found for rooms in self._rooms if (found := rooms.get(sizes.form)))
        blocks = min(math.ceil(cost.blocks), room.held)
        return min(blocks * room.busy / room.waves[blocks][0], 1.0) if blocks else 0.0

    def _room(self, sizes: Dims, edges: bool) -> _Occupied:
        """Find the blocks on a GPU, and what they read, for all problems that one code serves."""
        problem, form = sizes.problem, sizes.form
        read = self._kernel.layout_read(self._config, form.layout)
        variant = Variant(edges, form.aligned, problem.dtype, problem.result, read, problem.epilogue)
        needs = footprint(self._kernel, self._config, self._gpu, variant, self._report, form.starts, self._demand)
        used = clusters(self._multiprocessors, self._cluster) * self._cluster
        found = _Occupied.of(
            needs, used, self._side_bytes(read, form.item_bytes, form.starts), self._copies(read, form)
        )
        self._rooms[edges][form] = found
        return found

    def _copies(self, read: str, form: Form) -> tuple[float, float]:
        """Bytes that copies of A and of B move for each byte of them: each is read, and written."""
        if self._split:
            return 1 + self._read, 1 + self._read
        if not self._relays:
            return 0.0, 0.0
        # A thread moves one element or four at a time, so that narrow ones take as long.
        moved = 4.0 if form.item_bytes == _NARROW_BYTES else 2.0
        given = form.layout
        return moved * (given[0] != read[0] or form.a_gaps), moved * (given[1] != read[1] or form.b_gaps)

    def _divide(self, sizes: Dims, tiles: int, steps: int) -> _Work:
        most = self._workers
        left = tiles % most if most else 0
        if left and steps:
            workers = schedule.sharing(left, steps, most)
            # Tiles that begin within a worker's range, before whose first step it waits anew.
            begun = left / workers if workers % left else 0.0
            return tiles - left, workers, most - workers, -(-left * steps // workers) + begun, workers / left
        if self._splits and tiles and steps > 1:
            blocks = self._kernel.grid(sizes.problem, self._config, self._multiprocessors)
            parts = min(blocks // tiles, steps)
            if parts > 1:
                return 0, tiles * parts, 0, -(-steps // parts), parts
        return tiles, 0, 0, 0.0, 1.0

    def _cycles(self, room: _Occupied, work: _Work, steps: int, after_relayout: bool) -> tuple[float, float]:
        """Cycles of the waves of blocks, one after the other; and of these, those in which only blocks with a tile of
        their own have work left."""
        held, together, waves, busy, alone, ends, store, *_ = room
        whole, sharing, without, share, _ = work
        multiprocessors, bundle = self._multiprocessors, self._bundle
        full, rest = divmod(whole, together)
        of_step, besides = waves[held]
        cycles = full * (steps * of_step + besides)
        if not (rest or sharing):
            return cycles, 0.0
        # Blocks with a tile of their own, and workers, that a multiprocessor gets at most.
        if bundle == 1:
            own, workers = -(-rest // multiprocessors), -(-sharing // multiprocessors)
        else:
            bundles = -(-(rest + sharing + without) // bundle)
            each, own = -(-bundles // multiprocessors), -(-rest // bundles)
            own, workers = each * own, each * min(bundle - own, -(-sharing // bundles))
        if not full and own and workers and own + workers <= held and bundle == 1:
            # Blocks go to one multiprocessor after another, but some get one with a tile of its own too many. Where
            # they begin as the launch before ends, neighbours in the grid gather: blocks of one kind.
            more = workers if after_relayout else 1
            own, workers = own + more, workers - more
        blocks = own + workers
        rounds = -(-blocks // held)
        longest = steps + (rounds - 1) * share if own else rounds * share
        last = join((own * steps + workers * share) * busy, longest * alone) + ends + blocks * store
        idle, until = 0.0, share + 1  # workers wait about a step where they begin
        if sharing and own and rounds == 1 and until < steps:
            of_step, besides = waves[blocks]
            idle = last - (until * of_step + besides)
        # Most workers end twice: what they have of one tile, and of the next.
        return cycles + last + (ends if workers else 0.0), idle

    def _side_bytes(self, layout: str, item_bytes: int, starts: tuple[int, int]) -> int:
        """Bytes of A and of B that a block loads through the L2 cache for one k; of a line's bytes all or none."""
        if self._split:
            item_bytes, starts = self._item_bytes, warpgroups.WHOLE_LINES
        family, tile, line = self._kernel.cost, self._tile, _LINE_BYTES // item_bytes
        if isinstance(family, Warpgroups):
            side_bytes = warpgroups.side_bytes(self._kernel, family, self._config, layout, item_bytes, starts)
            return self._kernel.parts * side_bytes
        rows = tile.m if layout[0] == "N" else max(tile.m, line)
        cols = tile.n if layout[1] == "T" else max(tile.n, line)
        return self._kernel.parts * item_bytes * (rows + cols)

    def _from_dram(self, sizes: Dims, held: int, tiles: int, across: int, parts: float, through_l2: int) -> float:
        """Bytes of A and B that come from DRAM where they do not fit into the L2 cache.

        A wave shares what it reads; the next one reads it again.
        """
        tile = self._tile
        running = max(min(int(held * self._multiprocessors / parts), tiles), 1)
        high, wide = -(-running // max(across, 1)), min(running, across)
        if self._group_m > 1:
            high = min(self._group_m, -(-sizes.m // tile.m), running)
            wide = -(-running // high)
        a_wave = (high * tile.m + wide * tile.n) * sizes.k * sizes.form.item_bytes
        return max(
            self._read * (sizes.a_bytes + sizes.b_bytes), min(self._read * a_wave * (tiles / running), through_l2)
        )


def predict(
    kernel: Kernel,
    config: Config,
    problem: Problem,
    gpu: Gpu,
    report: CompileReport | None = None,
    demand: Demand | None = None,
) -> Cost | None:
    """Predict one run of a kernel, base addresses aligned; None where the GPU cannot hold even one of its blocks."""
    return CostModel(kernel, config, gpu, report, demand).predict(Dims.of(problem))


def _starts(factor: Layout, rows: int, cols: int) -> int:
    """The bytes at multiples of which rows (or columns) of a factor of 16-bit elements start, at most a line's."""
    pitch = factor.ld * _NARROW_BYTES
    if pitch % VECTOR_BYTES:  # relaid out, with the least padding
        length = cols if factor.order == "row" else rows
        pitch = -(-length * _NARROW_BYTES // VECTOR_BYTES) * VECTOR_BYTES
    return math.gcd(pitch, _LINE_BYTES)
