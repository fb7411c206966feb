"""The model that kernels are chosen by: what a config takes on a problem, as a linear form fitted to a survey.

    microseconds = sum of coefficient * term, times what trees say

Terms are counts that follow from sizes, orders, alignment and the config's tile: waves of blocks, steps along k, bytes.
Coefficients are those of one config on one GPU, none of them negative, and lie in the GPU's table. So do blocks that
run on a multiprocessor at a time, as far as its throughput shows it: where two share what one would use alone, one.
Trees (`select.trees`) are those of all configs together, and know a config by its tile alone.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.dtypes import FLOAT8, ITEM_BYTES
from tilewright.core.gpus import Gpu
from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Copying, Staging, Streaming, Warpgroups, Warps
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Addresses, lines_aligned
from tilewright.select.trees import Correction

Floats = NDArray[np.float64]

TERMS = (
    "launch", "factor_bytes", "result_bytes", "a_unaligned", "b_unaligned", "d_unaligned", "a_unaligned_bytes",
    "b_unaligned_bytes", "d_unaligned_bytes", "log_k", "bytes_past_l2", "steps_a_row", "steps_a_column", "steps_b_row",
    "steps_b_column", "steps_a_unaligned", "steps_b_unaligned", "waves", "waves_d_unaligned", "work", "l2_bytes",
    "steps_of_block", "log_waves",
)  # fmt: skip
"""Names of the terms of the linear form. Bytes count in megabytes. "steps" are those that one multiprocessor takes one
after the other, in whole waves of blocks; "work" is without what the last wave leaves idle."""

_BYTES = [number for number, name in enumerate(TERMS) if name.endswith("bytes") or name == "bytes_past_l2"]
_STEPS = [number for number, name in enumerate(TERMS) if name.startswith(("steps", "waves", "work"))]
_FACTOR_BYTES = TERMS.index("factor_bytes")
_MEGA = 1e6
_NEAR = 1.3
"""Predictions up to this many times the least are corrected."""
_KEPT_IN_L2 = 0.6
"""Share of the L2 cache that operands are found in."""
_MMA_PRODUCTS = 1024
"""Multiply-adds a clock that mma.sync makes of a multiprocessor's tensor cores at most: on Hopper half of wgmma's."""


class ProblemSizes(NamedTuple):
    """Sizes, orders and alignment that the time of a product follows from: numbers, or arrays, an element a problem."""

    m: Any
    n: Any
    k: Any
    batch: Any
    a_bytes: Any
    b_bytes: Any
    d_bytes: Any
    item: Any
    """Bytes of an element of A and B."""
    a_column: Any
    """Whether A is column-major."""
    b_column: Any
    a_unaligned: Any
    """Whether not every line of A starts at a multiple of 16 bytes."""
    b_unaligned: Any
    d_unaligned: Any

    @classmethod
    def of(cls, problem: Problem, addresses: Addresses = Addresses(), cached: str | None = None) -> "ProblemSizes":
        """The sizes of a problem.

        Args:
            problem: a product.
            addresses: of the operands.
            cached: the operand, A or B, whose aligned copy is cached where a kernel wants one.
        """
        m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
        factors, result, a, b = problem.arithmetic.factors, problem.arithmetic.result, problem.a, problem.b
        item = ITEM_BYTES[factors]
        a_bytes = item * m * k * (batch if a.batch_stride else 1)
        b_bytes = item * k * n * (batch if b.batch_stride else 1)
        return cls(
            m, n, k, batch, a_bytes, b_bytes, ITEM_BYTES[result] * m * n * batch, item,
            a.order == "column",
            b.order == "column",
            cached != "A" and not lines_aligned(a, m, k, factors, addresses.a),
            cached != "B" and not lines_aligned(b, k, n, factors, addresses.b),
            not lines_aligned(problem.d, m, n, result, addresses.d | addresses.c),
        )  # fmt: skip

    @property
    def unaligned(self) -> tuple[Any, Any, Any]:
        """Whether A, B and D are unaligned."""
        return self.a_unaligned, self.b_unaligned, self.d_unaligned

    @classmethod
    def joined(cls, several: Sequence["ProblemSizes"]) -> "ProblemSizes":
        """The sizes of several problems as arrays."""
        return cls(*(np.array(values, np.float64) for values in zip(*several, strict=True)))


class Grid(NamedTuple):
    """How a config divides a product among blocks: numbers, or arrays with an element a config."""

    rows: Any
    """Rows of D in a cluster's tiles."""
    cols: Any
    depth: Any
    """A step along k."""
    blocks: Any
    """Tiles of a cluster."""
    parts: Any
    """Blocks that divide the k of a tile."""
    shares: Any
    """Whether blocks share the tiles of the last wave evenly."""
    divides: Any
    """Whether as many blocks divide the k of each tile as run at a time."""
    sides: Any
    """Rows and columns of a block's tile together."""
    together: Any
    """Blocks that run on a multiprocessor at a time."""

    @classmethod
    def of(cls, kernel: Kernel, config: Config, together: float = 1) -> "Grid":
        """The grid of a config, on a GPU whose multiprocessors run `together` blocks at a time."""
        tile, family = kernel.tile(config), kernel.cost
        down = across = parts = 1
        if isinstance(family, Warpgroups):
            down, across, parts = family.cluster(config), family.across(config), family.splits(config)
        shares = isinstance(family, Copying) and family.workers(config) > 0
        divides = isinstance(family, Streaming)
        sides = tile.m + tile.n
        return cls(tile.m * down, tile.n * across, tile.k, down * across, parts, shares, divides, sides, together)


