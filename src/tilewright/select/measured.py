"""What tables say, as arrays: measured times of kernels and configs by problem, and how far the cost model was off.

Problems are grouped by orders and element types: bias and activation do not matter to the speed. Neither does the
precision that a problem promises: it decides which kernels' times count.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.analysis.comparing import CostModels
from tilewright.analysis.cost import CostModel, Sizes
from tilewright.gpus import Gpu, find_gpu
from tilewright.kernels import find
from tilewright.kernels.old_configs import upgraded
from tilewright.kernels.spec import PROMISES, Config, Kernel
from tilewright.problem import Problem
from tilewright.tables.cover import NEAR, fewest

if TYPE_CHECKING:
    from tilewright.tables.table import Entry, Table

_FALL = 0.02
"""A config has 1/e of the vote of the fastest on a problem where the logarithm of its time is larger by this much."""

_OTHER_ALIGNMENT = 1 / 3
"""How far apart aligned and unaligned lines put two problems."""


_Floats = NDArray[np.float64]

_ROUNDING = 1e-9
"""Keeps squares of distances from being negative."""

LENGTH = 0.3
"""Distance over which a neighbour's weight falls to 1/e."""

_K = TypeVar("_K")
_V = TypeVar("_V")

_Rows = dict[object, tuple[Gpu, Problem, "list[Entry]"]]
"""Of a case: the GPU, problem and entries of each tabled problem, by its sizes."""

_TWINS = {"bfloat16": "float16", "float16": "bfloat16"}

FAR = 2.0
"""Where no tabled problem is as near as this, tables say nothing of a problem."""


class Case(NamedTuple):
    """Which problems are alike, whatever their sizes."""

    layout: str
    factors: str
    result: str

    @classmethod
    def of(cls, problem: Problem) -> "Case":
        """A problem's."""
        return cls(problem.layout, problem.arithmetic.factors, problem.arithmetic.result)

    @property
    def twin(self) -> "Case":
        """The case whose products take the same time: float16 in the place of bfloat16, and the other way round."""
        return self._replace(
            factors=_TWINS.get(self.factors, self.factors), result=_TWINS.get(self.result, self.result)
        )


class Choice(NamedTuple):
    """A kernel and config, and what predicts it on the GPU that is selected for."""

    kernel: Kernel
    config: Config
    model: CostModel


Weighed = tuple[int, Kernel, float, float, float, float]
"""The number and kernel of a choice, and what tabled problems say of it, sums over them, each with its weight: its
votes; the logarithm of its measured over its predicted time, less the median of all; 1 where it was measured; 1 where
it errs much more than cuBLAS."""


class Group:
    """Choices among which is chosen."""

    def __init__(self, choices: list[Choice], facts: _Floats) -> None:
        """facts: of each problem and choice, as `Weighed` has them, one fact of all choices behind the other."""
        self.choices, self._facts = choices, facts
        self.models = CostModels([choice.model for choice in choices])

    def voted(self, rows: NDArray[np.intp], weights: _Floats) -> Iterator[Weighed]:
        """What problems say, each with its weight, of the choices that they vote for, the most votes first."""
        choices = self.choices
        sums, count = weights.dot(self._facts.take(rows, 0)), len(choices)
        of = sums.item
        for place in reversed(sums[:count].argsort().tolist()):
            if not (votes := of(place)):
                return
            yield place, choices[place][0], votes, of(count + place), of(2 * count + place), of(3 * count + place)


class Places:
    """Where tabled problems lie among others."""

    def __init__(self, problems: list[Sizes]) -> None:
        places = np.array([place(sizes) for sizes in problems]).T
        self.places = np.vstack((-2 * places, (places * places).sum(axis=0), np.ones(len(problems))))
        """A column p for each problem: (x, y, z, 1, x*x + y*y + z*z) @ p is the square of its distance from the place
        (x, y, z)."""
        aligned = np.array([sizes.aligned for sizes in problems])
        self.apart = {given: _OTHER_ALIGNMENT * (aligned != given) for given in (False, True)}
        self.rows = {identity(sizes): row for row, sizes in enumerate(problems)}

    def distances(self, sizes: Sizes) -> _Floats:
        """How far each tabled problem is from a problem."""
        x, y, z = place(sizes)
        found: _Floats = np.array((x, y, z, 1.0, x * x + y * y + z * z + _ROUNDING)).dot(self.places)
        np.sqrt(found, found)
        found += self.apart[sizes.aligned]
        return found


