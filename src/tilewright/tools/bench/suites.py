"""Suites: named lists of problems, as shipped in suites.json."""

import itertools
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from tilewright.core.errors import SuiteNotFoundError, nearest
from tilewright.core.problem import Arithmetic, Epilogue, Problem, Scaling, orders


class SuiteSize(NamedTuple):
    """A suite's problem, whatever it is computed in."""

    m: int
    n: int
    k: int
    batch: int = 1
    layout: str = "NN"
    """Orders of A and B, as one of `problem.LAYOUTS`."""


@lru_cache
def shapes() -> dict[str, tuple[SuiteSize, ...]]:
    """Every suite by name."""
    text = resources.files("tilewright.tools.bench").joinpath("suites.json").read_text(encoding="utf-8")
    lists = json.loads(text)
    plain = {name: tuple(SuiteSize(*sizes) for sizes in members) for name, members in lists["suites"].items()}
    return plain | {name: tuple(SuiteSize(**member) for member in members) for name, members in lists["blocks"].items()}


def problems(
    sizes: Iterable[str],
    names: Iterable[str],
    arithmetic: Arithmetic = Arithmetic(),
    *,
    layouts: Sequence[str | None] = (None,),
    batch: int | None = None,
    epilogue: Epilogue = Epilogue(),
    scales: str | None = None,
) -> list[Problem]:
    """Problems by their sizes, 'MxNxK', and those of suites by their names.

    Args:
        sizes, names: of the problems, and of suites.
        arithmetic, epilogue: of all of them.
        layouts: orders of A and B, as in 'NT', one after the other for each problem; None for each suite's own, and
            'NN' for sizes.
        scales: which scales factors have, one of `problem.SCALINGS`; None for none.
        batch: products; None for each suite's own, and 1 for sizes.

    Raises:
        ProblemError, DtypeError: sizes do not parse, or no such problem can be.
        SuiteNotFoundError: no suite has one of the names; the message gives the nearest.
    """
    chosen = [SuiteSize(one.m, one.n, one.k) for one in map(Problem.parse, sizes)]
    for name in names:
        if name not in shapes():
            raise SuiteNotFoundError(f"no suite is called {name!r}{nearest(name, shapes())}")
        chosen += shapes()[name]
    found = []
    for shape, layout in itertools.product(chosen, layouts):
        a, b = orders(layout or shape.layout)
        count = shape.batch if batch is None else batch
        scaling = Scaling.dense(scales, shape.n, shape.k)
        found.append(Problem(shape.m, shape.n, shape.k, arithmetic, count, a, b, epilogue=epilogue, scaling=scaling))
    return list(dict.fromkeys(found))  # a column of A that is a row too is the same in both orders
