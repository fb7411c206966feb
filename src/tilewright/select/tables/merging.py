"""Which measurements a tuned table keeps, as newer ones are added."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.kernels import orders
from tilewright.kernels.support import PROMISES
from tilewright.select.tables.entry import Choice, Entry, Shape, best_by_problem, found_kernel, met_by, rank

NEAR = 1.02
"""A config covers a problem on which it takes at most this many times as long as the fastest."""

KEEP_WITHIN = 1.5
"""A table keeps what is at most this many times slower than the fastest on its problem, of each kernel's best, which
serve operands that the fastest cannot take, and of the few configs that cover all problems, to show how each does
where."""

KEEP_NEAR = 1.05
"""A table keeps all other configs that are at most this many times slower than the fastest on their problem."""


def merged(before: Iterable[Entry], newer: Iterable[Entry]) -> list[Entry]:
    """A table's entries with newer ones: each replaces the one of its problem, kernel and config.

    What is slower than `KEEP_WITHIN` or `KEEP_NEAR` times the fastest on its problem is left out, unless that is
    of a kernel which may not be picked where a stricter precision is asked for, adds in another order than
    batch-invariant products do, or splits factors first, which takes no time of a product whose b is prepared.
    """
    by_identity = {entry.identity: entry for entry in (*before, *newer)}
    ranked = sorted(by_identity.values(), key=rank)
    kernels = {entry.kernel for entry in ranked}
    keeping = dict.fromkeys(frozenset(name for name in kernels if one in met_by(name)) for one in PROMISES)
    keeping |= dict.fromkeys(frozenset(filter(_splits, names)) for names in keeping)
    near = [_near_the_fastest([entry for entry in ranked if entry.kernel in names]) for names in keeping]
    near += [_near_the_fastest([entry for entry in ranked if entry.adds_in(order)]) for order in orders.ALL]
    return list({entry.identity: entry for some in near for entry in some}.values())


def _splits(kernel: str) -> bool:
    found = found_kernel(kernel)
    return found is not None and found.splits


def _near_the_fastest(ranked: Sequence[Entry]) -> list[Entry]:
    """Entries that are not much slower than the fastest on their problem; they are given the best first."""
    best = best_by_problem(ranked)
    firsts: dict[tuple[Shape, str], Entry] = {}
    for entry in ranked:
        firsts.setdefault((entry.problem, entry.kernel), entry)
    useful = _useful(ranked, best)

    def within(entry: Entry) -> float:
        first = firsts[entry.problem, entry.kernel] is entry
        return KEEP_WITHIN if first or entry.choice in useful else KEEP_NEAR

    return [entry for entry in ranked if entry.gflops * within(entry) >= best[entry.problem].gflops]


def _useful(ranked: Sequence[Entry], best: dict[Shape, Entry]) -> set[Choice]:
    """The fewest choices of which one is near the fastest on every problem; of what errs much, only where all do."""
    near = [
        entry
        for entry in ranked
        if entry.accurate == best[entry.problem].accurate and entry.time_us <= NEAR * best[entry.problem].time_us
    ]
    rows = {problem: row for row, problem in enumerate(dict.fromkeys(entry.problem for entry in near))}
    columns = {choice: column for column, choice in enumerate(dict.fromkeys(entry.choice for entry in near))}
    covers = np.zeros((len(rows), len(columns)), np.bool_)
    for entry in near:
        covers[rows[entry.problem], columns[entry.choice]] = True
    choices = list(columns)
    return {choices[column] for column in fewest(covers)}


def fewest(covers: NDArray[np.bool_]) -> list[int]:
    """Few choices that together cover every problem that any of them covers, the most useful first.

    Each next one covers most of the problems that are left (the greedy set cover; the least number is
    hard to find, and seldom much smaller).

    Args:
        covers: problems x choices, whether a choice covers a problem.

    Returns:
        Columns of `covers`.
    """
    left = covers.astype(np.int32)
    chosen: list[int] = []
    while left.size:
        counts = np.add.reduce(left)
        best = counts.argmax().item()
        if not counts[best]:
            break
        chosen.append(best)
        left = left[left[:, best] == 0]
    return chosen