class StepCounts(NamedTuple):
    """Counts that follow from a grid and sizes."""

    tiles: Any
    """Tiles of blocks, those of clusters that lie beyond D among them."""
    steps: Any
    """Steps along k of all tiles."""
    longest: Any
    """Steps that one multiprocessor takes one after the other."""
    waves: Any
    work: Any
    """`longest`, without what the last wave leaves idle."""
    each: Any
    """Steps of a block."""

    @classmethod
    def of(cls, grid: Grid, sizes: ProblemSizes, gpu: Gpu) -> "StepCounts":
        """The counts of many configs on one problem, or of one config on many problems."""
        tiles = np.ceil(sizes.m / grid.rows) * np.ceil(sizes.n / grid.cols) * (grid.blocks * sizes.batch)
        steps, slots, parts = np.ceil(sizes.k / grid.depth), gpu.multiprocessors * grid.together, grid.parts
        if grid.divides is not False:
            most = np.minimum(slots // np.maximum(tiles, 1), steps)
            parts = np.where(grid.divides, np.maximum(most, 1), parts)
        each = np.ceil(steps / parts)
        filled = tiles * parts / slots
        work, waves = filled * each, np.ceil(filled)
        longest = waves * each
        if grid.shares is not False:
            waves = np.where(grid.shares, np.maximum(filled, 1), waves)
            longest = np.where(grid.shares, np.maximum(work, 1), longest)
            each = np.minimum(each, longest)
        return cls(tiles, tiles * steps, longest, waves, work, each)


def terms_of(grid: Grid, counts: StepCounts, sizes: ProblemSizes, gpu: Gpu) -> Floats:
    """The terms, one a row: of configs on a problem, or of a config on problems."""
    a, b, d = sizes.a_bytes / _MEGA, sizes.b_bytes / _MEGA, sizes.d_bytes / _MEGA
    unaligned_a, unaligned_b, unaligned_d = sizes.unaligned
    _, steps, longest, waves, work, each = counts
    return _rows(
        len(TERMS), counts, 1.0, a + b, d, *sizes.unaligned, unaligned_a * a, unaligned_b * b, unaligned_d * d,
        np.log2(1 + sizes.k), np.maximum(a + b + d - _KEPT_IN_L2 * gpu.l2_bytes / _MEGA, 0),
        longest * (1 - sizes.a_column), longest * sizes.a_column, longest * (1 - sizes.b_column),
        longest * sizes.b_column, longest * unaligned_a, longest * unaligned_b, waves, waves * unaligned_d, work,
        steps * sizes.item * (grid.sides * grid.depth / _MEGA), each, np.log2(np.maximum(waves, 1)),
    )  # fmt: skip


def _rows(rows: int, counts: StepCounts, *values: Any) -> Floats:
    """Values, one a row: of each config, or of each problem."""
    found = np.empty((rows, len(counts.each)))
    for number, value in enumerate(values):
        found[number] = value
    return found


FEATURES = 21
"""Numbers of a config on a problem that trees ask for."""


def features_of(grid: Grid, counts: StepCounts, sizes: ProblemSizes) -> Floats:
    """Numbers that trees ask for, one a row: of configs on a problem, or of a config on problems; none is empty."""
    tiles, steps, _, waves, work, each = counts
    m, n, k, batch = sizes.m, sizes.n, sizes.k, sizes.batch
    filled, covered = work / each, tiles * grid.rows * grid.cols
    return _rows(
        FEATURES, counts, m, n, k, batch, m * n * k * batch, sizes.a_column, sizes.b_column, *sizes.unaligned,
        filled, waves / filled, each, m * n * batch * grid.blocks / covered, k * tiles / (steps * grid.depth),
        grid.rows, grid.cols, grid.depth, grid.blocks, grid.parts, grid.together,
    )  # fmt: skip


class ConfigModel(NamedTuple):
    """A config's coefficients, by `TERMS`, and its blocks of a multiprocessor, on one GPU."""

    together: float
    coefficients: tuple[float, ...]


class Fitted(NamedTuple):
    """A config, and its model."""

    kernel: Kernel
    config: Config
    model: ConfigModel


def lent(kernel: Kernel, config: Config, fitted: Sequence[Fitted], measured_on: Gpu, gpu: Gpu) -> ConfigModel:
    """The model of a config on a GPU, by that of the most similar config that was fitted on some GPU.

    That is itself, if it was fitted. Else kernels that multiply where it does, on tensor cores or not, come first, then
    those of its cost family, then those that split factors as it does, and then those whose tile is nearest.
    """
    own = _likeness(kernel, config)

    def differs(one: Fitted) -> tuple[bool, bool, bool, bool, float]:
        of, other = one.kernel, _likeness(one.kernel, one.config)
        apart = sum(map(abs, map(float.__sub__, own.sides, other.sides)))
        if of is kernel:
            apart += sum(config[name] != value for name, value in one.config.items()) / 16
        first = of is not kernel, own.tensor_cores != other.tensor_cores, type(of.cost) is not type(kernel.cost)
        return *first, (of.split is None) != (kernel.split is None), apart

    nearest = next((one for one in fitted if one.kernel is kernel and one.config == config), None)
    nearest = nearest or min(fitted, key=differs)
    other = _likeness(nearest.kernel, nearest.config)
    slower = own.products / other.products * _rate(nearest.kernel, measured_on) / _rate(kernel, gpu)
    of_gpu = np.ones(len(TERMS))
    of_gpu[_STEPS] = slower * measured_on.clock_mhz / gpu.clock_mhz
    of_gpu[_BYTES] = measured_on.dram_gbs / gpu.dram_gbs
    of_gpu[_FACTOR_BYTES] *= own.moved / other.moved
    if nearest.kernel is not kernel:
        of_gpu *= _CAUTION if type(nearest.kernel.cost) is type(kernel.cost) else _CAUTION**4
    return ConfigModel(nearest.model.together, tuple((of_gpu * nearest.model.coefficients).tolist()))


class _Likeness(NamedTuple):
    """By what configs are alike."""

    sides: tuple[float, ...]
    """Logarithms of a tile's rows and columns, of the bytes of a step, and of blocks that share it."""
    products: float
    """Multiply-adds of a step, those of all products of parts, of elements of a byte."""
    tensor_cores: bool
    moved: float
    """Bytes that are moved for each byte of a factor: where it is split, more."""


@lru_cache(maxsize=1024)
def _likeness(kernel: Kernel, config: Config) -> _Likeness:
    tile, parts = kernel.tile(config), Grid.of(kernel, config).parts
    depth = tile.k * (ITEM_BYTES[kernel.split.dtype] if kernel.split else ITEM_BYTES[kernel.support.factors[0]])
    products = _PRODUCTS.get(kernel.support.precision or "", 1) * tile.m * tile.n * depth
    if isinstance(kernel.cost, Warpgroups) and kernel.cost.in_registers and kernel.support.factors == FLOAT8:
        products *= _HELD
    high, wide = (tile.n, tile.m) if kernel.swap_ab else (tile.m, tile.n)
    sides = tuple(math.log2(one) for one in (high, wide, depth, parts))
    moved = (1 + kernel.split.parts) * (_SCALED if kernel.split.scaled else 1) if kernel.split else 1.0
    return _Likeness(sides, products, _on_tensor_cores(kernel), moved)


_CAUTION = 1.05
"""How many times longer kernels that were not measured are expected to take; to the fourth where none of their cost
family was."""


_HELD = 1.2
"""How many times longer steps of float8 take where threads hand the tensor cores A in registers, and add up sums."""

_SCALED = 1.5
"""How many times longer splitting takes where elements are scaled: the largest of squares are looked for first."""

_PRODUCTS = {"bf16x6": 6, "bf16x3": 3.4, "fp16x3": 3.7}
"""Products of parts that make one, by a kernel's precision: the number that takes as long as these and all besides."""


def _on_tensor_cores(kernel: Kernel) -> bool:
    family = kernel.cost
    return isinstance(family, Warpgroups | Warps) or (isinstance(family, Staging) and family.tensor_cores)


def _rate(kernel: Kernel, gpu: Gpu) -> float:
    """Multiply-adds a clock of a multiprocessor, as far as a kernel can make them; of bytes where tensor cores do, so
    that a step of narrow elements has more of them."""
    sm = gpu.multiprocessor
    if not _on_tensor_cores(kernel):
        return sm.lanes
    products = sm.half_products or sm.lanes
    return products if isinstance(kernel.cost, Warpgroups) else min(products, _MMA_PRODUCTS)


class Models:
    """Configs that are compared on one GPU, their models side by side."""

    def __init__(
        self, gpu: Gpu, fitted: Sequence[Fitted], correction: Correction | None = None, corrected: Sequence[bool] = ()
    ) -> None:
        """Compare configs.

        Args:
            gpu, fitted: what is compared where.
            correction: of predictions.
            corrected: whether it was fitted to measurements of a config, by config.
        """
        self.gpu, self.fitted = gpu, fitted
        self._correction, self._corrected = correction, np.array(corrected)
        columns = zip(*(Grid.of(one.kernel, one.config, one.model.together) for one in fitted), strict=True)
        self._grid = Grid(*(np.array(column) if any(column) else False for column in columns))
        self._coefficients = np.array([one.model.coefficients for one in fitted]).T

    def us(self, sizes: ProblemSizes) -> Floats:
        """Microseconds that each config is expected to take: `terms_of`, times the coefficients, and corrected where
        that is not far above the least."""
        counts = StepCounts.of(self._grid, sizes, self.gpu)
        found: Floats = (terms_of(self._grid, counts, sizes, self.gpu) * self._coefficients).sum(axis=0)
        if self._correction and sizes.m * sizes.n * sizes.k:
            near = np.flatnonzero(self._corrected & (found <= _NEAR * found.min()))
            found[near] *= self._correction.factors(features_of(self._grid, counts, sizes)[:, near])
        return found
