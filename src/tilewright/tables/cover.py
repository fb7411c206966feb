"""The fewest configs that cover all problems: a choice among few goes wrong less often."""

import numpy as np
from numpy.typing import NDArray

NEAR = 1.02
"""A config covers a problem on which it takes at most this many times as long as the fastest."""


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
