"""Checks whether a row of the result has the same bits whatever m is and whatever the other rows hold."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import LaunchError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.engines.base import run
from tilewright.engines.emulator.checker import Finding, padded
from tilewright.engines.emulator.compiler import CHECKED
from tilewright.engines.emulator.engine import EmulatorEngine
from tilewright.engines.emulator.program import Watch
from tilewright.kernels.spec import Config, Kernel


def check_rows(
    kernel: Kernel,
    config: Config,
    problem: Problem,
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    scalars: Scalars = Scalars(),
) -> list[Finding]:
    """Multiply some rows of A alone, and all of them with NaN and large elements in the others: bits must not change.

    Args:
        kernel, config, scalars: what runs.
        problem: one product, without a bias; of its layouts only the orders are used.
        a, b, c: m x k, k x n and m x n elements, m at least 1. C is not written.

    Raises:
        CompileError: the compiler refuses the source.
        EngineUnavailableError: there is no C++ compiler.
    """
    engine = EmulatorEngine(CHECKED, lambda facts: Watch())

    def product(some_a: NDArray[Any], some_c: NDArray[Any]) -> NDArray[Any]:
        m = len(some_a)
        one = replace(problem, m=m, a=Layout(problem.a.order), b=Layout(problem.b.order), d=Layout(), c=None)
        factors = padded(some_a, one.a.ld, one.a.order), padded(b, one.b.ld, one.b.order)
        d = padded(some_c, one.d.ld)
        run(engine, kernel, config, one, *factors, d, scalars)
        result = engine.download(d)
        return result.view(f"u{result.itemsize}")

    found: list[Finding] = []
    try:
        whole = product(a, c)
        for rows, what in _parts(problem.m):
            if (product(a[rows], c[rows]) != whole[rows]).any():
                found.append(Finding("rows", None, message=f"{what} have other bits when they are multiplied alone"))
        for value in (np.nan, 2.0**14):
            kept = problem.m // 2
            others = np.full_like(a, value)
            others[kept] = a[kept]
            if (product(others, c)[kept] != whole[kept]).any():
                message = f"row {kept} of {problem.m} has other bits where all other rows of A hold {value:g}"
                found.append(Finding("rows", None, message=message))
    except LaunchError as failure:
        found.append(Finding("launch", None, message=str(failure)))
    return found


def _parts(m: int) -> Iterator[tuple[slice, str]]:
    """Rows that are multiplied alone, and what they are called."""
    for first, end in dict.fromkeys(((0, 1), (m - 1, m), (m // 3, max(2 * m // 3, m // 3 + 1)))):
        yield slice(first, end), f"rows {first} to {end - 1} of {m}"