class Measured(Places):
    """What tables say of one case. Arrays are problems x choices; the time of what was not measured is NaN."""

    def __init__(
        self, gpu: Gpu, measured: Iterable[tuple[Gpu, Problem, list["Entry"]]], kept: str | None = None
    ) -> None:
        """Arrange measurements.

        Args:
            gpu: what is selected for.
            measured: the GPU, problem and entries of each tabled problem, none of them twice.
            kept: the operand, A or B, whose copy is to count as kept: times are made shorter by as much as the cost
                model says.
        """
        rows = [(Sizes.of(problem, kept=kept), of, entries) for of, problem, entries in measured]
        super().__init__([sizes for sizes, _, _ in rows])
        numbers: dict[tuple[str, Config], int] = {}
        cells: list[tuple[int, int, float, bool]] = []
        for row, (_, _, entries) in enumerate(rows):
            slow_downs = _slow_downs(entries)
            for entry, slow_down in zip(entries, slow_downs, strict=True):
                if (config := upgraded(entry.kernel, entry.config)) is not None:
                    number = numbers.setdefault((entry.kernel, config), len(numbers))
                    cells.append((row, number, entry.time_us / slow_down, entry.accurate))
        self.choices = tuple(Choice(find(name), config, CostModel(find(name), config, gpu)) for name, config in numbers)
        times = np.full((len(rows), len(numbers)), np.nan)
        accurate = np.zeros(times.shape, bool)
        for row, number, time_us, is_accurate in cells:
            if not times[row, number] <= time_us:
                times[row, number], accurate[row, number] = time_us, is_accurate
        if kept:
            times = times * self._shortened(rows, ~np.isnan(times))
        self.times, self.known, self.inaccurate = times, ~np.isnan(times), ~(accurate | np.isnan(times))
        self._errors, self.usual = self._compared(rows, gpu)
        self._ranking = np.lexsort((times, self.inaccurate, ~self.known))
        self._counts = self.known.sum(axis=1).tolist()
        votes, few = self._votes()
        others = [number for number in range(len(numbers)) if number not in few]
        facts = (votes, self._errors, self.known, self.inaccurate)
        self.groups = tuple(
            Group([self.choices[number] for number in group], _beside(facts, group)) for group in (few, others)
        )
        """The fewest choices of which one is near the fastest on every problem, since a choice among few goes wrong
        less often; and all others, for problems that none of these takes."""

    def _shortened(self, rows: list[tuple[Sizes, Gpu, list["Entry"]]], known: NDArray[np.bool_]) -> _Floats:
        """Predicted times over those with all copies made."""
        shares = np.ones(known.shape)
        for row, number in np.argwhere(known):
            sizes, _, _ = rows[row]
            whole = sizes._replace(copied_bytes=(sizes.a_bytes, sizes.b_bytes))
            model = self.choices[number].model
            if (less := model.predict(sizes)) and (more := model.predict(whole)):
                shares[row, number] = less.us / more.us
        return shares

    def _compared(self, rows: list[tuple[Sizes, Gpu, list["Entry"]]], gpu: Gpu) -> tuple[_Floats, float]:
        """Logarithms of measured over predicted times, less their median, and this; 0 where nothing was measured."""
        predicted = np.full(self.times.shape, np.nan)
        others = {of for _, of, _ in rows} - {gpu}
        models = {of: [CostModel(kernel, config, of) for kernel, config, _ in self.choices] for of in others}
        for row, number in np.argwhere(self.known):
            sizes, of, _ = rows[row]
            # On the GPU that is selected for in any case: then the first picks need not find what problems share.
            cost = self.choices[number].model.predict(sizes)
            if of in others:
                cost = models[of][number].predict(sizes)
            if cost:
                predicted[row, number] = cost.us
        errors = np.log(self.times / predicted)
        self.known &= ~np.isnan(errors)
        usual = float(np.median(errors[self.known])) if self.known.any() else 0.0
        return np.where(self.known, errors - usual, 0.0), usual

    def _votes(self) -> tuple[_Floats, list[int]]:
        """How near each choice comes to the fastest on a problem: 1 for the fastest, 0 for what was not measured; and
        the fewest choices of which one is near the fastest on every problem.

        What errs much more than cuBLAS has none, unless all that was measured on the problem does.
        """
        times = np.where(self.known, self.times, np.inf)
        accurate = np.where(self.inaccurate, np.inf, times)
        times = np.where(np.isinf(accurate).all(axis=1, keepdims=True), times, accurate)
        slower = times / np.minimum(times.min(axis=1, initial=np.inf, keepdims=True), np.finfo(float).max)
        few = fewest({number: np.flatnonzero(of <= NEAR).tolist() for number, of in enumerate(slower.T)})
        return np.asarray(slower ** (-1 / _FALL), np.float64), sorted(few)

    def ranked(self, row: int) -> list[int]:
        """What was measured on a problem, what errs little first, then the fastest."""
        ranked: list[int] = self._ranking[row, : self._counts[row]].tolist()
        return ranked

    def factors(self) -> dict[str, float]:
        """By kernel, the median of its measured over its predicted times."""
        found = {}
        for kernel in {choice.kernel for choice in self.choices}:
            of_kernel = self.known & np.array([choice.kernel is kernel for choice in self.choices])
            if of_kernel.any():
                found[kernel.name] = math.exp(self.usual + float(np.median(self._errors[of_kernel])))
        return found


