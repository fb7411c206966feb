"""Problems of matrices with more than 2^32 elements: lines far apart, and sizes of which some blocks are run."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import ConfigError, LaunchError
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Layout, Problem
from tilewright.emulator.check import telling_shapes
from tilewright.emulator.program import GRID_LIMITS
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import VECTOR_BYTES

REACH = 2**32 + 2**31
"""Elements of a matrix: an index of 32 bits is wrong for many of them, with a sign or without."""

_HALVINGS = 12
"""How often one side of a matrix is halved, and the other one doubled, to find a grid that GPUs take."""


def with_far_lines(problem: Problem, aligned: bool) -> Problem:
    """A problem of equal sizes whose matrices have lines so far apart that each of the matrices has `REACH` elements.

    Args:
        problem: of at least 5 lines of A, B and D.
        aligned: whether lines start at multiples of 16 bytes, or at none that vectors need.
    """
    m, n, k = problem.m, problem.n, problem.k
    a, b, d = (
        _far(layout, *layout.lines(rows, cols), ITEM_BYTES[dtype], aligned)
        for layout, rows, cols, dtype in (
            (problem.a, m, k, problem.dtype),
            (problem.b, k, n, problem.dtype_b),
            (problem.d, m, n, problem.result),
        )
    )
    return replace(problem, a=a, b=b, c=None, d=d)


def _far(layout: Layout, lines: int, length: int, item: int, aligned: bool) -> Layout:
    vector = VECTOR_BYTES // item
    first = ceil_div(REACH, (lines - 1) * vector) * vector + (0 if aligned else 1)
    return layout._replace(
        ld=next(ld for ld in itertools.count(first, vector) if _misses(ld, lines, length, item)), batch_stride=None
    )


def _misses(ld: int, lines: int, length: int, item: int) -> bool:
    """Whether all that an index reaches which has lost its high bits, in elements or bytes, is between the lines."""
    begins = np.arange(lines, dtype=np.int64) * ld
    for lost in (2**32, 2**32 // item):
        begin = begins[begins >= lost] % lost % ld
        if ((begin < length) | (begin > ld - length)).any():
            return False
    return True


def huge_problems(
    kernel: Kernel, config: Config, problem_of: Callable[[tuple[int, int, int]], Problem]
) -> Iterator[Problem]:
    """Problems of which C, A or B has about `REACH` elements, and the grid is one that GPUs take.

    Args:
        kernel, config: what is to run.
        problem_of: gives the problem of these sizes.
    """
    m, n, k = telling_shapes(kernel, config)[0]
    side = math.sqrt(REACH)
    exponents = sorted(range(-_HALVINGS, _HALVINGS + 1), key=abs)
    of_c = ((_multiple(side * 2**i, m), _multiple(side / 2**i, n), k) for i in exponents)
    of_a = ((_multiple(REACH / (k << i), m), n, k << i) for i in range(_HALVINGS))
    of_b = ((m, _multiple(REACH / (k << i), n), k << i) for i in range(_HALVINGS))
    for shapes in (of_c, of_a, of_b):
        fit = (problem for problem in map(problem_of, shapes) if _is_taken_by_gpus(kernel, problem, config))
        yield from itertools.islice(fit, 1)


def _multiple(size: float, unit: int) -> int:
    return unit * math.ceil(size / unit)


def _is_taken_by_gpus(kernel: Kernel, problem: Problem, config: Config) -> bool:
    """Whether there is a grid for a problem, and no larger than GPUs launch."""
    try:
        grid = kernel.launch(problem, config, kernel.tiles(problem, config)).grid
    except (ConfigError, LaunchError):
        return False
    return all(1 <= extent <= most for extent, most in zip(grid, GRID_LIMITS, strict=True))
