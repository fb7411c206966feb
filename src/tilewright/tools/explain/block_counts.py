"""Counts of blocks, run on the emulator: all of a launch's, a sample, or one of each kind."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from tilewright.core.errors import LaunchError, ProblemError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.emulator import symbols
from tilewright.emulator.counting import BlockCounter, LaunchOperands, MemoryCounts, Site
from tilewright.emulator.symbols import SourceLine
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.base import Matrix
from tilewright.tools.explain.instruction_mix import Widths
from tilewright.tools.explain.sampling import SamplingPlan, plan, tile_of_cluster

OPERATIONS, TILES = "operations", "tiles"
"""Kinds of what is counted besides accesses: `traffic.Operations`, and bytes that tensor maps move."""

Key = tuple[SourceLine | None, str, str]
"""A line of the source, a kind of accesses, a counter: a field of `traffic.Group`."""
Counts = Counter[Key]

_OF_LINES = ("lines", "passes")
_ALIGNMENT = 256
_TILES_K = (1, 2, 4)
"""Multiples of a tile's k that a kernel's steps may be: the first by which counts grow evenly, or else the first."""
_UNMERGED = 4
_UNWRITTEN = 1.0
"""Value of C before a run. A and B hold zeros, and beta is 0 or 2, so that no result is this."""


class BlockCounts:
    """Counts blocks of one kernel, config and problem.

    Args:
        kernel, config, problem: what is launched.
        widths, scalars, multiprocessors: see `traffic.count`.

    Raises:
        EngineUnavailableError: there is no working C++ compiler.
    """

    def __init__(
        self,
        kernel: Kernel,
        config: Config,
        problem: Problem,
        widths: Mapping[SourceLine | None, Widths] | None,
        scalars: Scalars,
        multiprocessors: int,
    ) -> None:
        self.kernel, self.config, self.problem, self.widths = kernel, config, problem, widths
        variant = kernel.variant(problem, config)
        self.multiprocessors = multiprocessors
        self.scalars = Scalars(1.0, 2.0 if scalars.beta else 0.0)
        self.computes = kernel.support.precision is None and problem.dtype == "float32"
        self.fragments = False
        self._counter = BlockCounter(kernel, config, variant, multiprocessors)

    def kinds(self) -> tuple[Counts, int, bool]:
        """Counts of all blocks, from one of each kind at three depths; the number run, and whether the depths agree."""
        run, tried = 0, []
        for tiles_k in _TILES_K:
            small = plan(self.kernel, self.config, self.problem, tiles_k)
            of_kind, more, exact = self.of_kinds(small)
            run += more
            tried.append((small, of_kind))
            if exact:
                break
        small, of_kind = tried[-1 if exact else 0]
        total: Counts = Counter()
        for place, counts in of_kind.items():
            add(total, counts.at(small.steps(self.problem.k)), small.kinds[place])
        return total, run, exact

    def of_kinds(self, small: SamplingPlan) -> tuple[dict[tuple[int, int], "KindCounts"], int, bool]:
        """Counts of a block of each kind, by its tile's place in the small problem; further as `kinds`. A tile that no
        block computes, as where a grid is rounded down, is not among them."""
        first = self._by_tile(small.at(small.depths[0]))
        exact, run = True, sum(len(blocks) for blocks, _ in first.values())
        found = {}
        for place in (one for one in small.kinds if one in first):
            blocks, at_first = first[place]
            counts = [at_first, *(self.run(small.at(depth), blocks) for depth in small.depths[1:])]
            run += (len(counts) - 1) * len(blocks)
            steps = [
                Counter({key: after[key] - before[key] for key in {*after, *before}})
                for before, after in pairwise(counts)
            ]
            exact = exact and len({_comparable(step) for step in steps}) <= 1
            found[place] = KindCounts(at_first, steps[0] if steps else Counter())
        return found, run, exact

    def _by_tile(self, problem: Problem) -> dict[tuple[int, int], tuple[list[int], Counts]]:
        """For each tile of C, by its place, the numbers of the blocks that compute it, and what these count: one block,
        or those of a cluster.

        In which order blocks take tiles is the kernel's own affair: what they write shows it.
        """
        tile, cluster = tile_of_cluster(self.kernel, self.config), self.kernel.cluster(self.config)
        found: dict[tuple[int, int], tuple[list[int], Counts]] = {}
        for first in range(0, self.kernel.grid(problem, self.config, self.multiprocessors), cluster):
            blocks = list(range(first, first + cluster))
            c = self._result(problem)
            c.owner[:] = _UNWRITTEN
            counts = self.run(problem, blocks, c)
            rows, cols = np.nonzero(c.owner[: problem.m, : problem.n] != _UNWRITTEN)
            places = {*zip((rows // tile.m).tolist(), (cols // tile.n).tolist(), strict=True)}
            if len(places) != 1:
                raise LaunchError(f"{self.kernel.name}: block {first} does not compute one tile of C")
            place = places.pop()
            if place in found:
                others = found[place][0]
                raise LaunchError(f"{self.kernel.name}: blocks {others[0]} and {first} compute the same tile of C")
            found[place] = (blocks, counts)
        return found

    def run(self, problem: Problem, blocks: Sequence[int] | None, c: Matrix | None = None) -> Counts:
        """Counts of the blocks of these numbers, or all, of a launch for another problem of the same kind."""
        parts = self.kernel.parts
        a = _zeros(problem.m, problem.k, problem.a, problem.dtype, parts)
        b = _zeros(problem.k, problem.n, problem.b, problem.dtype, parts)
        operands = LaunchOperands(a, b, c or self._result(problem), self.scalars)
        memory = self._counter.memory(problem, operands, blocks)
        self.fragments = self.fragments or memory.fragments > 0
        counts = counts_of(memory, self.widths)
        if self.computes:
            operations = self._counter.operations(problem, operands, blocks)
            counts.update({(None, OPERATIONS, name): value for name, value in operations._asdict().items()})
        return counts

    def _result(self, problem: Problem) -> Matrix:
        return _zeros(problem.m, problem.n, problem.d, problem.result)


class KindCounts(NamedTuple):
    """Counts of a block of a kind."""

    first: Counts
    """At the plan's first depth."""
    step: Counts
    """From one depth to the next."""

    def at(self, steps: int) -> Counts:
        """This many such steps behind the first depth."""
        found: Counts = Counter(self.first)
        add(found, self.step, steps)
        return found


