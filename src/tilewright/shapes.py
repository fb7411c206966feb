"""From shapes and strides of arrays to a Problem: what `numpy.matmul` makes of them, in place wherever a layout
describes how they lie.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.errors import ArrayError
from tilewright.problem import Arithmetic, Epilogue, Layout, Order, Problem, Side

_LARGEST_LD = 2**31 - 2**12


class View(NamedTuple):
    """An array's shape, and its strides in elements; None where these are no whole numbers of elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None

    @classmethod
    def tight(cls, shape: Sequence[int]) -> "View":
        """A row-major array without gaps."""
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
        return cls(tuple(shape), tuple(strides))


@dataclass(frozen=True)
class Formulation:
    """A product of arrays as a Problem."""

    problem: Problem
    swapped: bool
    """Whether the problem is that of the transposed result: its A is b transposed, its B a transposed."""
    copied: frozenset[str]
    """Arguments, of a, b, c and out, that no layout describes: they are row-major copies instead. A copy has the whole
    batch; that of out is written, and then copied to it."""
    batch: tuple[int, ...]
    """The result's dimensions before those of a matrix."""
    shape: tuple[int, ...]
    """The result's."""


class _Matrices(NamedTuple):
    """A batch of matrices in memory."""

    layout: Layout
    is_copy: bool