class ByCase(Mapping[Case, Measured]):
    """What tables say, by case, arranged where asked for. On problems that a case lacks, rows of its twin count."""

    def __init__(self, rows: Mapping[Case, _Rows], gpu: Gpu, kept: str | None) -> None:
        self._rows: dict[Case, _Rows] = with_twins(rows)
        self._gpu, self._kept = gpu, kept
        self._arranged: dict[Case, Measured] = {}

    def __getitem__(self, case: Case) -> Measured:
        if case not in self._arranged:
            self._arranged[case] = Measured(self._gpu, self._rows[case].values(), self._kept)
        return self._arranged[case]

    def __contains__(self, case: object) -> bool:
        return case in self._rows

    def __iter__(self) -> Iterator[Case]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _slow_downs(entries: list["Entry"]) -> list[float]:
    """How many times longer runs took because the GPU was slower that day than in the run of the first entry: cuBLAS,
    which was timed next to each, tells, in TF32 next to kernels that round to it. 1 where it was not timed."""
    firsts: dict[bool, float] = {}
    found = []
    for entry in entries:
        own = entry.baseline_gflops
        found.append(firsts.setdefault(entry.rounds, own) / own if own else 1.0)
    return found


def _beside(facts: Iterable[NDArray[Any]], choices: list[int]) -> _Floats:
    """What is known of these choices, facts by problem one after the other."""
    return np.ascontiguousarray(np.concatenate([fact[:, choices] for fact in facts], axis=1), np.float64)


def place(sizes: Sizes) -> tuple[float, float, float]:
    """Where a problem lies among others: how many results it has counts most, then k, then how square it is.

    One along an axis is twice the results, 8 times the k, or 32 times as tall or wide.
    """
    m, n = math.log2(sizes.m or 1), math.log2(sizes.n or 1)
    return m + n + math.log2(sizes.batch or 1), math.log2(sizes.k or 1) / 3, (m - n) / 5


def identity(sizes: Sizes) -> tuple[object, ...]:
    """What problems have in common that are the same but for addresses and gaps between rows that do not matter."""
    return sizes.m, sizes.n, sizes.k, sizes.batch, sizes.aligned, sizes.form.starts


def tables_of(device: str, capability: tuple[int, int]) -> tuple["Table", ...]:
    """The tables of a GPU, and after them those that ship of other GPUs of its compute capability."""
    from tilewright.tables import store  # noqa: PLC0415 reading tables takes pydantic, which is slow to import

    own = store.load(device) if device else ()
    return *own, *(one for one in store.shipped() if one.capability == capability and one.gpu != device)


@lru_cache
def measured(
    device: str, capability: tuple[int, int], promise: str | None, kept: str | None, order: str | None = None
) -> ByCase:
    """What `tables_of` a GPU say of kernels that keep a promise, by case; with a copy of A or of B kept.

    order: only of configs that have this `Kernel.sum_order`; None for all.

    On a problem that the user tuned, only what the user measured counts: `tune` times both ways.
    """
    return by_case(tables_of(device, capability), find_gpu(device, capability), promise, kept, order)


