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
from tilewright.kernels.cost_family import Staging, Streaming, Warpgroups, Warps
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Addresses, lines_aligned
from tilewright.select.trees import Correction

Floats = NDArray[np.float64]

_EACH, _WAVES, _LONGEST, _FILLED, _WORK, _L2_BYTES, _LOG_WAVES, _ONE = range(8)
_A, _B, _FACTORS, _D, _LOG_K, _PAST_L2, _M, _N, _K, _BATCH = range(10, 20)
"""Rows of `Grids.counts` that terms are made of, and those of sizes."""

_COUNTED = {
    "launch": _ONE, "factor_bytes": _FACTORS, "result_bytes": _D, "a_unaligned": _ONE, "b_unaligned": _ONE,
    "d_unaligned": _ONE, "a_unaligned_bytes": _A, "b_unaligned_bytes": _B, "d_unaligned_bytes": _D, "log_k": _LOG_K,
    "bytes_past_l2": _PAST_L2, "steps_a_row": _LONGEST, "steps_a_column": _LONGEST, "steps_b_row": _LONGEST,
    "steps_b_column": _LONGEST, "steps_a_unaligned": _LONGEST, "steps_b_unaligned": _LONGEST, "waves": _WAVES,
    "waves_d_unaligned": _WAVES, "work": _WORK, "l2_bytes": _L2_BYTES, "steps_of_block": _EACH, "log_waves": _LOG_WAVES,
}  # fmt: skip
"""By the names of `TERMS`, the rows that they are, times `ProblemSizes.factors`."""

TERMS, _COUNTED_ROWS = tuple(_COUNTED), np.array(list(_COUNTED.values()))
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
    """Sizes, orders and alignment that the time of a product follows from; of one without results, of one of one."""

    m: int
    n: int
    k: int
    batch: int
    a_bytes: int
    b_bytes: int
    d_bytes: int
    item: int
    """Bytes of an element of A and B."""
    columns: tuple[bool, bool]
    """Whether A and B are column-major."""
    unaligned: tuple[bool, bool, bool]
    """Whether not every line of A, of B and of D starts at a multiple of 16 bytes."""

    @classmethod
    def of(cls, problem: Problem, addresses: Addresses = Addresses(), cached: str | None = None) -> "ProblemSizes":
        """The sizes of a problem.

        Args:
            problem: a product.
            addresses: of the operands.
            cached: the operand, A or B, whose aligned copy is cached where a kernel wants one.
        """
        m, n, k, batch = problem.m or 1, problem.n or 1, problem.k, problem.batch or 1
        factors, result, a, b = problem.arithmetic.factors, problem.arithmetic.result, problem.a, problem.b
        item = ITEM_BYTES[factors]
        a_bytes = item * m * k * (batch if a.batch_stride else 1)
        b_bytes = item * k * n * (batch if b.batch_stride else 1)
        unaligned = (
            cached != "A" and not lines_aligned(a, m, k, factors, addresses.a),
            cached != "B" and not lines_aligned(b, k, n, factors, addresses.b),
            not lines_aligned(problem.d, m, n, result, addresses.d | addresses.c),
        )
        columns, d_bytes = (a.order == "column", b.order == "column"), ITEM_BYTES[result] * m * n * batch
        return cls(m, n, k, batch, a_bytes, b_bytes, d_bytes, item, columns, unaligned)

    def numbers(self, gpu: Gpu) -> Floats:
        """Numbers of a problem for `Grids.counts`, a column: sizes to be covered, of terms, and of features."""
        m, n, k, batch, a_bytes, b_bytes, d_bytes, *_ = self
        results, a, b, d = m * n * batch, a_bytes / _MEGA, b_bytes / _MEGA, d_bytes / _MEGA
        past_l2 = max(a + b + d - _KEPT_IN_L2 * gpu.l2_bytes / _MEGA, 0.0)
        terms, features = (a, b, a + b, d, math.log2(1 + k), past_l2), (m, n, k, batch, results * k)
        numbers = results, k, *terms, *features, *self.columns, *self.unaligned
        return np.array(numbers, np.float64)[:, None]

    @property
    def factors(self) -> list[float]:
        """Multipliers of `TERMS`: orders, alignment and the size of an element."""
        (a, b), unaligned = self.columns, self.unaligned
        orders = not a, a, not b, b
        return [1, 1, 1, *unaligned, *unaligned, 1, 1, *orders, *unaligned[:2], 1, unaligned[2], 1, self.item, 1, 1]


def blocks_along_k(kernel: Kernel, config: Config) -> int:
    """Blocks that divide the k of a tile, whatever the problem."""
    return kernel.cost.splits(config) if isinstance(kernel.cost, Warpgroups) else 1


