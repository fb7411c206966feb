"""Is a kernel right? Random operands, a poisoned output, a float64 reference."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.engines.base import poisoned
from tilewright.problem import Problem


@dataclass(frozen=True)
class Operands:
    """Host arrays of one problem, with no gap between rows.

    a is m x k and b k x n, uniformly random in [-1, 1). c is m x n: what C holds before the run, random where beta
    is not 0 and NaN where it is, so that an element that is left unwritten, or read though beta = 0, shows.
    """

    problem: Problem
    a: NDArray[np.float32]
    b: NDArray[np.float32]
    c: NDArray[np.float32]

    @classmethod
    def draw(cls, problem: Problem, seed: int = 0) -> "Operands":
        """Draw operands; the same seed gives the same ones."""
        random = np.random.default_rng(seed)

        def uniform(rows: int, cols: int) -> NDArray[np.float32]:
            return random.random((rows, cols), dtype=np.float32) * 2 - 1

        m, n, k = problem.m, problem.n, problem.k
        return cls(problem, uniform(m, k), uniform(k, n), uniform(m, n) if problem.beta else poisoned(m, n))

    @cached_property
    def reference(self) -> NDArray[np.float64]:
        """alpha * a @ b + beta * c in float64."""
        product = self.problem.alpha * (self.a.astype(np.float64) @ self.b.astype(np.float64))
        return product + self.problem.beta * self.c if self.problem.beta else product

    def error(self, result: NDArray[np.float32]) -> float:
        """Relative Frobenius norm ||result - reference|| / ||reference||; NaN where the result holds one."""
        difference = float(np.linalg.norm(result - self.reference))
        norm = float(np.linalg.norm(self.reference))
        return difference / norm if norm else difference


def limit(problem: Problem) -> float:
    """The largest relative Frobenius error that float32 arithmetic explains.

    Adding k products one after another errs by about 0.2 * sqrt(k) units of 2**-23 on random operands (N. Higham,
    "Accuracy and Stability of Numerical Algorithms", chapter 4, gives the growth with sqrt(k)); twice that is
    allowed, and 4 units for the scalings by alpha and beta.
    """
    return 2.0**-23 * (0.5 * math.sqrt(problem.k) + 4)
