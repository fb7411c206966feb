"""Shapes drawn at random, by which the choice of kernels is judged. A seed gives the same shapes on every machine.

This file was committed before any kernel selection was fitted, and is not changed since.
"""

import math
import random
from collections.abc import Iterable
from typing import NamedTuple

from tilewright.core.problem import LAYOUTS

SMALLEST, LARGEST = 16, 8192
"""Bounds of m, n and k, which are drawn evenly over their logarithms."""

LEAST_WORK, MOST_WORK = 1e7, 3e11
"""Floating-point operations, 2mnk, that a product has more and less than."""

STEP = 8
"""Elements whose multiples start at multiples of 16 bytes in 16-bit types."""

SHAPES = 200
"""Shapes of each kind."""

APART = 1.1
"""A shape is drawn again where each of its sizes is within this factor of the same surveyed problem's size."""

EVEN, UNEVEN = "multiples of 8", "others"
"""Kinds of shapes: all sizes are multiples of STEP, or not all are."""

Sizes = tuple[int, int, int]
"""m, n and k."""


class Drawn(NamedTuple):
    """A shape, and the orders of A and B that it is measured in, as in 'NT'."""

    kind: str
    m: int
    n: int
    k: int
    layout: str


def draw(seed: int, surveyed: Iterable[Sizes] = (), shapes: int = SHAPES) -> list[Drawn]:
    """Draw the shapes of a seed: those of EVEN, then those of UNEVEN.

    Args:
        seed: of the random numbers.
        surveyed: problems that the choice of kernels was fitted to; no shape is near one.
        shapes: number of each kind.
    """
    numbers, known = random.Random(seed), list(surveyed)
    found: list[Drawn] = []
    for kind, step in ((EVEN, STEP), (UNEVEN, 1)):
        while len(found) < (shapes if kind == EVEN else 2 * shapes):
            m, n, k = (_size(numbers.random(), step) for _ in range(3))
            layout = LAYOUTS[int(numbers.random() * len(LAYOUTS))]
            even = m % STEP == n % STEP == k % STEP == 0
            if LEAST_WORK < 2 * m * n * k < MOST_WORK and even == (kind == EVEN) and not _is_near((m, n, k), known):
                found.append(Drawn(kind, m, n, k, layout))
    return found


def _size(number: float, step: int) -> int:
    """The multiple of a step that a number from 0 to 1 stands for."""
    return round(SMALLEST * math.exp(number * math.log(LARGEST / SMALLEST)) / step) * step


def _is_near(sizes: Sizes, known: Iterable[Sizes]) -> bool:
    return any(
        all(max(one, other) <= APART * min(one, other) for one, other in zip(sizes, problem, strict=True))
        for problem in known
    )
