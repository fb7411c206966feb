"""What tables say, as arrays: measured times of kernels and configs by problem, and how far the cost model was off.

Problems are grouped by orders and element types: bias and activation do not matter to the speed. Neither does the
precision that a problem promises: it decides which kernels' times count. Everything is found for a whole case at once,
by NumPy: a process waits for it before its first product. Models are asked of few configs near one problem alone.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.analysis.comparing import CostModels
from tilewright.analysis.cost import CostModel, Sizes
from tilewright.gpus import Gpu, find_gpu
from tilewright.kernels import find
from tilewright.kernels.spec import PROMISES, Config
from tilewright.kernels.takes import VECTOR_BYTES
from tilewright.problem import ITEM_BYTES
from tilewright.tables import store
from tilewright.tables.cases import Case, posed, same_speed_text
from tilewright.tables.cover import NEAR, fewest
from tilewright.tables.entry import ACCURATE_WITHIN, kept_by
from tilewright.tables.table import Cells, Choice, Table

_FALL = 0.02
"""A config has 1/e of the vote of the fastest on a problem where the logarithm of its time is larger by this much."""

_OTHER_ALIGNMENT = 1 / 3
"""How far apart aligned and unaligned lines put two problems."""

_ROUNDING = 1e-9
"""Keeps squares of distances from being negative."""

_UNKNOWN = 0.1
"""Weight of the assumption that the cost model is off by as much as it usually is."""

LENGTH = 0.3
"""Distance over which a neighbour's weight falls to 1/e."""

FAR = 2.0
"""Where no tabled problem is as near as this, tables say nothing of a problem."""

_Floats = NDArray[np.float64]
_Numbers = NDArray[np.intp]
_Flags = NDArray[np.bool_]


class Counted(NamedTuple):
    """The measurements that count on a case's problems. Arrays but `sizes` and `table` have an element each."""

    tables: tuple[Table, ...]
    sizes: NDArray[np.int64]
    """m, n, k and batch, a row a problem."""
    table: _Numbers
    """Number of the table that a problem's measurements are of."""
    row: _Numbers
    """Number of the problem."""
    choice: _Numbers
    """Number in `choices`."""
    choices: list[Choice]
    gflops: _Floats
    baseline_gflops: _Floats
    """NaN where it was not measured."""
    accurate: _Flags
    """`Entry.accurate`."""
    rounds: _Flags
    """Whether kernel and baseline round factors to TF32."""

    @property
    def times_us(self) -> _Floats:
        """Microseconds of a run."""
        work: _Floats = self.sizes.astype(np.float64).prod(axis=1)[self.row]
        return 2 * work / self.gflops / 1e3