@lru_cache(maxsize=1024)
def _grid(kernel: Kernel, config: Config, together: float) -> tuple[float, ...]:
    """How a config divides a product among blocks, on a GPU whose multiprocessors run `together` blocks at a time.

    Returns: rows and columns of D in a cluster's tiles, a step along k, tiles of a cluster, `blocks_along_k`,
    `together`, rows and columns of a block's tile together, whether blocks share the tiles of the last wave evenly, and
    whether as many blocks divide the k of each tile as run at a time.
    """
    tile, family = kernel.tile(config), kernel.cost
    down, across = (family.cluster(config), family.across(config)) if isinstance(family, Warpgroups) else (1, 1)
    shares, divides = family.workers(config) > 0, isinstance(family, Streaming)
    of_cluster = tile.m * down, tile.n * across, tile.k, down * across
    return *of_cluster, blocks_along_k(kernel, config), together, tile.m + tile.n, shares, divides


FEATURES = 21
"""Numbers of a config on a problem that trees ask for."""

_OF_TERMS, _OF_FEATURES, _OF_PROBLEM, _TO_COVER = slice(16), slice(16, 16 + FEATURES), slice(8, 26), slice(8, 10)
_FILLED_FEATURE, _IDLE, _EACH_FEATURE, _FULL, _OF_GRID = 26, 27, 28, slice(29, 31), slice(31, 37)
_TILED, _TILES_AND_STEPS = slice(37, 40), slice(38, 40)
"""Rows of `Grids.counts`."""


class Grids:
    """Grids of configs on a GPU, side by side; of each config with the blocks that a multiprocessor runs at a time."""

    def __init__(self, configs: Sequence[tuple[Kernel, Config, float]], gpu: Gpu) -> None:
        columns = np.array(list(zip(*(_grid(*one) for one in configs), strict=True)), np.float64)
        rows, cols, depth, blocks, self._parts, together, sides, shares, divides = columns
        self._spans, self._covered = columns[:3], np.array((rows * cols, depth))
        self._slots = gpu.multiprocessors * together / blocks
        self._step_bytes = blocks * sides * depth / _MEGA
        self._shares = np.array((shares, shares)) > 0 if shares.any() else None
        self._dividing = self._slots * divides
        self._counts = np.ones((_TILED.stop, len(configs)))
        self._counts[_OF_GRID] = columns[:6]

    def counts(self, numbers: Floats) -> Floats:
        """Counts that terms and features are made of, one a row.

        numbers: of one problem, or a column for each config, of a problem of its own.
        """
        found = self._counts.copy()
        found[_OF_PROBLEM] = numbers
        down, tiles, steps = np.ceil(found[_M : _K + 1] / self._spans, found[_TILED])
        tiles *= down
        tiles *= found[_BATCH]
        parts = np.maximum(np.minimum(np.floor(self._dividing / tiles), steps), self._parts)
        filled = np.divide(tiles * parts, self._slots, found[_FILLED])
        waves, each = np.ceil(filled, found[_WAVES]), np.ceil(steps / parts, found[_EACH])
        np.multiply(filled, each, found[_WORK])
        longest = np.multiply(waves, each, found[_LONGEST])
        if self._shares is not None:
            np.copyto(found[_WAVES : _LONGEST + 1], np.maximum(found[_FILLED : _WORK + 1], 1.0), where=self._shares)
            np.minimum(each, longest, out=each)
        np.multiply(tiles * steps, self._step_bytes, found[_L2_BYTES])
        np.log2(waves, found[_LOG_WAVES])
        return found

    def features(self, counts: Floats) -> Floats:
        """Numbers that trees ask for, one a row, of counts; where k > 0."""
        each, filled = counts[_EACH], counts[_FILLED_FEATURE]
        np.divide(counts[_WORK], each, filled)
        np.divide(counts[_WAVES], filled, counts[_IDLE])
        counts[_EACH_FEATURE] = each
        np.divide(counts[_TO_COVER], counts[_TILES_AND_STEPS] * self._covered, counts[_FULL])
        return counts[_OF_FEATURES]


def terms_of(counts: Floats, factors: Floats) -> Floats:
    """The terms, one a row, of counts and `ProblemSizes.factors`, a column for each problem."""
    return counts.take(_COUNTED_ROWS, axis=0) * factors


class Fitted(NamedTuple):
    """A config, and its model on one GPU."""

    kernel: Kernel
    config: Config
    together: float
    """Blocks that run on a multiprocessor at a time."""
    coefficients: tuple[float, ...]
    """By `TERMS`."""


