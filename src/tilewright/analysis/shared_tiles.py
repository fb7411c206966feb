"""Counts of launches in which several blocks compute a tile of D: those whose last tiles workers share (`schedule.py`),
and those whose blocks divide k evenly (`Streaming`).

Along k a tile's counts grow by equal steps, whoever makes them. Besides these, a tile that workers share counts what
each of them does before and after its steps, and the partial sums that they store and load, which only depends on how
many they are. So a tile of each kind is run for each number of workers, with the least k that has a step for each.
"""

from collections import Counter

from tilewright.analysis.block_counts import BlockCounts, Counts, add
from tilewright.analysis.sampling import Plan, plan
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem
from tilewright.kernels.families import Streaming
from tilewright.kernels.library import schedule
from tilewright.kernels.spec import Config, Division


def with_workers(counting: BlockCounts) -> tuple[Counts, int, bool]:
    """Counts of a launch whose last tiles workers share; how many blocks were run, and whether the counts are exact."""
    kernel, config, problem, multiprocessors = (
        counting.kernel,
        counting.config,
        counting.problem,
        counting.multiprocessors,
    )
    division = schedule.divide(problem, config, multiprocessors)
    small = plan(kernel, config, problem)
    steps_of_k = small.steps(problem.k)

    def sharing(workers: int, blocks: int) -> BlockCounts:
        chosen = Config({**config, "WORKERS": workers, **({"BUNDLE": 1} if "BUNDLE" in config else {})})
        return BlockCounts(kernel, chosen, problem, counting.widths, counting.scalars, blocks)

    of_kind, run, exact = sharing(0, multiprocessors).of_kinds(small)
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


def _tiles(small: Plan, division: Division, problem: Problem, config: Config) -> Counter[tuple[tuple[int, int], int]]:
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


def _depth(small: Plan, workers: int, deep: int) -> tuple[int, int]:
    """The least k at which a tile has a step for each of its workers, at most the whole problem's, and how many of the
    plan's steps lead to it."""
    if len(small.depths) == 1:
        return small.depths[0], 0
    first, step = small.depths[0], small.depths[1] - small.depths[0]
    steps = max(ceil_div(workers * deep - first, step), 0)
    depth, whole = first + steps * step, small.small.k
    return (depth, steps) if depth <= whole else (whole, small.steps(whole))


def divided(counting: BlockCounts, blocks: int, family: Streaming) -> tuple[Counts, int, bool]:
    """The same of a launch whose blocks divide k evenly: all blocks of one tile of each kind are run."""
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