def that_count(
    tables: Iterable[Table],
    case: Case,
    promise: str | None = None,
    order: str | None = None,
    rounding: bool | None = None,
) -> Counted | None:
    """The measurements that count on problems of a case, of kernels that keep a promise; None where there are none.

    On a problem that is in several tables those of one count, of kernels that round to TF32 and of all others. That is
    the first table; or the first that has kernels of a weaker precision that is promised, if one does; and of these the
    first that has times after other work: times back to back alone mislead more than those of another GPU of the same
    compute capability, or of the case with the same speed (`Case.same_speed`), which counts as the same problem. Of
    that table kernels count that have no other times: none is forgotten because another was timed anew. Problems of the
    case with the same speed count where the case itself lacks them.

    order: only configs that have this `Kernel.sum_order`; None for all. rounding: only kernels that round to TF32, or
    only all others; None for both.
    """
    tables = tuple(tables)
    parts = _parts(tables, case)
    if not parts:
        return None
    choices, numbers = _choices(tables, parts)
    kernels = list(dict.fromkeys([kernel for kernel, _, _ in choices]))
    numbered = {kernel: number for number, kernel in enumerate(kernels)}
    kernel_of = np.array([numbered[kernel] for kernel, _, _ in choices], np.intp)
    precisions = [find(kernel).precision for kernel in kernels]
    keeps = np.array([promise in kept_by(kernel) for kernel in kernels])

    # Sizes of all parts' problems, and two numbers of each: that of its sizes, and that of its sizes and epilogue.
    alike = [same_speed_text(text) for _, text, _, _ in parts]
    rows = [
        (text, one)
        for text, (_, _, cells, _) in zip(alike, parts, strict=True)
        for one in zip(*cells.sizes.T.tolist(), strict=True)
    ]
    sizes = {one: number for number, one in enumerate(dict.fromkeys([one for _, one in rows]))}
    keys = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    places, keyed = [sizes[one] for _, one in rows], [keys[row] for row in rows]
    firsts = np.cumsum([0, *(len(cells.sizes) for _, _, cells, _ in parts)])
    problem = np.concatenate([cells.problem + first for (_, _, cells, _), first in zip(parts, firsts, strict=False)])
    counts = [len(cells.gflops) for _, _, cells, _ in parts]
    table = np.repeat([number for number, *_ in parts], counts)
    own = np.repeat([is_own for *_, is_own in parts], counts)
    choice = np.concatenate([numbers[number][cells.choice] for number, _, cells, _ in parts])
    gflops = np.concatenate([cells.gflops for _, _, cells, _ in parts])
    baseline = np.concatenate([cells.baseline_gflops for _, _, cells, _ in parts])
    error = np.concatenate([cells.error_ratio for _, _, cells, _ in parts])
    runs = [np.array([after for _, after in one.runs], np.bool_) for one in tables]
    after_other_work = np.concatenate([runs[number][cells.run] for number, _, cells, _ in parts])

    kernel = kernel_of[choice]
    usable = keeps[kernel]
    if order is not None:
        usable &= np.array([_adds_in(one, order) for one in choices])[choice]
    rounds = np.array([precision == "tf32" for precision in precisions])[kernel]
    if rounding is not None:
        usable &= rounds == rounding
    group = 2 * np.array(keyed, np.intp)[problem] + rounds
    asked = promise not in (None, "ieee")
    weaker = np.array([asked and precision != promise for precision in precisions])[kernel]
    rank = (2 * weaker + ~after_other_work) * len(tables) + table
    best = np.full(2 * len(keys), 4 * len(tables))
    np.minimum.at(best, group[usable], rank[usable])
    counts_here = usable & (best[group] % len(tables) == table)
    timed = np.zeros((2 * len(keys), len(kernels)), np.bool_)
    timed[group[counts_here & after_other_work], kernel[counts_here & after_other_work]] = True
    counts_here &= after_other_work | ~timed[group, kernel]

    place = np.array(places, np.intp)[problem]
    has_own = np.zeros(len(sizes), np.bool_)
    has_own[place[counts_here & own]] = True
    found = np.flatnonzero(counts_here & (own | ~has_own[place]))
    if not len(found):
        return None
    row_of, row = _in_order(place[found])
    table_of_row = np.zeros(len(row_of), np.intp)
    table_of_row[row[::-1]] = table[found[::-1]]  # of several the first
    used, choice_of = _in_order(choice[found])
    lenient = np.array([None not in kept_by(name) for name in kernels])[kernel[found]]
    accurate = ~(error[found] > ACCURATE_WITHIN) | lenient
    return Counted(
        tables,
        np.array(list(sizes), np.int64)[row_of],
        table_of_row,
        row,
        choice_of,
        [choices[number] for number in used.tolist()],
        gflops[found],
        baseline[found],
        accurate,
        rounds[found],
    )


def _parts(tables: Sequence[Table], case: Case) -> list[tuple[int, str, Cells, bool]]:
    """By table and case's text, the measurements of a case and of that with the same speed, and whether of its own."""
    alike = {case.same_speed: False, case: True}
    return [
        (number, text, table.cells(text), alike[of])
        for number, table in enumerate(tables)
        for text in table.cases
        if (of := Case.parse(text)) in alike
    ]


def _choices(
    tables: Sequence[Table], parts: Sequence[tuple[int, str, Cells, bool]]
) -> tuple[list[Choice], list[_Numbers]]:
    """The choices that parts of tables name, each once, and by table the numbers that its own have among them."""
    numbered: dict[tuple[str, tuple[str, ...], tuple[int, ...]], int] = {}
    numbers = [np.full(len(table.choices), -1) for table in tables]
    for number, _, cells, _ in parts:
        for one in np.flatnonzero(np.bincount(cells.choice)).tolist():
            kernel, names, values = tables[number].choices[one]
            choice = kernel, tuple(names), tuple(values)
            if choice not in numbered:
                numbered[choice] = len(numbered)
            numbers[number][one] = numbered[choice]
    return list(numbered), numbers


