"""Picks for drawn shapes: of this revision, or an older one, since nothing here is newer than the choosing.

A row is an element type, and the precision of the products, as in 'float32:fp16x3'.
"""

from collections.abc import Iterable, Sequence

from studies.unseen.drawing import Drawn
from tilewright.core.dtypes import default_result
from tilewright.core.problem import Arithmetic, Problem, orders
from tilewright.select.selector import select

ROWS = ("bfloat16", "float16", "float32", "float32:fp16x3")

Picks = dict[str, tuple[str, dict[str, int]]]
"""Kernel and config by `key`."""


def key(drawn: Drawn, row: str) -> str:
    """The name of a drawn shape in a file of picks."""
    return f"{drawn.m}x{drawn.n}x{drawn.k} {drawn.layout} {row}"


def problem_of(drawn: Drawn, row: str) -> Problem:
    """The problem of a drawn shape."""
    dtype, _, precision = row.partition(":")
    a, b = orders(drawn.layout)
    arithmetic = Arithmetic(dtype, default_result(dtype), precision or None)
    return Problem(drawn.m, drawn.n, drawn.k, arithmetic, a=a, b=b)


def picks(shapes: Sequence[Drawn], rows: Iterable[str], capability: tuple[int, int], device: str) -> Picks:
    """Kernels and configs that are picked for shapes on a GPU of this name."""
    found: Picks = {}
    for row in rows:
        for one in shapes:
            kernel, config = select(problem_of(one, row), capability, device)
            found[key(one, row)] = kernel.name, dict(config)
    return found