def lent(kernel: Kernel, config: Config, fitted: Sequence[Fitted], measured_on: Gpu, gpu: Gpu) -> Fitted:
    """The model of a config on a GPU, by that of the most similar config that was fitted on some GPU.

    That is itself, if it was fitted. Else kernels that multiply where it does, on tensor cores or not, come first, then
    those of its cost family, then those that split factors as it does, and then those whose tile is nearest.
    """
    nearest = next((one for one in fitted if one.kernel is kernel and one.config == config), None)
    if nearest and measured_on == gpu:
        return nearest
    products, moved, *sides = _likeness(kernel, config)

    def differs(one: Fitted) -> tuple[bool, bool, bool, bool, float]:
        of, (_, _, *other) = one.kernel, _likeness(one.kernel, one.config)
        apart = sum(map(abs, map(float.__sub__, sides, other)))
        if of is kernel:
            apart += sum(config[name] != value for name, value in one.config.items()) / 16
        elsewhere = _on_tensor_cores(of) != _on_tensor_cores(kernel)
        first = of is not kernel, elsewhere, type(of.cost) is not type(kernel.cost)
        return *first, (of.split is None) != (kernel.split is None), apart

    nearest = nearest or min(fitted, key=differs)
    its_products, its_moved, *_ = _likeness(nearest.kernel, nearest.config)
    slower = products / its_products * _rate(nearest.kernel, measured_on) / _rate(kernel, gpu)
    of_gpu = np.ones(len(TERMS))
    of_gpu[_STEPS] = slower * measured_on.clock_mhz / gpu.clock_mhz
    of_gpu[_BYTES] = measured_on.dram_gbs / gpu.dram_gbs
    of_gpu[_FACTOR_BYTES] *= moved / its_moved
    if nearest.kernel is not kernel:
        of_gpu *= _CAUTION if type(nearest.kernel.cost) is type(kernel.cost) else _CAUTION**4
    return Fitted(kernel, config, nearest.together, tuple((of_gpu * nearest.coefficients).tolist()))


@lru_cache(maxsize=1024)
def _likeness(kernel: Kernel, config: Config) -> tuple[float, ...]:
    """Numbers by which configs are alike.

    Returns: multiply-adds of a step, those of all products of parts, of elements of a byte; bytes that are moved for
    each byte of a factor, more where it is split; and logarithms of a tile's rows and columns, of the bytes of a step,
    and of blocks that divide the tile's k.
    """
    tile, parts = kernel.tile(config), blocks_along_k(kernel, config)
    depth = tile.k * (ITEM_BYTES[kernel.split.dtype] if kernel.split else ITEM_BYTES[kernel.support.factors[0]])
    products = _PRODUCTS.get(kernel.support.precision or "", 1) * tile.m * tile.n * depth
    if isinstance(kernel.cost, Warpgroups) and kernel.cost.in_registers and kernel.support.factors == FLOAT8:
        products *= _HELD
    high, wide = (tile.n, tile.m) if kernel.swap_ab(config) else (tile.m, tile.n)
    moved = (1 + kernel.split.parts) * (_SCALED if kernel.split.scaled else 1) if kernel.split else 1.0
    return products, moved, *map(math.log2, (high, wide, depth, parts))


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
        self, gpu: Gpu, fitted: Sequence[Fitted], trees: Correction | None = None, measured: Sequence[bool] = (True,)
    ) -> None:
        """Compare configs.

        Args:
            gpu, fitted: what is compared where.
            trees: what predictions are corrected by.
            measured: whether trees were fitted to measurements of a config: by config, or one for all.
        """
        self.gpu, self.fitted = gpu, fitted
        self._trees, self._within = trees, np.where(measured, _NEAR, -1.0)
        self._grids = Grids([one[:3] for one in fitted], gpu)
        self._coefficients = np.array([one.coefficients for one in fitted])
        self._by_kind: dict[tuple[Any, ...], Floats] = {}

    def us(self, sizes: ProblemSizes) -> Floats:
        """Microseconds that each config is expected to take: terms times coefficients, and corrected where that is not
        far above the least."""
        counts = self._grids.counts(sizes.numbers(self.gpu))
        found: Floats = np.vecdot(counts[_OF_TERMS].T, self._weights(sizes))
        if self._trees and sizes.k:
            near = (found <= self._within * found[found.argmin()]).nonzero()[0]
            found[near] *= self._trees.factors(self._grids.features(counts).take(near, axis=1))
        return found

    def _weights(self, sizes: ProblemSizes) -> Floats:
        """Multipliers of counts, a column each, for problems of these orders and alignment."""
        kind = sizes[7:]
        if kind not in self._by_kind:
            of_row = _COUNTED_ROWS[:, None] == np.arange(_OF_TERMS.stop)
            self._by_kind[kind] = (self._coefficients * sizes.factors) @ of_row
        return self._by_kind[kind]