def _adds_in(choice: Choice, order: str) -> bool:
    kernel, names, values = choice
    return find(kernel).sum_order(Config(dict(zip(names, values, strict=True)))) == order


def _in_order(numbers: _Numbers) -> tuple[_Numbers, _Numbers]:
    """The different ones of numbers, in the order in which they come first, and of each number its place among them."""
    different, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    order = first.argsort()
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return different[order], rank[places]


class Places:
    """Where the tabled problems of a case lie among others."""

    def __init__(self, case: Case, sizes: NDArray[np.int64]) -> None:
        self._case, self._sizes = case, sizes
        self._logs = (log_m, log_n, log_k, log_batch) = np.log2(np.maximum(sizes, 1)).T
        places = np.array(_place(log_m, log_n, log_k, log_batch))
        self.places = np.vstack((-2 * places, (places * places).sum(axis=0), np.ones(len(sizes))))
        """A column p for each problem: (x, y, z, 1, x*x + y*y + z*z) @ p is the square of its distance from the place
        (x, y, z)."""
        aligned = _aligned(case, sizes)
        self.apart = {given: _OTHER_ALIGNMENT * (aligned != given) for given in (False, True)}
        self.rows = {tuple(one): row for row, one in enumerate(sizes.tolist())}
        """By m, n, k and batch."""

    def sizes(self, row: int, kept: str | None = None) -> Sizes:
        """The sizes of a tabled problem; kept: the operand whose copy is kept."""
        m, n, k, batch = self._sizes[row].tolist()
        case = f"{self._case.layout} {self._case.factors}->{self._case.result}"
        return Sizes.of(posed(m, n, k, case, batch), kept=kept)

    def row(self, sizes: Sizes) -> int | None:
        """Where a problem is tabled itself, gaps between rows that do not matter aside; None where it is not."""
        found = self.rows.get((sizes.m, sizes.n, sizes.k, sizes.batch))
        if found is None:
            return None
        form, tabled = sizes.form, self.sizes(found).form
        return found if (form.aligned, form.starts) == (tabled.aligned, tabled.starts) else None

    def distances(self, sizes: Sizes) -> _Floats:
        """How far each tabled problem is from a problem."""
        x, y, z = place(sizes)
        found: _Floats = np.array((x, y, z, 1.0, x * x + y * y + z * z + _ROUNDING)).dot(self.places)
        np.sqrt(found, found)
        found += self.apart[sizes.aligned]
        return found


def place(sizes: Sizes) -> tuple[float, float, float]:
    """Where a problem lies among others: how many results it has counts most, then k, then how square it is.

    One along an axis is twice the results, 8 times the k, or 32 times as tall or wide.
    """
    log2 = math.log2
    return _place(log2(sizes.m or 1), log2(sizes.n or 1), log2(sizes.k or 1), log2(sizes.batch or 1))


def _place(log_m: Any, log_n: Any, log_k: Any, log_batch: Any) -> tuple[Any, Any, Any]:
    """The same of logarithms, be they numbers or arrays."""
    return log_m + log_n + log_batch, log_k / 3, (log_m - log_n) / 5


def _aligned(case: Case, sizes: NDArray[np.int64]) -> _Flags:
    """`takes.all_aligned` of problems without gaps."""
    m, n, k, batch = sizes.T

    def offsets(lines: NDArray[np.int64], length: NDArray[np.int64], item_bytes: int) -> NDArray[np.int64]:
        length = np.maximum(length, 1)
        gaps = np.bitwise_or(np.where(lines > 1, length, 0), np.where(batch > 1, length * lines, 0))
        return gaps * item_bytes

    item, result = ITEM_BYTES[case.factors], ITEM_BYTES[case.result]
    # Columns of one element each are one row: `Layout.simplest`.
    of_a = offsets(m, k, item) if case.layout[0] == "N" else np.where(m == 1, offsets(m, k, item), offsets(k, m, item))
    of_b = offsets(k, n, item) if case.layout[1] == "N" else np.where(k == 1, offsets(k, n, item), offsets(n, k, item))
    gaps = np.where(k > 0, of_a | of_b, 0) | offsets(m, n, result)
    aligned: _Flags = gaps % VECTOR_BYTES == 0
    return aligned


