"""What a launch does to a GPU's memories, and how much it computes: counted on the emulator, block by block.

Requests, sectors, wavefronts and bank conflicts are those of NVIDIA's profiler: a request is an instruction of a
warp, a sector 32 bytes of global memory, a wavefront a pass over shared memory's banks, and conflicts are the
wavefronts beyond those that the same accesses would take in distinct banks.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from tilewright.analysis.sampling import plan
from tilewright.analysis.sass import SourceLine
from tilewright.analysis.widths import Widths
from tilewright.engines.base import Matrix
from tilewright.engines.emulator import symbols
from tilewright.engines.emulator.counting import MemoryCounter, MemoryCounts, Operands, OperationCounter, Site
from tilewright.errors import LaunchError
from tilewright.kernels.spec import Config, Kernel
from tilewright.problem import RESULT_DTYPE, Problem

SECTOR_BYTES = 32
WAVEFRONT_BYTES = 128

_WHOLE = 2**22
"""Launches of up to so many multiply-adds are run whole."""
_SHARED_WORK = 2**25
"""The same for those in which blocks share the work on a tile, whose counts cannot be told from a few blocks'."""
_SAMPLES = 12
"""Blocks that are run of a launch which is too large to run whole, and whose blocks are of unknown kinds."""
_ALIGNMENT = 256
_UNMERGED = 4


@dataclass(frozen=True)
class Group:
    """Accesses of one kind, summed over the launch. What a kind does not have is 0."""

    requests: int = 0
    sectors: int = 0
    """Of 32 bytes, where it goes to global memory."""
    wavefronts: int = 0
    """Where it goes to shared memory."""
    bank_conflicts: int = 0
    """Of the wavefronts, those that would not be there if the lanes' words lay in distinct banks."""
    accesses: int = 0
    """By single threads, as the source makes them."""
    bytes: int = 0
    """That the threads asked for."""
    reading: int = 0
    """Of asynchronous copies, requests that read anything; the others write zeros."""
    written_requests: int = 0
    """Requests as the source makes them, where the compiler merged some of them to vectors."""
    written_wavefronts: int = 0


@dataclass(frozen=True)
class Line:
    """A line of the kernel's source, and what its accesses of one kind come to, those in inlined functions included."""

    source: SourceLine | None
    pipe: str
    group: Group


@dataclass(frozen=True)
class Operations:
    """What threads compute in float32, summed over the launch: multiply-adds, multiplications and additions."""

    ffma: int
    fmul: int
    fadd: int


@dataclass(frozen=True)
class Traffic:
    """The counts of a launch."""

    groups: Mapping[str, Group]
    """By kind, one of `PIPES`; async_copy reads global memory and writes shared memory in one instruction."""
    lines: tuple[Line, ...]
    """The same by line of the source, the costliest first."""
    operations: Operations | None
    """None for kernels that compute in tensor cores."""
    tile_bytes: int
    """Brought into shared memory by tensor maps, which make no requests of threads."""
    blocks_run: int
    extrapolated: bool
    """Whether the counts of the whole launch were told from those of some of its blocks."""
    exact: bool
    """Whether they are equal to what a run of all blocks would count."""
    notes: tuple[str, ...] = field(default=())

    @property
    def profiled(self) -> Mapping[str, Group]:
        """The groups as Nsight Compute counts them: the reads of asynchronous copies are among the global loads too."""
        loads, copies = self.groups["global_load"], self.groups["async_copy"]
        both = replace(
            loads,
            requests=loads.requests + copies.reading,
            sectors=loads.sectors + copies.sectors,
            accesses=loads.accesses + copies.accesses,
            bytes=loads.bytes + copies.bytes,
            written_requests=loads.written_requests + copies.reading,
        )
        return {**self.groups, "global_load": both}

    @property
    def global_sectors(self) -> int:
        """Read and written, through whichever pipe."""
        return sum(group.sectors for group in self.groups.values())

    @property
    def shared_wavefronts(self) -> int:
        """Of loads, stores and asynchronous copies."""
        return sum(group.wavefronts for group in self.groups.values())


_Key = tuple[SourceLine | None, str, str]
"""Place, kind, counter."""
_Counts = Counter[_Key]
_Run = Callable[[Problem, Operands, Sequence[int] | None], _Counts]

PIPES = ("global_load", "global_store", "shared_load", "shared_store", "async_copy", "global_atomic", "shared_atomic")
_OPERATIONS = "operations"
_TILES = "tiles"


