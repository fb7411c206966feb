"""Is a kernel right? Random operands, a poisoned output, a float64 reference."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.api import activations
from tilewright.core.dtypes import ELEMENT_TYPES, FLOAT8, INT8, ITEM_BYTES, SUMS_OF_INT8
from tilewright.core.errors import ProblemError
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import FAST, SCALED_BLOCK, Layout, Problem, Scalars, Scale
from tilewright.tools.explain.accuracy import LEFT

_ACTIVATION_UNITS = 8
"""Units of 2**-23 of a sum that computing an activation of it may err by."""

_STEEPEST = 1.13
"""Largest slope of an activation, and so how many times larger it may make an error: that of gelu, at 1.41."""

_FLOAT8_UNIT = 2.0**-13
"""Unit of the last place that tensor cores keep of sums of float8 products."""

_CHUNK = 1 << 20
"""Elements that are compared at a time."""

READS_C = (
    "C is read though beta is 0, where it may hold anything, as NaN here: the kernel needs "
    "(beta == 0 ? 0 : beta * C), or --beta other than 0"
)
"""Message for a kernel whose result is NaN for that."""


@dataclass(frozen=True)
class Operands:
    """Host arrays of one problem, uniformly random in [-1, 1) and rounded to its element types, or over all integers
    that these have (from -3 to 3 for results of float16), without gaps.

    a is m x k and b k x n, column-major where the problem says so. c is m x n: what D holds before the run, random
    where beta is not 0 and NaN, or the least integer, where it is, so that an element that is left unwritten, or read
    though beta = 0, shows.
    In a batch, each has one more dimension, the first; a matrix that serves the whole batch does not. bias has the
    elements of a row or a column, None where the problem has no bias. scale_a and scale_b are between 0.5 and 2: one
    number, or one for each row of a (column of b), or for each block; None where the problem has none. ends is None
    but for a grouped product: the row where each group ends, one group being empty, and some rows being of no group.
    """

    problem: Problem
    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any]
    scalars: Scalars = Scalars()
    bias: NDArray[Any] | None = None
    scale_a: NDArray[np.float32] | None = None
    scale_b: NDArray[np.float32] | None = None
    ends: NDArray[np.int32] | None = None

    @classmethod
    def draw(cls, problem: Problem, scalars: Scalars = Scalars(), seed: int = 0) -> "Operands":
        """Draw operands; the same seed gives the same ones."""
        random = np.random.default_rng(seed)

        def uniform(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
            if "int" in dtype:
                least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
                if problem.result == "float16":  # does not hold larger sums
                    least, most = max(least, -3), 3
                return random.integers(least, most, shape, dtype, endpoint=True)
            return (random.random(shape, dtype=np.float32) * 2 - 1).astype(dtype, copy=False)

        def factor(layout: Layout, rows: int, cols: int, dtype: str) -> NDArray[Any]:
            count = (problem.batch,) if problem.batch != 1 and layout.batch_stride else ()
            lines = uniform((*count, *layout.lines(rows, cols)), dtype)
            return lines if layout.order == "row" else lines.swapaxes(-1, -2)

        m, n, k = problem.m, problem.n, problem.k
        a, b = factor(problem.a, m, k, problem.dtype), factor(problem.b, k, n, problem.dtype_b)
        of_c = (problem.batch, m, n) if problem.addend.batch_stride else (m, n)
        unread = np.iinfo(np.int32).min if problem.result == SUMS_OF_INT8 else np.nan
        c = uniform(of_c, problem.result) if scalars.beta else np.full(of_c, unread, dtype=problem.result)
        side = problem.epilogue.bias
        bias = uniform((n if side == "row" else m,), problem.result) if side else None
        scaling, steps = problem.scaling, ceil_div(k, SCALED_BLOCK)
        # Of a grouped product each matrix of B has scales of its columns.
        deep = problem.batch if problem.grouped and scaling.b and scaling.b.kind == "line" else 1
        scale_a = _scales(random, scaling.a, m, steps)
        scale_b = _scales(random, scaling.b, n, steps, deep)
        if scale_b is not None and not problem.grouped:
            scale_b = scale_b.T.copy()
        ends = _ends(problem) if problem.grouped else None
        return cls(problem, a, b, c, scalars, bias, scale_a, scale_b, ends)

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """alpha * a @ b + beta * c + bias in float64, of the rounded operands. Of a grouped product c where rows are of
        no group."""
        alpha, beta, _ = self.scalars
        with np.errstate(invalid="ignore"):  # an infinity times 0 is NaN
            sums = self._products()
        if alpha == 0:  # a and b are not read
            sums[:] = 0
        elif alpha != 1:
            sums *= alpha
        if beta:
            sums += beta * self.c.astype(np.float64)
        if self.bias is not None:
            values = self.bias.astype(np.float64)
            sums += values if self.problem.epilogue.bias == "row" else values[:, np.newaxis]
        if self.ends is not None:
            sums[self.ends[-1] :] = self.c[self.ends[-1] :]
        return wrapped(sums) if self.problem.result == SUMS_OF_INT8 else sums

    def _products(self) -> NDArray[np.float64]:
        """a @ b, of scaled factors."""
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        if self.scale_a is not None:
            a *= spread(self.scale_a, a.shape)
        if self.ends is None:
            if self.scale_b is not None:
                b *= spread(self.scale_b, b.shape)
            return np.asarray(np.matmul(a, b))
        if self.scale_b is not None:
            b *= self.scale_b.T[:, np.newaxis]
        products = np.zeros((self.problem.m, self.problem.n))
        for begin, end, matrix in zip((0, *self.ends), self.ends, b, strict=False):
            products[begin:end] = a[begin:end] @ matrix
        return products

    @cached_property
    def reference(self) -> NDArray[np.float64]:
        """Values that D must have: the activation of the sums."""
        return activations.apply(self.problem.epilogue.activation, self.sums)

    def error(self, result: NDArray[Any]) -> float:
        """Relative Frobenius norm ||result - reference|| / ||sums||, of elements whose sums are finite; NaN where an
        element is no finite number that should be one, or is another infinity or NaN than it should be.

        The sums and the reference are one where there is no activation. Where there is, it may make any number small,
        but no error much larger.
        """
        lines = (math.prod(result.shape[:-1]), result.shape[-1])
        ours, exact = result.reshape(lines), self.reference.reshape(lines)
        rows = max(_CHUNK // max(lines[1], 1), 1)
        chunks = [slice(row, row + rows) for row in range(0, lines[0], rows)]

        def square(chunk: slice) -> float:
            return _square(_difference(ours[chunk].astype(np.float64), exact[chunk], self._all_finite))

        if len(chunks) == 1:
            difference = math.sqrt(square(chunks[0]))
        else:
            with ThreadPoolExecutor() as threads:  # NumPy works outside of Python's lock
                difference = math.sqrt(sum(threads.map(square, chunks)))
        return difference / self.norm if self.norm else difference

    @cached_property
    def norm(self) -> float:
        """Frobenius norm of the sums that are finite."""
        squares = _square(self.sums)
        return math.sqrt(squares if math.isfinite(squares) else _square(self.sums[np.isfinite(self.sums)]))

    @cached_property
    def _all_finite(self) -> bool:
        return bool(np.isfinite(self.reference).all())


def _scales(
    random: np.random.Generator, scale: Scale | None, sides: int, steps: int, deep: int = 1
) -> NDArray[np.float32] | None:
    """Scales of rows (or columns, or blocks of them) of a side, and of steps along k where they differ there; else
    `deep` of each."""
    if scale is None:
        return None
    count = 1 if scale.kind == "tensor" else ceil_div(sides, scale.sides)
    return random.uniform(0.5, 2, (count, steps if scale.of_blocks else deep)).astype(np.float32)


def _ends(problem: Problem) -> NDArray[np.int32]:
    """Where the groups of a grouped product end: the second is empty, the third has one row, a ninth is of no group."""
    rows, groups = problem.m, problem.batch
    ends = np.linspace(0, rows - rows // 9, groups + 1)[1:].astype(np.int32)
    if groups > 3:
        ends[1], ends[2] = ends[0], ends[0] + 1
    return ends


def _difference(ours: NDArray[np.float64], exact: NDArray[np.float64], all_finite: bool) -> NDArray[np.float64]:
    """Differences of elements; 0 where both are the same infinity, or NaN."""
    if all_finite:
        return ours - exact
    with np.errstate(invalid="ignore"):
        return np.where((ours == exact) | (np.isnan(ours) & np.isnan(exact)), 0.0, ours - exact)


def spread(scale: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Scales of a factor of this shape, as broadcast to its elements: a block's one for each 128 of them."""
    for axis, length in enumerate(shape[-2:]):
        if scale.shape[axis] not in (1, length):
            scale = np.repeat(scale, SCALED_BLOCK, axis).take(range(length), axis)
    return scale


