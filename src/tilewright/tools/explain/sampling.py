"""Which blocks of a launch to run, and at which depths, so that the counts of all of them follow.

Blocks that compute tiles of C alike count alike: those with the same extents within the matrices, whose rows and
columns begin equally far from a sector's boundary. And along k the counts grow by the same steps, once every stage of a
pipeline is filled. So a small problem with the same leading dimensions, of one block of each kind, at three depths,
gives the counts of a large one: two depths give the step, the third shows that it is the same again.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.hardware import SECTOR_BYTES, ceil_div
from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Kernel, Tile


@dataclass(frozen=True)
class SamplingPlan:
    """Blocks and depths to run instead of a whole launch whose blocks have a tile of C each."""

    small: Problem
    """The whole problem's leading dimensions, but fewer rows and columns; its k is that of the whole problem."""
    kinds: Mapping[tuple[int, int], int]
    """By the row and column of a tile in the small problem, how many blocks of the whole launch count like its."""
    depths: tuple[int, ...]
    """Values of k: the whole problem's, or three in equal steps from which it follows."""
    rows: "Axis"
    cols: "Axis"

    def at(self, depth: int) -> Problem:
        """The small problem with this many elements along k."""
        return replace(self.small, k=depth)

    def steps(self, k: int) -> int:
        """How many steps between two depths lead from the first to k."""
        return (k - self.depths[0]) // (self.depths[1] - self.depths[0]) if len(self.depths) > 1 else 0


def tile_of_cluster(kernel: Kernel, config: Config) -> Tile:
    """Tile that the blocks of a cluster compute together: tiles next to each other, or one, whose k they divide."""
    tile, family = kernel.tile(config), kernel.cost
    if not isinstance(family, Warpgroups):
        return tile
    return tile._replace(m=tile.m * family.cluster(config), n=tile.n * family.across(config))


def plan(kernel: Kernel, config: Config, problem: Problem, tiles_k: int = 1) -> SamplingPlan:
    """Plan of the runs for a kernel each of whose blocks, or clusters, computes a tile of C.

    tiles_k: how many of a tile's k the depths are apart at least, where a kernel goes further in a step than is known.
    """
    tile, item, result_item = tile_of_cluster(kernel, config), ITEM_BYTES[problem.dtype], ITEM_BYTES[problem.result]
    a_lines, b_lines = problem.a.ld * item, problem.b.ld * item
    a_along_m, a_along_k = (a_lines, item) if problem.a.order == "row" else (item, a_lines)
    b_along_k, b_along_n = (b_lines, item) if problem.b.order == "row" else (item, b_lines)
    rows = Axis(problem.m, tile.m, (a_along_m, problem.d.ld * result_item))
    cols = Axis(problem.n, tile.n, (b_along_n, result_item))
    small = replace(problem, m=rows.fewest, n=cols.fewest)
    kinds = {(row, col): row_count * col_count for row, row_count in rows.kinds() for col, col_count in cols.kinds()}
    step = tiles_k * tile.k
    depths = _depths(problem.k, step, (a_along_k, b_along_k), (config.get("STAGES", 1) + 1) * step)
    return SamplingPlan(small, kinds, depths, rows, cols)


@dataclass(frozen=True)
class Axis:
    """The tiles of C along its rows or columns."""

    extent: int
    tile: int
    strides: tuple[int, ...]
    """Bytes from one element along this axis to the next, in each matrix that has the axis."""

    @property
    def period(self) -> int:
        """Elements after which tiles begin as far from a sector's boundary as before."""
        return self.tile * _period(self.tile, self.strides)

    @property
    def fewest(self) -> int:
        """The smallest extent at which tiles of all kinds are there."""
        return min(self.extent, self.period + self.extent % self.period)

    @property
    def small_tiles(self) -> int:
        return ceil_div(self.fewest, self.tile)

    @property
    def tiles(self) -> int:
        """How many the whole problem has."""
        return ceil_div(self.extent, self.tile)

    def kinds(self) -> Iterator[tuple[int, int]]:
        """For each kind of tile: a place where the small problem has one, and how many the whole problem has."""
        for first, count in self.firsts():
            yield self.place(first), count

    def firsts(self) -> Iterator[tuple[int, int]]:
        """For each kind of tile: the first place where the whole problem has one, and how many it has."""
        whole, rest = divmod(self.extent, self.tile)
        different = min(self.period // self.tile, whole)
        found: dict[tuple[int, ...], tuple[int, int]] = {}
        for place in range(different):
            key = self._key(place * self.tile, self.extent)
            first, count = found.get(key, (place, 0))
            found[key] = first, count + ceil_div(whole - place, different)
        if rest:
            key = self._key(whole * self.tile, self.extent)
            first, count = found.get(key, (whole, 0))
            found[key] = first, count + 1
        yield from found.values()

    def place(self, number: int) -> int:
        """A place where the small problem has a tile like the whole problem's of this number."""
        return self._places[self._key(number * self.tile, self.extent)]

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {self._key(place * self.tile, self.fewest): place for place in range(self.small_tiles)}

    def _key(self, first: int, extent: int) -> tuple[int, ...]:
        return min(self.tile, extent - first), *(first * stride % SECTOR_BYTES for stride in self.strides)


def _period(tile: int, strides: tuple[int, ...]) -> int:
    """Tiles after which all strides lead to a sector's boundary again."""
    return math.lcm(*(SECTOR_BYTES // math.gcd(SECTOR_BYTES, tile * stride) for stride in strides))


def _depths(k: int, step: int, strides: tuple[int, ...], least: int) -> tuple[int, ...]:
    unit = step * _period(step, strides)
    first = k % unit
    while first < least:
        first += unit
    depths = (first, first + unit, first + 2 * unit)
    return depths if depths[-1] < k else (k,)
