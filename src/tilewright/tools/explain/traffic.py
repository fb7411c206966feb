"""Traffic of a launch to a GPU's memories, and its operations: counted on the emulator, block by block.

Requests, sectors, wavefronts and bank conflicts are those of NVIDIA's profiler: a request is an instruction of a
warp, a sector 32 bytes of global memory, a wavefront a pass over shared memory's banks, and conflicts are the
wavefronts beyond those that the same accesses would take in distinct banks.

Several blocks may compute a tile of D: workers that share the last ones (`schedule.py`), or blocks that divide k evenly
(`Streaming`). Along k a tile's counts grow by equal steps, whoever makes them. Besides these, a tile that workers share
counts what each of them does before and after its steps, and the partial sums that they store and load, which only
depends on how many they are. So a tile of each kind is run for each number of workers, with the least k that has a step
for each.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.counting import Operations
from tilewright.emulator.engine import MULTIPROCESSORS
from tilewright.emulator.symbols import SourceLine
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Streaming
from tilewright.kernels.kernel import Division, Kernel
from tilewright.kernels.library import schedule
from tilewright.kernels.support import Addresses
from tilewright.runtime.relayouts import jobs
from tilewright.tools.explain.block_counts import OPERATIONS, TILES, BlockCounts, Counts, add
from tilewright.tools.explain.instruction_mix import Widths
from tilewright.tools.explain.sampling import SamplingPlan, plan

WAVEFRONT_BYTES = 128

OF_FRAGMENTS = "fragments in shared memory are counted as 16 bytes a lane: which lane holds what is the GPU's affair"
"""A note on counts that have some."""

_WHOLE = 2**22
"""Launches of up to this many multiply-adds are run whole."""


@dataclass(frozen=True)
class Group:
    """Accesses of one kind, summed over the launch. What a kind does not have is 0."""

    requests: int = 0
    sectors: int = 0
    """Sectors of 32 bytes, where it goes to global memory."""
    wavefronts: int = 0
    """Wavefronts, where it goes to shared memory."""
    bank_conflicts: int = 0
    """Wavefronts that would not be there if the lanes' words lay in distinct banks."""
    accesses: int = 0
    """Accesses of single threads, as the source makes them."""
    bytes: int = 0
    """Bytes that the threads asked for."""
    reading: int = 0
    """Requests of asynchronous copies that read anything; the others write zeros."""
    lines: int = field(default=0, compare=False)
    """Lines of 128 bytes that requests of global loads and stores look up in the L1 cache. In an extrapolated launch,
    this and the next are those of blocks whose tiles may begin elsewhere in a line."""
    passes: int = field(default=0, compare=False)
    """Passes of global loads and stores over the banks of the L1 cache, where that has all they ask for."""
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
class Traffic:
    """The counts of a launch."""

    groups: Mapping[str, Group]
    """By kind, one of `PIPES`; async_copy reads global memory and writes shared memory in one instruction."""
    lines: tuple[Line, ...]
    """Counts by line of the source, the costliest first."""
    operations: Operations | None
    """None for kernels that compute in tensor cores."""
    tile_bytes: int
    """Moved into shared memory and out of it by tensor maps, which make no requests of threads."""
    blocks_run: int
    extrapolated: bool
    """Whether the counts of the whole launch were made from those of some of its blocks."""
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
        """Wavefronts of loads, stores, asynchronous copies and products."""
        return sum(group.wavefronts for group in self.groups.values())


PIPES = {
    "global_load": "global loads",
    "global_store": "global stores",
    "async_copy": "by async copies",
    "global_atomic": "global atomics",
    "shared_load": "shared loads",
    "shared_store": "shared stores",
    "product": "by tensor cores",
    "shared_atomic": "shared atomics",
}
"""Kinds of accesses, and what tables call them. In a product a warpgroup's tensor cores read A and B from shared
memory, by one request."""


def count(
    kernel: Kernel,
    config: Config,
    problem: Problem,
    widths: Mapping[SourceLine | None, Widths] | None = None,
    *,
    scalars: Scalars = Scalars(),
    multiprocessors: int = MULTIPROCESSORS,
) -> Traffic:
    """Count a launch of a kernel, all blocks of it, or those that stand for the others.

    Args:
        kernel, config, problem: what is launched; base addresses are taken for aligned.
        widths: how wide the GPU's compiler made the shared accesses (`shared_widths`); without, they are
            counted as the source makes them.
        scalars: alpha and beta; with beta = 0, C is not read.
        multiprocessors: of the GPU, among which some kernels divide their work.

    Raises:
        EngineUnavailableError: there is no working C++ compiler.
        DtypeError, LaunchError: the kernel does not take the problem.
    """
    found = jobs(kernel, config, problem, Addresses())
    problem, notes = found.jobs[-1].problem, []
    if found.relaid:
        notes.append(f"without the relayout of {' and '.join(found.relaid)} beforehand")
    tile, blocks = kernel.tile(config), 0 if problem.is_empty else kernel.grid(problem, config, multiprocessors)
    work = ceil_div(problem.m, tile.m) * ceil_div(problem.n, tile.n) * tile.m * tile.n * problem.k
    whole = work <= _WHOLE
    counting = BlockCounts(kernel, config, problem, widths, scalars, multiprocessors)
    if not blocks:
        total, run, exact = Counts(), 0, True
    elif whole:
        total, run, exact = counting.run(problem, None), blocks, True
    elif kernel.cost.workers(config):
        total, run, exact = _with_workers(counting)
    elif isinstance(kernel.cost, Streaming):
        total, run, exact = _divided(counting, blocks, kernel.cost)
    else:
        total, run, exact = counting.kinds()
    if counting.fragments:
        notes.append(OF_FRAGMENTS)
    return traffic_of(total, counting.computes, run, not whole, exact, notes)


