"""Which measurements of tables count on the problems of a case, as arrays.

Problems are grouped by orders and element types: bias and activation do not matter to the speed. Neither does the
precision that a problem promises: it decides which kernels' times count. All is found at once, by NumPy: a process
waits for it before its first product.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.kernels import find
from tilewright.select.positions import Flags, Floats, Numbers
from tilewright.select.tables.cases import Case, same_speed_text
from tilewright.select.tables.entry import ACCURATE_WITHIN, met_by
from tilewright.select.tables.table import Cells, Choice, Table, config_of

_Part = tuple[int, str, Cells, bool]
"""The number of a table, a case's text, its measurements there, and whether it is the case that is asked for, not the
one with the same speed."""


class Counted(NamedTuple):
    """The measurements that count on a case's problems. Arrays but `sizes` and `table` have an element each."""

    tables: tuple[Table, ...]
    sizes: NDArray[np.int64]
    """m, n, k and batch, a row a problem."""
    table: Numbers
    """Number of the table that a problem's measurements are of."""
    row: Numbers
    """Number of the problem."""
    choice: Numbers
    """Number in `choices`."""
    choices: list[Choice]
    gflops: Floats
    baseline_gflops: Floats
    """NaN where it was not measured."""
    accurate: Flags
    """`Entry.accurate`."""
    rounds: Flags
    """Whether kernel and baseline round factors to TF32."""

    @property
    def times_us(self) -> Floats:
        """Microseconds of a run."""
        work: Floats = self.sizes.astype(np.float64).prod(axis=1)[self.row]
        return 2 * work / self.gflops / 1e3


def that_count(
    tables: Iterable[Table],
    case: Case,
    promise: str | None = None,
    order: str | None = None,
    rounding: bool | None = None,
) -> Counted | None:
    """The measurements that count on problems of a case, of kernels that meet a precision; None where there are none.

    On a problem that is in several tables those of one count, of kernels that round to TF32 and of all others. That is
    the first table; or the first that has kernels of a weaker precision that is promised, if one does; and of these the
    first that has times after other work: times back to back alone mislead more than those of another GPU of the same
    compute capability, or of the case with the same speed (`Case.same_speed`), which counts as the same problem. Of
    that table kernels count that have no other times: none is forgotten because another was timed anew. Problems of the
    case with the same speed count where the case itself lacks them.

    order: only configs that have this `Sums.order`; None for all. rounding: only kernels that round to TF32, or
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
    precisions = [find(kernel).support.precision for kernel in kernels]
    keeps = np.array([promise in met_by(kernel) for kernel in kernels])

    joined = _joined(tables, parts, numbers)
    kernel = kernel_of[joined.choice]
    usable = keeps[kernel]
    if order is not None:
        usable &= np.array([find(one[0]).sums(config_of(one)).order == order for one in choices])[joined.choice]
    rounds = np.array([precision == "tf32" for precision in precisions])[kernel]
    if rounding is not None:
        usable &= rounds == rounding
    group = 2 * joined.key + rounds
    asked = promise not in (None, "ieee")
    weaker = np.array([asked and precision != promise for precision in precisions])[kernel]
    rank = (2 * weaker + ~joined.after_other_work) * len(tables) + joined.table
    best = np.full(2 * joined.keys, 4 * len(tables))
    np.minimum.at(best, group[usable], rank[usable])
    counts = usable & (best[group] % len(tables) == joined.table)
    timed = np.zeros((2 * joined.keys, len(kernels)), np.bool_)
    anew = counts & joined.after_other_work
    timed[group[anew], kernel[anew]] = True
    counts &= joined.after_other_work | ~timed[group, kernel]
    has_own = np.zeros(len(joined.sizes), np.bool_)
    has_own[joined.problem[counts & joined.own]] = True
    found = np.flatnonzero(counts & (joined.own | ~has_own[joined.problem]))
    if not len(found):
        return None

    row_of, row = _in_order(joined.problem[found])
    table_of_row = np.zeros(len(row_of), np.intp)
    table_of_row[row[::-1]] = joined.table[found[::-1]]  # of several the first
    used, choice = _in_order(joined.choice[found])
    lenient = np.array([None not in met_by(name) for name in kernels])[kernel[found]]
    return Counted(
        tables=tables,
        sizes=joined.sizes[row_of],
        table=table_of_row,
        row=row,
        choice=choice,
        choices=[choices[number] for number in used.tolist()],
        gflops=joined.gflops[found],
        baseline_gflops=joined.baseline_gflops[found],
        accurate=~(joined.error_ratio[found] > ACCURATE_WITHIN) | lenient,
        rounds=rounds[found],
    )


class _Joined(NamedTuple):
    """The measurements of several parts, one behind the other. Arrays but `sizes` have an element each."""

    sizes: NDArray[np.int64]
    """m, n, k and batch, a row a problem."""
    problem: Numbers
    """Row of `sizes`."""
    key: Numbers
    """Number of the problem's sizes and epilogue, below `keys`."""
    keys: int
    table: Numbers
    own: Flags
    """Whether it is of the case itself, and not of the one with the same speed."""
    choice: Numbers
    gflops: Floats
    baseline_gflops: Floats
    error_ratio: Floats
    after_other_work: Flags
    """Whether runs after other work were measured."""


def _joined(tables: Sequence[Table], parts: Sequence[_Part], numbers: Sequence[Numbers]) -> _Joined:
    """Parts, one behind the other; numbers: by table those that its choices have among all."""
    rows = [
        (same_speed_text(text), one) for _, text, cells, _ in parts for one in zip(*cells.sizes.T.tolist(), strict=True)
    ]
    sizes = {one: number for number, one in enumerate(dict.fromkeys([one for _, one in rows]))}
    keys = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    size_of, key_of = (np.array(of, np.intp) for of in ([sizes[one] for _, one in rows], [keys[row] for row in rows]))
    firsts = np.cumsum([0, *(len(cells.sizes) for _, _, cells, _ in parts)])
    problem = np.concatenate([cells.problem + first for (_, _, cells, _), first in zip(parts, firsts, strict=False)])
    counts = [len(cells.gflops) for _, _, cells, _ in parts]
    runs = [np.array([after for _, after in one.runs], np.bool_) for one in tables]
    return _Joined(
        sizes=np.array(list(sizes), np.int64),
        problem=size_of[problem],
        key=key_of[problem],
        keys=len(keys),
        table=np.repeat([number for number, *_ in parts], counts),
        own=np.repeat([is_own for *_, is_own in parts], counts),
        choice=np.concatenate([numbers[number][cells.choice] for number, _, cells, _ in parts]),
        gflops=np.concatenate([cells.gflops for _, _, cells, _ in parts]),
        baseline_gflops=np.concatenate([cells.baseline_gflops for _, _, cells, _ in parts]),
        error_ratio=np.concatenate([cells.error_ratio for _, _, cells, _ in parts]),
        after_other_work=np.concatenate([runs[number][cells.run] for number, _, cells, _ in parts]),
    )


def _parts(tables: Sequence[Table], case: Case) -> list[_Part]:
    """By table and case's text, the measurements of a case and of that with the same speed, and whether of its own."""
    alike = {case.same_speed: False, case: True}
    return [
        (number, text, table.cells(text), alike[of])
        for number, table in enumerate(tables)
        for text in table.cases
        if (of := Case.parse(text)) in alike
    ]


def _choices(tables: Sequence[Table], parts: Sequence[_Part]) -> tuple[list[Choice], list[Numbers]]:
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


def _in_order(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The different ones of numbers, in the order in which they come first, and of each number its place among them."""
    different, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    order = first.argsort()
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return different[order], rank[places]