def result_shape(a: Sequence[int], b: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of a batch, and the shape of the result, of arrays of these shapes.

    Raises:
        ArrayError: they cannot be multiplied; the message names what does not fit.
    """
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ArrayError(f"{name} must be a vector, a matrix or a batch of matrices, got a scalar")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ArrayError(f"b must have {a[-1]} rows, as a has columns: got b of {size(b)}, and a of {size(a)}")
    batch_a, batch_b = tuple(a[:-2]), tuple(b[:-2])
    length = max(len(batch_a), len(batch_b))
    batch = []
    for one, other in zip(_fill(batch_a, length), _fill(batch_b, length), strict=True):
        if one != other and 1 not in (one, other):
            raise ArrayError(f"batches must be equal or 1 in each dimension: got a of {size(a)}, and b of {size(b)}")
        batch.append(other if one == 1 else one)
    rows, cols = a[-2:-1], b[-1:] if len(b) > 1 else ()
    return tuple(batch), (*batch, *rows, *cols)


def formulate(
    a: View,
    b: View,
    out: View | None,
    c: View | None,
    bias: Side | None,
    arithmetic: Arithmetic,
    activation: str | None,
    *,
    row_major: bool = False,
) -> Formulation:
    """The Problem that a product of arrays is.

    Args:
        a, b: factors, as `numpy.matmul` takes them.
        out: of the result's shape, where the result goes; None for a new row-major array.
        c: of the result's shape, what is added; None for nothing.
        bias: the side of the result that it belongs to.
        arithmetic, activation: as in a Problem.
        row_major: whether only row-major operands will do; others are copied.

    Raises:
        ArrayError: the arrays do not fit each other.
    """
    batch, shape = result_shape(a.shape, b.shape)
    m = a.shape[-2] if len(a.shape) > 1 else 1
    n = b.shape[-1] if len(b.shape) > 1 else 1
    k, count = a.shape[-1], math.prod(batch)
    orders: tuple[Order, ...] = ("row",) if row_major else ("row", "column")
    of_a = _matrices(_as_matrices(a, rows_missing=len(a.shape) == 1), m, k, batch, orders)
    of_b = _matrices(_as_matrices(b, cols_missing=len(b.shape) == 1), k, n, batch, orders)

    def of_result(view: View, orders: tuple[Order, ...]) -> _Matrices:
        whole = _as_matrices(view, rows_missing=len(a.shape) == 1, cols_missing=len(b.shape) == 1)
        return _matrices(whole, m, n, batch, orders)

    of_d = of_result(View.tight(shape) if out is None else out, orders)
    if of_d.layout.order == "column" and out is not None:
        # Where it can be read both ways it is row-major.
        as_rows = of_result(out, ("row",))
        of_d = of_d if as_rows.is_copy else as_rows
    of_c = of_d if c is None else of_result(c, (of_d.layout.order,))
    if c is not None and of_d.layout.order == "column" and of_c.is_copy:
        # A copy of c is row-major, so the result is made so too.
        of_d = of_result(View.tight(shape) if out is None else View(shape, None), ("row",))
        of_c = of_result(c, ("row",))
    swapped = of_d.layout.order == "column"
    parts = {"a": of_a, "b": of_b, "c": of_c, "out": of_d}
    copied = frozenset(name for name, part in parts.items() if part.is_copy and not (name == "c" and c is None))
    layouts = {name: part.layout for name, part in parts.items()}
    sides: dict[Side | None, Side | None] = {"row": "column", "column": "row", None: None}
    if swapped:
        m, n, bias = n, m, sides[bias]
        layouts = {name: layout.transposed for name, layout in layouts.items()}
        layouts["a"], layouts["b"] = layouts["b"], layouts["a"]
    elif bias != "column" and (tall := _tall(layouts, m, n, k, count)):
        layouts, m, count = tall, m * count, 1
    problem = Problem(
        m, n, k, arithmetic, count, layouts["a"], layouts["b"], layouts["out"], layouts["c"], Epilogue(bias, activation)
    )
    return Formulation(problem, swapped, copied, batch, shape)


def _tall(layouts: dict[str, Layout], m: int, n: int, k: int, count: int) -> dict[str, Layout] | None:
    """The layouts of a batch against one b as one product of all rows of a; None where rows have no one distance."""
    if count < 2 or layouts["b"].batch_stride:
        return None
    tall = {"b": layouts["b"]}
    for name, length in (("a", k), ("c", n), ("out", n)):
        order, ld, stride = layouts[name].order, layouts[name].ld, layouts[name].batch_stride or 0
        if m == 1:
            ld = stride
        if order != "row" or stride != m * ld or not max(length, 1) <= ld <= _LARGEST_LD:
            return None
        tall[name] = Layout("row", ld)
    return tall


def _as_matrices(view: View, rows_missing: bool = False, cols_missing: bool = False) -> View:
    """The same elements with both dimensions of a matrix; those that are added have one element."""
    shape, strides = view.shape, view.strides
    if rows_missing:
        at = len(shape) if cols_missing else len(shape) - 1
        shape = (*shape[:at], 1, *shape[at:])
        strides = None if strides is None else (*strides[:at], 0, *strides[at:])
    if cols_missing:
        shape = (*shape, 1)
        strides = None if strides is None else (*strides, 0)
    return View(shape, strides)


def _matrices(view: View, rows: int, cols: int, batch: tuple[int, ...], orders: tuple[Order, ...]) -> _Matrices:
    """How a batch of matrices lies in memory; as a row-major copy where no layout of these orders describes it."""
    count = math.prod(batch)
    if 0 in view.shape:  # nothing is read or written, whatever the strides say
        length = max(cols if orders[0] == "row" else rows, 1)
        return _Matrices(Layout(orders[0], length, 0 if count > 1 else None), False)
    if view.strides is not None:
        stride = _batch_stride(view, batch)
        found = [layout for order in orders if (layout := _layout(view, rows, cols, order))]
        if stride is not None and found:
            # Where it can be read both ways, the longer lines are the better ones.
            best = max(found, key=lambda layout: layout.lines(rows, cols)[1])
            return _Matrices(Layout(best.order, best.ld, stride if count > 1 else None), False)
    serves_all = math.prod(view.shape[:-2]) == 1
    return _Matrices(Layout("row", max(cols, 1), 0 if serves_all else rows * max(cols, 1)), True)


def _layout(view: View, rows: int, cols: int, order: Order) -> Layout | None:
    assert view.strides is not None
    row, col = view.strides[-2:]
    if order == "column":
        (row, col), (rows, cols) = (col, row), (cols, rows)
    if (cols > 1 and col != 1) or (rows > 1 and not cols <= row <= _LARGEST_LD):
        return None
    return Layout(order, max(row if rows > 1 else cols, 1))


def _batch_stride(view: View, batch: tuple[int, ...]) -> int | None:
    """Elements from one matrix of a batch to the next, 0 for one that serves all; None where there is none."""
    assert view.strides is not None
    sizes = _fill(view.shape[:-2], len(batch))
    strides = (0,) * (len(batch) - len(view.shape) + 2) + view.strides[:-2]
    known = [
        (whole, 0 if size == 1 else stride)
        for whole, size, stride in zip(batch, sizes, strides, strict=True)
        if whole != 1
    ]
    if not known:
        return 0
    for (_, far), (whole, near) in itertools.pairwise(known):
        if far != near * whole:
            return None
    return known[-1][1] if known[-1][1] >= 0 else None


def _fill(batch: tuple[int, ...], length: int) -> tuple[int, ...]:
    return (1,) * (length - len(batch)) + tuple(batch)


def size(shape: Sequence[int]) -> str:
    """A shape as text: '3 x 4', of a batch '8 of 3 x 4'."""
    matrix = " x ".join(map(str, shape[-2:])) if len(shape) > 1 else f"{shape[0]} elements" if shape else "1 element"
    return matrix if len(shape) < 3 else f"{' x '.join(map(str, shape[:-2]))} of {matrix}"
