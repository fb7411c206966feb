"""Suites: named lists of problems, as shipped in suites.json."""

import json
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources

from tilewright.errors import SuiteNotFoundError, nearest
from tilewright.problem import Arithmetic, Problem


@lru_cache
def shapes() -> dict[str, tuple[tuple[int, int, int], ...]]:
    """Every suite by name: its problems' (m, n, k)."""
    text = resources.files("tilewright.bench").joinpath("suites.json").read_text(encoding="utf-8")
    return {name: tuple((m, n, k) for m, n, k in sizes) for name, sizes in json.loads(text)["suites"].items()}


def suite(name: str, dtype: str = "float32") -> list[Problem]:
    """The problems of a suite.

    Raises:
        SuiteNotFoundError: no suite has this name; the message gives the nearest.
    """
    if name not in shapes():
        raise SuiteNotFoundError(f"no suite is called {name!r}{nearest(name, shapes())}")
    return [Problem(m, n, k, Arithmetic(dtype)) for m, n, k in shapes()[name]]


def problems(sizes: Iterable[str], names: Iterable[str], dtype: str = "float32") -> list[Problem]:
    """Problems by their sizes, 'MxNxK', and those of suites by their names.

    Raises:
        ProblemError, DtypeError: sizes do not parse, or no such problem can be.
        SuiteNotFoundError: no suite has one of the names.
    """
    of_sizes = [Problem.parse(text, arithmetic=Arithmetic(dtype)) for text in sizes]
    return of_sizes + [problem for name in names for problem in suite(name, dtype)]
