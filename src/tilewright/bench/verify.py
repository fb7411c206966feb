"""Is a kernel right? Random operands, a poisoned output, a float64 reference."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.engines.base import poisoned
from tilewright.problem import Problem, Scalars

_TF32_INPUTS = 2.0**-11 * math.sqrt(2 / 7)
"""Relative error of a product of random operands that were rounded to TF32: see `limit`."""


_CHUNK = 1 << 20
"""Elements that are compared at a time."""


@dataclass(frozen=True)
class Operands:
    """Host arrays of one problem, with no gap between rows.

    a is m x k and b k x n, uniformly random in [-1, 1) and rounded to the problem's element type. c is m x n: what C
    holds before the run, random where beta is not 0 and NaN where it is, so that an element that is left unwritten, or
    read though beta = 0, shows.
    """

    problem: Problem
    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[np.float32]
    scalars: Scalars = Scalars()

    @classmethod
    def draw(cls, problem: Problem, scalars: Scalars = Scalars(), seed: int = 0) -> "Operands":
        """Draw operands; the same seed gives the same ones."""
        random = np.random.default_rng(seed)

        def uniform(rows: int, cols: int, dtype: str) -> NDArray[Any]:
            return (random.random((rows, cols), dtype=np.float32) * 2 - 1).astype(dtype, copy=False)

        m, n, k = problem.m, problem.n, problem.k
        a, b = uniform(m, k, problem.dtype), uniform(k, n, problem.dtype)
        return cls(problem, a, b, uniform(m, n, problem.result) if scalars.beta else poisoned(m, n), scalars)

    @cached_property
    def reference(self) -> NDArray[np.float64]:
        """alpha * a @ b + beta * c in float64, of the rounded operands."""
        alpha, beta = self.scalars
        product: NDArray[np.float64] = alpha * (self.a.astype(np.float64) @ self.b.astype(np.float64))
        return product + beta * self.c if beta else product

    def error(self, result: NDArray[np.float32]) -> float:
        """Relative Frobenius norm ||result - reference|| / ||reference||; NaN where the result holds one."""
        rows = max(_CHUNK // max(result.shape[1], 1), 1)
        chunks = [slice(row, row + rows) for row in range(0, result.shape[0], rows)]
        with ThreadPoolExecutor() as threads:  # NumPy works outside of Python's lock
            squares = threads.map(lambda chunk: _square(result[chunk] - self.reference[chunk]), chunks)
            difference = math.sqrt(sum(squares))
        return difference / self._norm if self._norm else difference

    @cached_property
    def _norm(self) -> float:
        return math.sqrt(_square(self.reference))


def _square(elements: NDArray[np.float64]) -> float:
    return float(np.vdot(elements, elements))


def limit(problem: Problem, precision: str | None = None) -> float:
    """The largest relative Frobenius error that the arithmetic explains, for operands as `Operands` draws them.

    - float32: adding k products one after another errs by about 0.2 * sqrt(k) units of 2**-23 on random operands
      (N. Higham, "Accuracy and Stability of Numerical Algorithms", chapter 4, gives the growth with sqrt(k)); twice
      that is allowed, and 4 units for the scalings by alpha and beta.
    - float16, bfloat16: products are exact in float32, but tensor cores cut off what does not fit into a sum where
      others round (M. Fasi and others, "Numerical behavior of NVIDIA tensor cores", 2021). So the errors of all
      additions point the same way, each half a unit in the mean, of sums that are two thirds of the last one in the
      mean. With 8 products an addition, the fewest, that makes k/24 units; half more is allowed, and float32's limit.
    - tf32: the same, and the rounding of the operands to 11 bits. An element from [x, 2x), x a power of two, errs by
      2**-10 / sqrt(12) * x; over all of [-1, 1) that is 2**-11 / sqrt(7) of an element, in the root mean square. Errors
      of two factors are independent, so a product errs by sqrt(2) times that, and a sum by as much, however long it is:
      2.6e-4. Twice that is allowed. Operands that are cut off, and not rounded, err by more.

    Args:
        problem: the product.
        precision: what operands are rounded to before they are multiplied, as `Kernel.precision` says it; None
            where they are taken as they come.
    """
    unit = 2.0**-23
    exact = unit * (0.5 * math.sqrt(problem.k) + 4)
    if precision is None and problem.dtype == "float32":
        return exact
    summed = exact + unit * problem.k / 16
    return summed + 2 * _TF32_INPUTS if precision == "tf32" else summed