def count(
    kernel: Kernel, config: Config, problem: Problem, widths: Mapping[SourceLine | None, Widths] | None = None
) -> Traffic:
    """Count a launch of a kernel, all blocks of it or as many as tell the rest.

    Args:
        kernel, config, problem: what is launched; base addresses are taken for aligned.
        widths: how wide the GPU's compiler made the shared accesses (`widths.shared_widths`); without, they are
            counted as the source makes them.

    Raises:
        EngineUnavailableError: there is no working C++ compiler.
        DtypeError, LaunchError: the kernel does not take the problem.
    """
    kernel.check(problem)
    notes = []
    if kernel.packs:
        notes.append("without the kernel that packs A and B beforehand")
    tile, blocks = kernel.tile(config), kernel.launch(problem, config).grid[0] if problem.m and problem.n else 0
    work = -(-problem.m // tile.m) * -(-problem.n // tile.n) * tile.m * tile.n * problem.k
    may_share = kernel.workspace_bytes is not None
    whole = work <= (_SHARED_WORK if may_share else _WHOLE)
    unshared = False
    if may_share and not whole and "WAVE" in config:
        workspace = kernel.workspace(problem, config)
        if workspace is not None and workspace.bytes:
            unshared = True
            notes.append(
                f"as if each tile had a block of its own (WAVE=0): that blocks share the last tiles moves up to "
                f"{2 * workspace.bytes:,} bytes of partial sums besides"
            )
        config, may_share = Config({**config, "WAVE": 0}), False
    counting = _Counting(kernel, config, problem, widths)
    if not blocks:
        total, run, exact = _Counts(), 0, True
    elif whole:
        total, run, exact = counting.whole(), blocks, True
    elif may_share:
        total, run, exact = counting.some(blocks)
        notes.append(f"estimated from {run} of {blocks:,} blocks: how blocks share tiles depends on how many there are")
    else:
        total, run, exact = counting.kinds()
    if counting.fragments:
        notes.append("matrix fragments counted as 16 bytes a lane: which lane holds what is the GPU's own affair")
    return _traffic(total, counting.computes, run, not whole, exact and not unshared, notes)


class _Counting:
    """Counts one kernel, config and problem."""

    def __init__(
        self, kernel: Kernel, config: Config, problem: Problem, widths: Mapping[SourceLine | None, Widths] | None
    ) -> None:
        self.kernel, self.config, self.problem, self.widths = kernel, config, problem, widths
        specialization = kernel.specialize(problem, config, (0, 0, 0))
        self.computes = kernel.precision is None and problem.dtype == "float32"
        self.fragments = False
        self._memory = MemoryCounter(kernel, config, specialization)
        self._operations = OperationCounter(kernel, config, specialization) if self.computes else None

    def whole(self) -> _Counts:
        """Of all blocks."""
        return self._run(self.problem, None)[0]

    def some(self, blocks: int) -> tuple[_Counts, int, bool]:
        """An estimate from blocks in equal distances; how many were run, and that it is none but an estimate."""
        chosen = sorted({index * blocks // _SAMPLES for index in range(_SAMPLES)})
        counts, _ = self._run(self.problem, chosen)
        return Counter({key: value * blocks // len(chosen) for key, value in counts.items()}), len(chosen), False

    def kinds(self) -> tuple[_Counts, int, bool]:
        """Of all blocks, from one of each kind at three depths; how many were run, and whether the depths agree."""
        small = plan(self.kernel, self.config, self.problem)
        by_rows = self._numbered_by_rows(small.at(small.depths[0]), small.tile_rows, small.tile_cols)
        total, exact, run = _Counts(), True, 0
        for kind in small.kinds:
            number = kind.row * small.tile_cols + kind.col if by_rows else kind.col * small.tile_rows + kind.row
            counts = [self._run(small.at(depth), [number])[0] for depth in small.depths]
            run += len(counts)
            if len(counts) > 1:
                step = _minus(counts[1], counts[0])
                exact = exact and step == _minus(counts[2], counts[1])
            for key in {key for count in counts for key in count}:
                value = counts[0][key] + (step[key] * small.steps(self.problem.k) if len(counts) > 1 else 0)
                total[key] += value * kind.count
        return total, run, exact

    def _numbered_by_rows(self, problem: Problem, rows: int, cols: int) -> bool:
        """Whether the second block's tile stands beside the first one's, not below."""
        if rows == 1 or cols == 1:
            return True
        tile = self.kernel.tile(self.config)
        _, c = self._run(problem, [1])
        written = c != _UNWRITTEN
        beside, below = written[: tile.m, tile.n : 2 * tile.n], written[tile.m : 2 * tile.m, : tile.n]
        if beside.all() == below.all() or written.sum() != max(beside.sum(), below.sum()):
            raise LaunchError(f"{self.kernel.name}: which block computes which tile of C cannot be told")
        return bool(beside.all())

    def _run(self, problem: Problem, blocks: Sequence[int] | None) -> tuple[_Counts, NDArray[np.float32]]:
        """Counts of these blocks, and C."""
        # C = alpha * A @ B + beta * C is then never what C held before.
        problem = replace(problem, beta=2.0 if problem.beta else 0.0)
        a = _zeros(problem.m, problem.k, problem.lda, problem.dtype)
        b = _zeros(problem.k, problem.n, problem.ldb, problem.dtype)
        c = _zeros(problem.m, problem.n, problem.ldc, RESULT_DTYPE)
        result: NDArray[np.float32] = c.owner[: problem.m, : problem.n]
        result[:] = _UNWRITTEN
        memory = self._memory.count(problem, Operands(a, b, c), blocks)
        self.fragments = self.fragments or memory.fragments > 0
        counts = self._of_memory(memory)
        if self._operations is not None:
            operations = self._operations.count(problem, Operands(a, b, c), blocks)
            counts.update({(None, _OPERATIONS, name): value for name, value in operations._asdict().items()})
        return counts, result

    def _of_memory(self, memory: MemoryCounts) -> _Counts:
        counts: _Counts = Counter({(None, _TILES, "bytes"): memory.tile_bytes})
        for site, inner, line in _placed(memory.sites):
            pipe = "async_copy" if site.pipe == "copy" else site.pipe
            written = site.merged[_UNMERGED]
            tally = site.merged[self._width(site, inner)]
            for name, value in (
                ("requests", tally.requests),
                ("sectors", site.sectors),
                ("wavefronts", tally.wavefronts),
                ("bank_conflicts", tally.wavefronts - tally.least_wavefronts),
                ("accesses", site.accesses),
                ("bytes", site.accesses * site.bytes),
                ("reading", site.reading),
                ("written_requests", written.requests),
                ("written_wavefronts", written.wavefronts),
            ):
                counts[line, pipe, name] += value
        return counts

    def _width(self, site: Site, line: SourceLine | None) -> int:
        """To how many bytes the compiler merged the accesses of a place."""
        if self.widths is None or site.pipe not in ("shared_load", "shared_store"):
            return _UNMERGED
        widths = self.widths.get(line) or self.widths[None]
        width = widths.load if site.pipe == "shared_load" else widths.store
        return max(width, _UNMERGED)


_UNWRITTEN = 1.0


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


def _zeros(rows: int, cols: int, ld: int, dtype: str) -> Matrix:
    """A matrix of zeros, its rows ld elements apart; memory that nobody touches costs none."""
    ld = max(ld, 1)
    item = np.dtype(dtype).itemsize
    memory = np.zeros(rows * ld * item + _ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    array = memory[start : start + rows * ld * item].view(dtype).reshape(rows, ld)
    pointer = memory.ctypes.data + start
    return Matrix(pointer, rows, cols, ld, dtype, owner=array)


def _minus(one: _Counts, other: _Counts) -> _Counts:
    return Counter({key: one[key] - other[key] for key in {*one, *other}})


def _traffic(
    total: _Counts, computes: bool, run: int, extrapolated: bool, exact: bool, notes: Sequence[str]
) -> Traffic:
    by_line: dict[tuple[SourceLine | None, str], dict[str, int]] = {}
    by_pipe: dict[str, Counter[str]] = {pipe: Counter() for pipe in PIPES}
    for (line, pipe, name), value in total.items():
        if pipe in by_pipe:
            by_line.setdefault((line, pipe), {})[name] = value
            by_pipe[pipe][name] += value
    lines = [Line(line, pipe, Group(**values)) for (line, pipe), values in by_line.items()]
    lines.sort(key=lambda line: -(line.group.sectors + line.group.wavefronts))
    operations = Operations(*(total[None, _OPERATIONS, name] for name in ("ffma", "fmul", "fadd")))
    return Traffic(
        groups={pipe: Group(**values) for pipe, values in by_pipe.items()},
        lines=tuple(lines),
        operations=operations if computes else None,
        tile_bytes=total[None, _TILES, "bytes"],
        blocks_run=run,
        extrapolated=extrapolated,
        exact=exact,
        notes=tuple(notes),
    )
