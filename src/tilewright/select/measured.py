"""Measurements of a case in the tables, as arrays: times of kernels and configs by problem, and how far the cost model
was off.

The model is asked of few configs near one problem alone, when they are candidates for the first time.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.gpus import Gpu, find_gpu
from tilewright.kernels import find
from tilewright.kernels.config import Config
from tilewright.kernels.support import PROMISES
from tilewright.select.cost.comparing import CostModels
from tilewright.select.cost.prediction import CostModel, Dims
from tilewright.select.counted import Counted, that_count
from tilewright.select.positions import Flags, Floats, Numbers, Positions
from tilewright.select.tables import store
from tilewright.select.tables.cases import Case
from tilewright.select.tables.merging import NEAR, fewest
from tilewright.select.tables.table import Table, config_of

_FALL = 0.02
"""A config has 1/e of the vote of the fastest on a problem where the logarithm of its time is larger by this much."""

_UNKNOWN = 0.1
"""Weight of the assumption that the cost model is off by as much as it usually is."""


class Choices(NamedTuple):
    """Choices among which is chosen."""

    numbers: list[int]
    """Numbers of the choices, as in `Tabled`."""
    facts: Floats
    """One fact of all choices behind the other, a row for each problem: the choice's vote; the logarithm of its
    measured over its predicted time, NaN where these were not compared yet, 0 where it was not measured; 1 where it was
    measured; 1 where it errs much more than cuBLAS."""

    def sums(self, rows: Numbers, weights: Floats) -> list[float]:
        """The facts of all choices, summed over problems with their weights."""
        found: list[float] = weights.dot(self.facts.take(rows, 0)).tolist()
        return found


def _next_to(facts: Iterable[NDArray[Any]], choices: Numbers) -> Floats:
    """Facts of these choices, one fact of all behind the other."""
    return np.ascontiguousarray(np.concatenate([fact[:, choices] for fact in facts], axis=1), np.float64)


class Tabled(Positions):
    """Tabled times of one case. Arrays are problems x choices; the time of what was not measured is NaN."""

    def __init__(self, gpu: Gpu, case: Case, counted: Counted, cached: str | None = None) -> None:
        """Arrange measurements.

        Args:
            gpu: what is selected for.
            case: what was measured.
            counted: the measurements.
            cached: the operand, A or B, whose copy is to count as cached: times are made shorter by as much as the cost
                model says.
        """
        super().__init__(case, counted.sizes)
        kernels = {name: find(name) for name in {kernel for kernel, _, _ in counted.choices}}
        self.kernels = [kernels[kernel] for kernel, _, _ in counted.choices]
        self.precisions = frozenset(kernel.support.precision for kernel in kernels.values())
        self._choices, self._configs = counted.choices, dict[int, Config]()
        of_tables = [find_gpu(table.gpu, table.capability) for table in counted.tables]
        self._gpu_of_row = [of_tables[number] for number in counted.table.tolist()]
        self._models = {one: CostModels(partial(self._model, one), len(self.kernels)) for one in {gpu, *of_tables}}
        self._cached = cached
        self.models = self._models[gpu]
        times_us = counted.times_us / _slow_downs(counted)
        shape = len(counted.sizes), len(self.kernels)
        self.times, accurate = np.full(shape, np.nan), np.zeros(shape, np.bool_)
        slowest_first = np.argsort(-times_us, kind="stable")  # of several of one choice the fastest counts
        cell = counted.row[slowest_first], counted.choice[slowest_first]
        self.times[cell], accurate[cell] = times_us[slowest_first], counted.accurate[slowest_first]
        self.known: Flags = ~np.isnan(self.times)
        self.inaccurate: Flags = self.known & ~accurate
        if cached:
            self._shorten()
        votes, few = self._votes()
        others = np.ones(shape[1], np.bool_)
        others[few] = False
        facts = votes, np.where(self.known, np.nan, 0.0), self.known, self.inaccurate
        groups = np.array(sorted(few), np.intp), np.flatnonzero(others)
        self.groups = tuple(Choices(group.tolist(), _next_to(facts, group)) for group in groups)
        """The fewest choices of which one is near the fastest on every problem, since a choice among few goes wrong
        less often; and all others, for problems that none of these takes."""

    def config(self, number: int) -> Config:
        """The config of a choice."""
        found = self._configs.get(number)
        if found is None:
            found = self._configs[number] = config_of(self._choices[number])
        return found

    def ranked(self, row: int) -> list[int]:
        """The choices that were measured on a problem, what errs little first, then the fastest."""
        numbers = np.flatnonzero(self.known[row])
        order = np.lexsort((self.times[row, numbers], self.inaccurate[row, numbers]))
        ranked: list[int] = numbers[order].tolist()
        return ranked

    def expected(
        self, group: Choices, positions: list[int], sums: list[float], sizes: Dims, rows: Numbers, weights: Floats
    ) -> list[tuple[int, float, bool]]:
        """Times that choices should take on a problem: the cost model's, corrected by how far it was off nearby.

        Args:
            group: where the choices are.
            places: the choices' places in the group.
            sums: `Choices.sums` of the next two.
            sizes: the problem.
            rows, weights: tabled problems near it.

        Returns:
            Each choice, microseconds, and whether it errs much more than cuBLAS. Choices of which the GPU cannot hold a
            block are left out.
        """
        count = len(group.numbers)
        off_by = sum([sums[count + position] for position in positions])
        if off_by != off_by:  # NaN: not all were compared with the model
            self._compare(group, positions, rows)
            sums = group.sums(rows, weights)
        found = []
        numbers = [group.numbers[position] for position in positions]
        for position, number, us in zip(positions, numbers, self.models.us(sizes, numbers), strict=True):
            if us < math.inf:
                certain = sums[2 * count + position] + _UNKNOWN
                us *= math.exp((_UNKNOWN * self._usual + sums[count + position]) / certain)
                found.append((number, us, sums[3 * count + position] > certain / 2))
        return found

    def factors(self) -> dict[str, list[float]]:
        """By kernel, all measured over predicted times."""
        found: dict[str, list[float]] = {}
        for group in self.groups:
            count = len(group.numbers)
            self._compare(group, list(range(count)), np.arange(len(self.times)))
            for position, number in enumerate(group.numbers):
                errors = group.facts[group.facts[:, 2 * count + position] > 0, count + position]
                if len(errors):
                    found.setdefault(self.kernels[number].name, []).extend(np.exp(errors).tolist())
        return found

    @cached_property
    def _usual(self) -> float:
        """The logarithm of measured over predicted times that a choice has of which nothing is known."""
        factors = shipped_factors(self._case.factors)
        off_by = {kernel: math.log(factors.get(kernel.name, 1.0)) for kernel in set(self.kernels)}
        of_kernels = [off_by[kernel] for kernel in self.kernels]
        measured: list[float] = np.repeat(of_kernels, self.known.sum(axis=0)).tolist()
        return statistics.median(measured)  # NumPy's imports numpy.ma

    def _model(self, gpu: Gpu, number: int) -> CostModel:
        return CostModel(self.kernels[number], self.config(number), gpu)

    def _compare(self, group: Choices, positions: list[int], rows: Numbers) -> None:
        """Find the logarithms of measured over predicted times of rows and choices, where they were not found yet."""
        count = len(group.numbers)
        for row in rows.tolist():
            missing = np.isnan(group.facts[row, count : 2 * count]).tolist()
            if asked := [position for position in positions if missing[position]]:
                numbers = [group.numbers[position] for position in asked]
                us = np.array(self._models[self._gpu_of_row[row]].us(self.sizes(row, self._cached), numbers))
                held = np.isfinite(us)  # else the model says that the GPU cannot hold a block: that tells nothing
                errors = np.log(self.times[row, numbers], out=np.zeros(len(us)), where=held)
                errors[held] -= np.log(us[held])
                group.facts[row, [count + position for position in asked]] = errors
                for position in np.array(asked)[~held].tolist():
                    group.facts[row, position::count] = 0.0

    def _shorten(self) -> None:
        """Leave out of times what the model says that copies of the cached operand take."""
        copying = [
            number
            for number, kernel in enumerate(self.kernels)
            if kernel.split or kernel.relayouts(self.config(number)) is not None
        ]
        for row in range(len(self.times)):
            if numbers := [number for number in copying if self.known[row, number]]:
                less, more = (self.models.us(self.sizes(row, cached), numbers) for cached in (self._cached, None))
                self.times[row, numbers] *= np.array(less) / np.array(more)

    def _votes(self) -> tuple[Floats, list[int]]:
        """How near each choice comes to the fastest on a problem: 1 for the fastest, 0 for what was not measured; and
        the fewest choices of which one is near the fastest on every problem.

        What errs much more than cuBLAS has none, unless all that was measured on the problem does.
        """
        times = np.where(self.known, self.times, np.inf)
        accurate = np.where(self.inaccurate, np.inf, times)
        times = np.where(np.isinf(accurate).all(axis=1, keepdims=True), times, accurate)
        slower = times / np.minimum(times.min(axis=1, initial=np.inf, keepdims=True), np.finfo(float).max)
        votes = np.zeros(times.shape)
        finite = np.isfinite(slower)
        votes[finite] = slower[finite] ** (-1 / _FALL)
        return votes, fewest(slower <= NEAR)


def _slow_downs(counted: Counted) -> Floats:
    """How many times longer runs took because the GPU was slower that day than in the first run of the problem: cuBLAS,
    which was timed next to each, tells, in TF32 next to kernels that round to it. 1 where it was not timed."""
    timed = np.flatnonzero(~np.isnan(counted.baseline_gflops))
    of = 2 * counted.row + counted.rounds
    firsts = np.ones(2 * len(counted.sizes))
    firsts[of[timed[::-1]]] = counted.baseline_gflops[timed[::-1]]
    return np.where(np.isnan(counted.baseline_gflops), 1.0, firsts[of] / counted.baseline_gflops)


def tables_of(device: str, capability: tuple[int, int]) -> tuple[Table, ...]:
    """The tables of a GPU, and after them those that ship of other GPUs of its compute capability."""
    own = store.load(device) if device else ()
    return *own, *(one for one in store.shipped() if one.capability == capability and one.gpu != device)


@lru_cache
def measured(
    device: str, capability: tuple[int, int], case: Case, promise: str | None, cached: str | None, order: str | None
) -> Tabled | None:
    """Measurements in `tables_of` a GPU of a case and of kernels that meet a precision; None where there are none.

    cached: the operand, A or B, whose copy is cached. order: only configs that have this `Sums.order`; None for all.

    On a problem that the user tuned, only what the user measured counts: `tune` times both ways.
    """
    counted = that_count(tables_of(device, capability), case, promise, order)
    return None if counted is None else Tabled(find_gpu(device, capability), case, counted, cached)


@lru_cache
def nearest_measured(
    device: str, capability: tuple[int, int], case: Case, promise: str | None, cached: str | None, order: str | None
) -> tuple[Tabled | None, bool]:
    """Measurements of a case, or else of the nearest, and whether they are its own.

    The nearest has the same factors; then the same orders, the same of B, which is the large one where rows are few,
    row-major operands, and the same result.
    """
    asked = promise, cached, order
    if own := measured(device, capability, case, *asked):
        return own, True
    texts = (text for table in tables_of(device, capability) for text in table.cases)
    alike = dict.fromkeys(one for text in texts for one in (Case.parse(text), Case.parse(text).same_speed))
    nearest_first = sorted(
        (one for one in alike if one.factors == case.factors),
        key=lambda one: (
            one.layout != case.layout,
            one.layout[1] != case.layout[1],
            one.layout != "NN",
            one.result != case.result,
        ),
    )
    found = (measured(device, capability, one, *asked) for one in nearest_first)
    return next((one for one in found if one), None), False


@lru_cache
def shipped_factors(dtype: str) -> Mapping[str, float]:
    """By kernel, the median of its measured over its predicted times, with factors of a type, in a table that ships."""
    found: dict[str, float] = {}
    for table in store.shipped():
        found = {**table.factors.get(dtype, {}), **found}
    return found


def factors(table: Table) -> dict[str, dict[str, float]]:
    """How far the cost model is off on all of a table's problems: see `Table.factors`."""
    gpu, by_dtype = find_gpu(table.gpu, table.capability), dict[str, dict[str, list[float]]]()
    for case in dict.fromkeys(map(Case.parse, table.cases)):
        if counted := that_count([table], case, PROMISES[-1]):
            of_dtype = by_dtype.setdefault(case.factors, {})
            for kernel, found in Tabled(gpu, case, counted).factors().items():
                of_dtype.setdefault(kernel, []).extend(found)
    return {
        dtype: {kernel: round(statistics.median(of), 3) for kernel, of in sorted(kernels.items())}
        for dtype, kernels in sorted(by_dtype.items())
    }