def _with_workers(counting: BlockCounts) -> tuple[Counts, int, bool]:
    """Counts of a launch whose last tiles workers share; how many blocks were run, and whether the counts are exact."""
    kernel, config, problem = counting.kernel, counting.config, counting.problem
    division = schedule.divide(problem, config, counting.multiprocessors)
    small = plan(kernel, config, problem)
    steps_of_k = small.steps(problem.k)

    def sharing(workers: int, blocks: int) -> BlockCounts:
        chosen = Config({**config, "WORKERS": workers, **({"BUNDLE": 1} if "BUNDLE" in config else {})})
        return BlockCounts(kernel, chosen, problem, counting.widths, counting.scalars, blocks)

    of_kind, run, exact = sharing(0, counting.multiprocessors).of_kinds(small)
    total: Counts = Counter()
    for (place, workers), tiles in _tiles(small, division, problem, config).items():
        kind = of_kind[place]
        if workers == 1:
            add(total, kind.at(steps_of_k), tiles)
            continue
        # On as many multiprocessors as `together` every tile of the small problem has this many workers.
        depth, steps = _depth(small, workers, config.BK)
        few = small.at(depth)
        first = (place[0] * small.cols.small_tiles + place[1]) * workers
        together = small.rows.small_tiles * small.cols.small_tiles * workers
        counts = sharing(1, together).run(few, range(first, first + workers))
        add(counts, kind.step, steps_of_k - steps)
        add(total, counts, tiles)
        run += workers
    return total, run, exact


def _tiles(
    small: SamplingPlan, division: Division, problem: Problem, config: Config
) -> Counter[tuple[tuple[int, int], int]]:
    """How many tiles there are of each kind, by its place in the small problem, with each number of workers."""
    across, steps = small.cols.tiles, max(ceil_div(problem.k, config.BK), 1)
    cols = [small.cols.place(col) for col in range(across)]
    found: Counter[tuple[tuple[int, int], int]] = Counter()
    full_rows, tiles = division.whole // across, small.rows.tiles * across
    for row, rows in Counter(map(small.rows.place, range(full_rows))).items():
        for col, count in Counter(cols).items():
            found[(row, col), 1] += rows * count
    for tile in range(full_rows * across, tiles):
        workers = 1
        if tile >= division.whole:
            first, left = (tile - division.whole) * steps, (tiles - division.whole) * steps
            # Which worker does a step: as schedule.cuh has it.
            begins, ends = (((step + 1) * division.workers - 1) // left for step in (first, first + steps - 1))
            workers = ends - begins + 1
        found[(small.rows.place(tile // across), cols[tile % across]), workers] += 1
    return found


def _depth(small: SamplingPlan, workers: int, deep: int) -> tuple[int, int]:
    """The least k at which a tile has a step for each of its workers, at most the whole problem's, and how many of the
    plan's steps lead to it."""
    if len(small.depths) == 1:
        return small.depths[0], 0
    first, step = small.depths[0], small.depths[1] - small.depths[0]
    steps = max(ceil_div(workers * deep - first, step), 0)
    depth, whole = first + steps * step, small.small.k
    return (depth, steps) if depth <= whole else (whole, small.steps(whole))


def _divided(counting: BlockCounts, blocks: int, family: Streaming) -> tuple[Counts, int, bool]:
    """Counts of a launch whose blocks divide k evenly, how many blocks were run, and whether the depths agree: all
    blocks of one tile of each kind are run."""
    small = plan(counting.kernel, counting.config, counting.problem)
    down, across = small.rows.tiles, small.cols.tiles
    tiles = down * across
    total: Counts = Counter()
    run = 0
    for row, rows in small.rows.firsts():
        for col, cols in small.cols.firsts():
            # Tiles are numbered along the side of the small factor first (skinny.cu).
            tile = row * across + col if family.tall(counting.config) else col * down + row
            of_tile = range(tile, blocks, tiles)
            add(total, counting.run(counting.problem, of_tile), rows * cols)
            run += len(of_tile)
    return total, run, True


def traffic_of(
    total: Counts, computes: bool, run: int, extrapolated: bool, exact: bool, notes: Sequence[str]
) -> Traffic:
    """The traffic of a launch from its counts.

    Args:
        total: of the launch.
        computes: whether operations were counted.
        run, extrapolated, exact, notes: see `Traffic`.
    """
    by_line: dict[tuple[SourceLine | None, str], dict[str, int]] = {}
    by_pipe: dict[str, Counter[str]] = {pipe: Counter() for pipe in PIPES}
    for (line, pipe, name), value in total.items():
        if pipe in by_pipe:
            by_line.setdefault((line, pipe), {})[name] = value
            by_pipe[pipe][name] += value
    lines = [Line(line, pipe, Group(**values)) for (line, pipe), values in by_line.items()]
    lines.sort(key=lambda line: -(line.group.sectors + line.group.wavefronts))
    operations = Operations(*(total[None, OPERATIONS, name] for name in ("ffma", "fmul", "fadd")))
    return Traffic(
        groups={pipe: Group(**values) for pipe, values in by_pipe.items()},
        lines=tuple(lines),
        operations=operations if computes else None,
        tile_bytes=total[None, TILES, "bytes"],
        blocks_run=run,
        extrapolated=extrapolated,
        exact=exact,
        notes=tuple(notes),
    )