def _comparable(counts: Counts) -> frozenset[tuple[Key, int]]:
    """Counts that blocks of a kind have in common (see `traffic.Group`)."""
    return frozenset((key, value) for key, value in counts.items() if value and key[2] not in _OF_LINES)


def add(total: Counts, counts: Counts, times: int = 1) -> None:
    """Add counts to a total, `times` times."""
    for key, value in counts.items():
        total[key] += value * times


def counts_of(memory: MemoryCounts, widths: Mapping[SourceLine | None, Widths] | None) -> Counts:
    """Accesses of blocks to memory, by line; shared accesses as wide as the compiler made them, where that is known."""
    counts: Counts = Counter({(None, TILES, "bytes"): memory.tile_bytes})
    for site, inner, line in _placed(memory.sites):
        pipe = "async_copy" if site.pipe == "copy" else site.pipe
        written = site.merged[_UNMERGED]
        tally = site.merged[_width(widths, site, inner)]
        for name, value in (
            ("requests", tally.requests),
            ("sectors", site.sectors),
            ("wavefronts", tally.wavefronts),
            ("bank_conflicts", tally.wavefronts - tally.least_wavefronts),
            ("accesses", site.accesses),
            ("bytes", site.accesses * site.bytes),
            ("reading", site.reading),
            ("lines", site.lines),
            ("passes", site.passes),
            ("written_requests", written.requests),
            ("written_wavefronts", written.wavefronts),
        ):
            counts[line, pipe, name] += value
    return counts


def _width(widths: Mapping[SourceLine | None, Widths] | None, site: Site, line: SourceLine | None) -> int:
    """To how many bytes the compiler merged the accesses of a place."""
    if widths is None or site.pipe not in ("shared_load", "shared_store"):
        return _UNMERGED
    of_line = widths.get(line) or widths[None]
    return max(_UNMERGED, *of_line.get(site.pipe, {_UNMERGED: 0}))


def _placed(sites: Sequence[Site]) -> Iterator[tuple[Site, SourceLine | None, SourceLine | None]]:
    """Sites with their source lines: that of the access, and where it is in an inlined function, the call's."""
    libraries = {site.library for site in sites}
    places = {library: symbols.places(library, [s.place for s in sites if s.file is None]) for library in libraries}
    for site in sites:
        if site.file is not None:
            line = SourceLine(PurePath(site.file).name, site.place)
            yield site, line, line
        else:
            place = places[site.library][site.place]
            inner, outer = (place[0], place[-1]) if place else (None, None)
            yield site, inner, outer


def _zeros(rows: int, cols: int, layout: Layout, dtype: str, parts: int = 1) -> Matrix:
    """A matrix of zeros, or as many behind each other as there are parts; memory that nobody touches costs none."""
    lines, ld = parts * layout.lines(rows, cols)[0], max(layout.ld, 1)
    item = np.dtype(dtype).itemsize
    try:
        memory = np.zeros(lines * ld * item + _ALIGNMENT, dtype=np.uint8)
    except MemoryError:
        raise ProblemError(
            f"the problem is too large to be counted on this machine: its memory has no room for {lines} lines of "
            f"{ld} elements, as far apart as the problem's own"
        ) from None
    start = -memory.ctypes.data % _ALIGNMENT
    array = memory[start : start + lines * ld * item].view(dtype).reshape(lines, ld)
    pointer = memory.ctypes.data + start
    return Matrix(pointer, rows, cols, ld, dtype, owner=array, order=layout.order)
