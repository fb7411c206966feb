"""Counts of blocks, run on the emulator: all of a launch's, a sample, or one of each kind."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from tilewright.analysis.sampling import plan, tile_of_cluster
from tilewright.analysis.sass import SourceLine
from tilewright.analysis.widths import Widths
from tilewright.engines.base import Matrix
from tilewright.engines.emulator import symbols
from tilewright.engines.emulator.counting import MemoryCounter, MemoryCounts, Operands, OperationCounter, Site
from tilewright.errors import LaunchError, ProblemError
from tilewright.kernels.spec import Config, Kernel
from tilewright.problem import Layout, Problem, Scalars

OPERATIONS, TILES = "operations", "tiles"
"""Kinds of what is counted besides accesses: `traffic.Operations`, and bytes that tensor maps move."""

Key = tuple[SourceLine | None, str, str]
"""A line of the source, a kind of accesses, a counter: a field of `traffic.Group`."""
Counts = Counter[Key]

_SAMPLES = 12
"""Blocks that are run of a launch which is too large to run whole, and whose blocks are of unknown kinds."""
_ALIGNMENT = 256
_UNMERGED = 4
_UNWRITTEN = 1.0
"""What C holds before a run. A and B hold zeros, and beta is 0 or 2, so that no result is this."""


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
        self._multiprocessors = multiprocessors
        self.scalars = Scalars(1.0, 2.0 if scalars.beta else 0.0)
        self.computes = kernel.precision is None and problem.dtype == "float32"
        self.fragments = False
        self._memory = MemoryCounter(kernel, config, variant, multiprocessors)
        self._operations = OperationCounter(kernel, config, variant, multiprocessors) if self.computes else None

    def whole(self) -> Counts:
        """Of all blocks."""
        return self._run(self.problem, None)[0]

    def some(self, blocks: int) -> tuple[Counts, int, bool]:
        """An estimate from blocks in equal distances; how many were run, and that it is none but an estimate."""
        chosen = sorted({index * blocks // _SAMPLES for index in range(_SAMPLES)})
        counts, _ = self._run(self.problem, chosen)
        return Counter({key: value * blocks // len(chosen) for key, value in counts.items()}), len(chosen), False

    def kinds(self) -> tuple[Counts, int, bool]:
        """Of all blocks, from one of each kind at three depths; how many were run, and whether the depths agree."""
        small = plan(self.kernel, self.config, self.problem)
        first = self._by_tile(small.at(small.depths[0]))
        total, exact, run = Counts(), True, sum(len(blocks) for blocks, _ in first.values())
        for kind in small.kinds:
            blocks, at_first = first[kind.row, kind.col]
            counts = [at_first, *(self._run(small.at(depth), blocks)[0] for depth in small.depths[1:])]
            run += (len(counts) - 1) * len(blocks)
            if len(counts) > 1:
                step = _minus(counts[1], counts[0])
                exact = exact and step == _minus(counts[2], counts[1])
            for key in {key for count in counts for key in count}:
                value = counts[0][key] + (step[key] * small.steps(self.problem.k) if len(counts) > 1 else 0)
                total[key] += value * kind.count
        return total, run, exact

    def _by_tile(self, problem: Problem) -> dict[tuple[int, int], tuple[list[int], Counts]]:
        """For each tile of C, by its place, the numbers of the blocks that compute it, and what these count: one block,
        or those of a cluster.

        In which order blocks take tiles is the kernel's own affair: what they write shows it.
        """
        tile, cluster = tile_of_cluster(self.kernel, self.config), self.kernel.cluster(self.config)
        found = {}
        for first in range(0, self.kernel.grid(problem, self.config, self._multiprocessors), cluster):
            blocks = list(range(first, first + cluster))
            counts, c = self._run(problem, blocks)
            rows, cols = np.nonzero(c != _UNWRITTEN)
            places = {*zip((rows // tile.m).tolist(), (cols // tile.n).tolist(), strict=True)}
            if len(places) != 1:
                raise LaunchError(f"{self.kernel.name}: block {first} does not compute one tile of C")
            found[places.pop()] = (blocks, counts)
        return found

    def _run(self, problem: Problem, blocks: Sequence[int] | None) -> tuple[Counts, NDArray[np.float32]]:
        """Counts of these blocks, and C."""
        terms = self.kernel.terms
        a = _zeros(problem.m, problem.k, problem.a, problem.dtype, terms)
        b = _zeros(problem.k, problem.n, problem.b, problem.dtype, terms)
        c = _zeros(problem.m, problem.n, problem.d, problem.result)
        result: NDArray[np.float32] = c.owner[: problem.m, : problem.n]
        result[:] = _UNWRITTEN
        memory = self._memory.count(problem, Operands(a, b, c, self.scalars), blocks)
        self.fragments = self.fragments or memory.fragments > 0
        counts = counts_of(memory, self.widths)
        if self._operations is not None:
            operations = self._operations.count(problem, Operands(a, b, c, self.scalars), blocks)
            counts.update({(None, OPERATIONS, name): value for name, value in operations._asdict().items()})
        return counts, result


def counts_of(memory: MemoryCounts, widths: Mapping[SourceLine | None, Widths] | None) -> Counts:
    """What blocks did to memory, by line; shared accesses as wide as the compiler made them, where that is known."""
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
    return max(of_line.load if site.pipe == "shared_load" else of_line.store, _UNMERGED)


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
            inner, outer = (SourceLine(*place[0]), SourceLine(*place[-1])) if place else (None, None)
            yield site, inner, outer


def _zeros(rows: int, cols: int, layout: Layout, dtype: str, terms: int = 1) -> Matrix:
    """A matrix of zeros, or as many behind each other as there are terms; memory that nobody touches costs none."""
    lines, ld = terms * layout.lines(rows, cols)[0], max(layout.ld, 1)
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


def _minus(one: Counts, other: Counts) -> Counts:
    return Counter({key: one[key] - other[key] for key in {*one, *other}})
