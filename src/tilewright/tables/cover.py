"""The fewest configs that cover all problems: a choice among few goes wrong less often."""

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeVar

NEAR = 1.02
"""A config covers a problem on which it takes at most this many times as long as the fastest."""

_Choice = TypeVar("_Choice", bound=Hashable)
_Problem = TypeVar("_Problem", bound=Hashable)


def does_for(measured: Iterable[tuple[_Problem, _Choice, bool, float]]) -> dict[_Choice, set[_Problem]]:
    """By choice, the problems that it covers. Of what errs much, only where all do.

    Args:
        measured: problem, choice, whether it errs little, and its time; of each problem the best first.
    """
    best: dict[_Problem, tuple[bool, float]] = {}
    near: dict[_Choice, set[_Problem]] = {}
    for problem, choice, accurate, time_us in measured:
        best_is_accurate, best_us = best.setdefault(problem, (accurate, time_us))
        if accurate == best_is_accurate and time_us <= NEAR * best_us:
            near.setdefault(choice, set()).add(problem)
    return near


def fewest(problems_of: Mapping[_Choice, Collection[Hashable]]) -> list[_Choice]:
    """Few choices that together cover every problem that any of them covers, the most useful first.

    Each next one covers most of the problems that are left (the greedy set cover; the least number is
    hard to find, and seldom much smaller).

    Args:
        problems_of: by choice, the problems that it covers.
    """
    left = {problem for problems in problems_of.values() for problem in problems}
    chosen: list[_Choice] = []
    while left:
        best = max(problems_of, key=lambda choice: len(left.intersection(problems_of[choice])))
        chosen.append(best)
        left.difference_update(problems_of[best])
    return chosen