@lru_cache
def nearest_measured(
    device: str,
    capability: tuple[int, int],
    promise: str | None,
    kept: str | None,
    order: str | None,
    layout: str,
    factors: str,
    result: str,
) -> tuple[Measured | None, bool]:
    """What was measured of a case, or else of the nearest, and whether that is its own."""
    tables, case = measured(device, capability, promise, kept, order), Case(layout, factors, result)
    return (tables[case], True) if case in tables else (_nearest(tables, case), False)


def _nearest(tables: ByCase, case: Case) -> Measured | None:
    """What was measured of the nearest case: the same factors; then the same orders, the same of B, which is the large
    one where rows are few, row-major operands, and the same result."""
    alike = [one for one in tables if one.factors == case.factors]
    if not alike:
        return None
    return tables[
        min(
            alike,
            key=lambda one: (
                one.layout != case.layout,
                one.layout[1] != case.layout[1],
                one.layout != "NN",
                one.result != case.result,
            ),
        )
    ]


@lru_cache
def shipped_factors(dtype: str) -> dict[str, float]:
    """By kernel, the median of its measured over its predicted times, with factors of a type, in a table that ships."""
    from tilewright.tables import store  # noqa: PLC0415

    found: dict[str, float] = {}
    for table in store.shipped():
        tables = by_case([table], find_gpu(table.gpu, table.capability), PROMISES[-1])
        for case in tables:
            if case.factors == dtype:
                found = tables[case].factors() | found
    return found


def that_count(
    tables: Iterable["Table"], usable: Callable[["Entry"], bool], promise: str | None = None
) -> Iterator[tuple[Gpu, "Entry"]]:
    """Usable entries of tables, each with its GPU: on a problem that is in several, those of one, of kernels that round
    to TF32 and of all others.

    That is the first; or the first that has kernels of a weaker precision that is promised, if one does; and of these
    the first that has times after other work: times back to back alone mislead more than those of another GPU of the
    same compute capability, or of the problem's twin (`Case.twin`), which counts as the same problem. Of that table
    kernels count that have no other times: none is forgotten because another was timed anew.
    """
    tables = tuple(tables)
    found = [
        (_of_twins(entry), number, entry)
        for number, table in enumerate(tables)
        for entry in table.entries
        if usable(entry)
    ]
    counting: dict[object, tuple[bool, bool, int]] = {}
    for key, number, entry in found:
        rank = (promise not in (None, "ieee", entry.precision), not entry.apart, number)
        counting[key] = min(rank, counting.get(key, rank))
    timed = {(key, number, entry.kernel) for key, number, entry in found if entry.apart}
    gpus = [find_gpu(table.gpu, table.capability) for table in tables]
    for key, number, entry in found:
        if counting[key][2] == number and (entry.apart or (key, number, entry.kernel) not in timed):
            yield gpus[number], entry


def _of_twins(entry: "Entry") -> tuple[object, ...]:
    """What entries have in common that are of one problem or of its twin."""
    return *entry.problem[:-1], entry.case.replace("bfloat16", _TWINS["bfloat16"]), entry.rounds


def with_twins(cases: Mapping[Case, Mapping[_K, _V]]) -> dict[Case, dict[_K, _V]]:
    """What is known of the problems of cases, and of problems that a case lacks, what is known of them in its twin."""
    both = dict.fromkeys(one for case in cases for one in (case, case.twin))
    return {one: {**cases.get(one.twin, {}), **cases.get(one, {})} for one in both}


def by_case(
    tables: Iterable["Table"],
    gpu: Gpu,
    promise: str | None = None,
    kept: str | None = None,
    order: str | None = None,
) -> ByCase:
    """What tables say of kernels that keep a promise, by case: of their entries, those `that_count`.

    kept: see `Measured`. order: only of configs that have this order of sums; None for all.
    """
    from tilewright.tables.cases import posed  # noqa: PLC0415

    found: dict[Case, _Rows] = {}
    for of, entry in that_count(tables, lambda entry: entry.keeps(promise) and entry.adds_in(order), promise):
        problem = posed(entry.m, entry.n, entry.k, entry.case, entry.batch)
        sizes = entry.m, entry.n, entry.k, entry.batch
        found.setdefault(Case.of(problem), {}).setdefault(sizes, (of, problem, []))[2].append(entry)
    return ByCase(found, gpu, kept)