class Group:
    """Choices among which is chosen."""

    def __init__(self, numbers: list[int], facts: _Floats) -> None:
        """Set up a group.

        Args:
            numbers: of the choices.
            facts: of each problem and choice, one fact of all choices behind the other: the choice's vote; the
                logarithm of its measured over its predicted time, NaN where these were not compared yet, 0 where it was
                not measured; 1 where it was measured; 1 where it errs much more than cuBLAS.
        """
        self.numbers, self.facts = numbers, facts

    def sums(self, rows: _Numbers, weights: _Floats) -> list[float]:
        """The facts of all choices, summed over problems with their weights."""
        found: list[float] = weights.dot(self.facts.take(rows, 0)).tolist()
        return found


def _beside(facts: Iterable[NDArray[Any]], choices: _Numbers) -> _Floats:
    """What is known of these choices, one fact of all behind the other."""
    return np.ascontiguousarray(np.concatenate([fact[:, choices] for fact in facts], axis=1), np.float64)


class Measured(Places):
    """What tables say of one case. Arrays are problems x choices; the time of what was not measured is NaN."""

    def __init__(self, gpu: Gpu, case: Case, counted: Counted, kept: str | None = None) -> None:
        """Arrange measurements.

        Args:
            gpu: what is selected for.
            case: what was measured.
            counted: the measurements.
            kept: the operand, A or B, whose copy is to count as kept: times are made shorter by as much as the cost
                model says.
        """
        super().__init__(case, counted.sizes)
        kernels = {name: find(name) for name in {kernel for kernel, _, _ in counted.choices}}
        self.kernels = [kernels[kernel] for kernel, _, _ in counted.choices]
        self._choices, self._configs = counted.choices, dict[int, Config]()
        of_tables = [find_gpu(table.gpu, table.capability) for table in counted.tables]
        self._gpu_of_row = [of_tables[number] for number in counted.table.tolist()]
        self._models = {one: CostModels(partial(self._model, one), len(self.kernels)) for one in {gpu, *of_tables}}
        self._gpu, self._kept = gpu, kept
        self.models = self._models[gpu]
        times_us = counted.times_us / _slow_downs(counted)
        shape = len(counted.sizes), len(self.kernels)
        self.times, accurate = np.full(shape, np.nan), np.zeros(shape, np.bool_)
        slowest_first = np.argsort(-times_us, kind="stable")  # of several of one choice the fastest counts
        cell = counted.row[slowest_first], counted.choice[slowest_first]
        self.times[cell], accurate[cell] = times_us[slowest_first], counted.accurate[slowest_first]
        self.known: _Flags = ~np.isnan(self.times)
        self.inaccurate: _Flags = self.known & ~accurate
        if kept:
            self._shorten()
        votes, few = self._votes()
        others = np.ones(shape[1], np.bool_)
        others[few] = False
        facts = votes, np.where(self.known, np.nan, 0.0), self.known, self.inaccurate
        groups = np.array(sorted(few), np.intp), np.flatnonzero(others)
        self.groups = tuple(Group(group.tolist(), _beside(facts, group)) for group in groups)
        """The fewest choices of which one is near the fastest on every problem, since a choice among few goes wrong
        less often; and all others, for problems that none of these takes."""

    def config(self, number: int) -> Config:
        """The config of a choice."""
        found = self._configs.get(number)
        if found is None:
            _, names, values = self._choices[number]
            found = self._configs[number] = Config(dict(zip(names, values, strict=True)))
        return found

    def ranked(self, row: int) -> list[int]:
        """The choices that were measured on a problem, what errs little first, then the fastest."""
        numbers = np.flatnonzero(self.known[row])
        order = np.lexsort((self.times[row, numbers], self.inaccurate[row, numbers]))
        ranked: list[int] = numbers[order].tolist()
        return ranked

    def expected(
        self, group: Group, places: list[int], sums: list[float], sizes: Sizes, rows: _Numbers, weights: _Floats
    ) -> list[tuple[int, float, bool]]:
        """What choices should take on a problem: the cost model's times, corrected by how far it was off nearby.

        Args:
            group: where the choices are.
            places: the choices' places in the group.
            sums: `Group.sums` of the next two.
            sizes: the problem.
            rows, weights: tabled problems near it.

        Returns:
            Each choice, microseconds, and whether it errs much more than cuBLAS. Choices of which the GPU cannot hold a
            block are left out.
        """
        count = len(group.numbers)
        off_by = sum([sums[count + place] for place in places])
        if off_by != off_by:  # NaN: not all were compared with the model
            self._compare(group, places, rows)
            sums = group.sums(rows, weights)
        found = []
        numbers = [group.numbers[place] for place in places]
        for place, number, us in zip(places, numbers, self.models.us(sizes, numbers), strict=True):
            if us < math.inf:
                certain = sums[2 * count + place] + _UNKNOWN
                us *= math.exp((_UNKNOWN * self._usual + sums[count + place]) / certain)
                found.append((number, us, sums[3 * count + place] > certain / 2))
        return found

    def factors(self) -> dict[str, list[float]]:
        """By kernel, all measured over predicted times."""
        found: dict[str, list[float]] = {}
        for group in self.groups:
            count = len(group.numbers)
            self._compare(group, list(range(count)), np.arange(len(self.times)))
            for place, number in enumerate(group.numbers):
                errors = group.facts[group.facts[:, 2 * count + place] > 0, count + place]
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

    def _compare(self, group: Group, places: list[int], rows: _Numbers) -> None:
        """Find the logarithms of measured over predicted times of rows and choices, where they were not found yet."""
        count = len(group.numbers)
        for row in rows.tolist():
            missing = np.isnan(group.facts[row, count : 2 * count]).tolist()
            if asked := [place for place in places if missing[place]]:
                numbers = [group.numbers[place] for place in asked]
                us = np.array(self._models[self._gpu_of_row[row]].us(self.sizes(row, self._kept), numbers))
                held = np.isfinite(us)  # else the model says that the GPU cannot hold a block: that tells nothing
                errors = np.log(self.times[row, numbers], out=np.zeros(len(us)), where=held)
                errors[held] -= np.log(us[held])
                group.facts[row, [count + place for place in asked]] = errors
                for place in np.array(asked)[~held].tolist():
                    group.facts[row, place::count] = 0.0

    def _shorten(self) -> None:
        """Leave out of times what the model says that copies of the kept operand take."""
        copying = [
            number
            for number, kernel in enumerate(self.kernels)
            if kernel.split or kernel.relayouts(self.config(number)) is not None
        ]
        for row in range(len(self.times)):
            if numbers := [number for number in copying if self.known[row, number]]:
                less, more = (self.models.us(self.sizes(row, kept), numbers) for kept in (self._kept, None))
                self.times[row, numbers] *= np.array(less) / np.array(more)

    def _votes(self) -> tuple[_Floats, list[int]]:
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


