"""The fewest configs that do for all problems: a choice among few goes wrong less often."""

from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

NEAR = 1.02
"""A config does for a problem on which it takes at most so many times as long as the fastest."""

_Choice = TypeVar("_Choice", bound=Hashable)


def fewest(does_for: Mapping[_Choice, Collection[Hashable]]) -> list[_Choice]:
    """Few choices that together do for every problem that any of them does for, the most useful first.

    Each next one is that which does for most of the problems that are left (the greedy set cover; the least number is
    hard to find, and seldom much smaller).

    Args:
        does_for: by choice, problems.
    """
    left = {problem for problems in does_for.values() for problem in problems}
    chosen: list[_Choice] = []
    while left:
        best = max(does_for, key=lambda choice: len(left.intersection(does_for[choice])))
        chosen.append(best)
        left.difference_update(does_for[best])
    return chosen