def wrapped(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Integers as 32 bits hold them."""
    return sums.astype(np.int64).astype(np.int32).astype(np.float64)


def _square(elements: NDArray[np.float64]) -> float:
    return float(np.vdot(elements, elements))


def check_memory(problem: Problem) -> None:
    """Raise ProblemError where this machine's memory cannot hold `Operands` of a problem and its result."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The operands, the factors in float64 and their product, and the result.
    factors = problem.k * (problem.m + problem.n) * (ITEM_BYTES[problem.dtype] + 8)
    needed = problem.batch * (factors + problem.m * problem.n * (2 * ITEM_BYTES[problem.result] + 8))
    if needed > pages:
        raise ProblemError(
            f"{problem.shape} needs {needed / 2**30:,.0f} GiB of memory, to be checked against float64, and this "
            f"machine has {pages / 2**30:,.0f}"
        )


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
    - bf16x6: three parts have all bits of an element: float16's limit. Where threads add what tensor cores make, far
      less is reached; six products in one sum (rung 27) come to 0.8 of it.
    - bf16x3: the second part is 2**-8 / sqrt(7) of an element in the root mean square, by the same reasoning as for
      TF32, and so is what it leaves of itself. So the square of that is left of each factor, and as much is the product
      of both second parts, which is not made: 3.8e-6 together. Twice that is allowed.
    - fp16x3: the same with three bits more in each part, so 2**-6 of that.
    - float8: an addition of 32 products keeps 13 bits behind the point of the largest, and cuts off the rest: a unit of
      2**-13 of a sum of 128 of k, in the root mean square. Where threads add up such sums, errors are independent, and
      a long sum errs as a short one does. Where they do not, by a unit for each three additions, as above. Twice the
      one and half more of the other are allowed.
    - int8 and uint8: sums are exact. Where results are not int32, they are rounded, and so are the scalings; those of
      blocks are added up in float32.
    - An activation multiplies errors by its slope, and adds a few units of its own. Rounding the result to 16 bits
      adds half a unit in the last place of each element.

    Args:
        problem: the product.
        precision: what operands are rounded to before they are multiplied, as `Support.precision` says it, or what is
            promised; None where they are taken as they come.
    """
    unit = 2.0**-23
    if problem.result == SUMS_OF_INT8:
        return 0.0
    allowed = unit * (0.5 * math.sqrt(problem.k) + 4)
    if problem.dtype in INT8 and not problem.scaling.of_blocks:
        allowed = unit * 4
    elif problem.dtype in FLOAT8:
        allowed += _FLOAT8_UNIT * (2 + (problem.k / 64 if precision == FAST else 0))
    elif precision not in (None, "ieee") or problem.dtype != "float32":
        allowed += unit * problem.k / 16
    allowed += 2 * LEFT.get(precision or "", 0.0)
    if problem.epilogue.activation:
        allowed = _STEEPEST * allowed + _ACTIVATION_UNITS * unit
    rounding = 0 if problem.result == "float32" else 2.0 ** -ELEMENT_TYPES[problem.result].mantissa
    return allowed + rounding  # of float32 the sums' limit has it