def _slow_downs(counted: Counted) -> _Floats:
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
    device: str, capability: tuple[int, int], case: Case, promise: str | None, kept: str | None, order: str | None
) -> Measured | None:
    """What `tables_of` a GPU say of a case and kernels that keep a promise; None where they have nothing.

    kept: the operand, A or B, whose copy is kept. order: only configs that have this `Kernel.sum_order`; None for all.

    On a problem that the user tuned, only what the user measured counts: `tune` times both ways.
    """
    counted = that_count(tables_of(device, capability), case, promise, order)
    return None if counted is None else Measured(find_gpu(device, capability), case, counted, kept)


@lru_cache
def nearest_measured(
    device: str, capability: tuple[int, int], case: Case, promise: str | None, kept: str | None, order: str | None
) -> tuple[Measured | None, bool]:
    """What was measured of a case, or else of the nearest, and whether that is its own.

    The nearest has the same factors; then the same orders, the same of B, which is the large one where rows are few,
    row-major operands, and the same result.
    """
    asked = promise, kept, order
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
            for kernel, found in Measured(gpu, case, counted).factors().items():
                of_dtype.setdefault(kernel, []).extend(found)
    return {
        dtype: {kernel: round(statistics.median(of), 3) for kernel, of in sorted(kernels.items())}
        for dtype, kernels in sorted(by_dtype.items())
    }
