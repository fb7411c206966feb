"""Where tabled problems lie among others, and how far a problem is from each."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.select.cost.prediction import Dims
from tilewright.select.tables.cases import Case, problem_of

_OTHER_ALIGNMENT = 1 / 3
"""How far apart aligned and unaligned lines put two problems."""

_ROUNDING = 1e-9
"""Keeps squares of distances from being negative."""

LENGTH = 0.3
"""Distance over which a neighbour's weight falls to 1/e."""

FAR = 2.0
"""Where no tabled problem is as near as this, tables say nothing of a problem."""

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]
Flags = NDArray[np.bool_]


class Positions:
    """Where the tabled problems of a case lie among others."""

    def __init__(self, case: Case, sizes: NDArray[np.int64]) -> None:
        self._case, self._sizes = case, sizes
        log_m, log_n, log_k, log_batch = np.log2(np.maximum(sizes, 1)).T
        positions = np.array(_position(log_m, log_n, log_k, log_batch))
        self.positions = np.vstack((-2 * positions, (positions * positions).sum(axis=0), np.ones(len(sizes))))
        """A column p for each problem: (x, y, z, 1, x*x + y*y + z*z) @ p is the square of its distance from the place
        (x, y, z)."""
        aligned = _aligned(case, sizes)
        self.apart = {given: _OTHER_ALIGNMENT * (aligned != given) for given in (False, True)}
        self.rows = {tuple(one): row for row, one in enumerate(sizes.tolist())}
        """By m, n, k and batch."""

    def sizes(self, row: int, cached: str | None = None) -> Dims:
        """The sizes of a tabled problem; cached: the operand whose copy is cached."""
        m, n, k, batch = self._sizes[row].tolist()
        case = f"{self._case.layout} {self._case.factors}->{self._case.result}"
        return Dims.of(problem_of(m, n, k, case, batch), cached=cached)

    def row(self, sizes: Dims) -> int | None:
        """Where a problem is tabled itself, gaps between rows that do not matter aside; None where it is not."""
        found = self.rows.get((sizes.m, sizes.n, sizes.k, sizes.batch))
        if found is None:
            return None
        form, tabled = sizes.form, self.sizes(found).form
        return found if (form.aligned, form.starts) == (tabled.aligned, tabled.starts) else None

    def distances(self, sizes: Dims) -> Floats:
        """How far each tabled problem is from a problem."""
        x, y, z = position(sizes)
        found: Floats = np.array((x, y, z, 1.0, x * x + y * y + z * z + _ROUNDING)).dot(self.positions)
        np.sqrt(found, found)
        found += self.apart[sizes.aligned]
        return found


def position(sizes: Dims) -> tuple[float, float, float]:
    """Where a problem lies among others: how many results it has counts most, then k, then how square it is.

    One along an axis is twice the results, 8 times the k, or 32 times as tall or wide.
    """
    log2 = math.log2
    return _position(log2(sizes.m or 1), log2(sizes.n or 1), log2(sizes.k or 1), log2(sizes.batch or 1))


def _position(log_m: Any, log_n: Any, log_k: Any, log_batch: Any) -> tuple[Any, Any, Any]:
    """The coordinates of `place`, from logarithms that are numbers or arrays."""
    return log_m + log_n + log_batch, log_k / 3, (log_m - log_n) / 5


def _aligned(case: Case, sizes: NDArray[np.int64]) -> Flags:
    """`takes.all_aligned` of problems without gaps."""
    m, n, k, batch = sizes.T

    def offsets(lines: NDArray[np.int64], length: NDArray[np.int64], item_bytes: int) -> NDArray[np.int64]:
        length = np.maximum(length, 1)
        gaps = np.bitwise_or(np.where(lines > 1, length, 0), np.where(batch > 1, length * lines, 0))
        return gaps * item_bytes

    item, result = ITEM_BYTES[case.factors], ITEM_BYTES[case.result]
    # Columns of one element each are one row: `Layout.simplest`.
    of_a = offsets(m, k, item) if case.layout[0] == "N" else np.where(m == 1, offsets(m, k, item), offsets(k, m, item))
    of_b = offsets(k, n, item) if case.layout[1] == "N" else np.where(k == 1, offsets(k, n, item), offsets(n, k, item))
    gaps = np.where(k > 0, of_a | of_b, 0) | offsets(m, n, result)
    aligned: Flags = gaps % VECTOR_BYTES == 0
    return aligned
