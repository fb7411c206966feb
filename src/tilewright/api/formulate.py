"""From shapes and strides of arrays to a Problem: what `numpy.matmul` makes of them, in place wherever a layout
describes how they lie.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from tilewright.core.errors import ArrayError
from tilewright.core.problem import UNSCALED, Arithmetic, Epilogue, Layout, Order, Problem, Scaling, Side

_LARGEST_LD = 2**31 - 2**12
_PLAIN = Epilogue()
_NOTHING: frozenset[str] = frozenset()
_OTHER_SIDE: dict[Side | None, Side | None] = {"row": "column", "column": "row", None: None}


class View(NamedTuple):
    """An array's shape, and its strides in elements; None where these are no whole numbers of elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None

    @classmethod
    def tight(cls, shape: Sequence[int]) -> "View":
        """A row-major array without gaps."""
        strides, stride = [], 1
        for length in reversed(shape):
            strides.append(stride)
            stride *= length or 1
        return cls(tuple(shape), tuple(reversed(strides)))


class Formulation(NamedTuple):
    """A product of arrays as a Problem."""

    problem: Problem
    swapped: bool
    """Whether the problem is that of the transposed result: its A is b transposed, its B a transposed."""
    copied: frozenset[str]
    """Arguments, of a, b, c and out, that no layout describes: they are row-major copies instead. A copy has the whole
    batch; that of out is written, and then copied to it."""
    batch: tuple[int, ...]
    """The result's dimensions before those of a matrix; of a grouped product, b's."""
    shape: tuple[int, ...]
    """The result's."""


_Matrices = tuple[Layout, bool]
"""A batch of matrices in memory: their layout, and whether it is that of a copy."""


class _Layouts(NamedTuple):
    """Layouts of a problem's operands."""

    a: Layout
    b: Layout
    d: Layout
    c: Layout

    @property
    def of_transposed(self) -> "_Layouts":
        """Layouts of the operands of the transposed result's problem."""
        return _Layouts(self.b.transposed, self.a.transposed, self.d.transposed, self.c.transposed)


def result_shape(a: Sequence[int], b: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of a batch, and the shape of the result, of arrays of these shapes.

    Raises:
        ArrayError: they cannot be multiplied; the message names what does not fit.
    """
    if len(a) == len(b) == 2 and a[1] == b[0]:
        return (), (a[0], b[1])
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ArrayError(f"{name} must be a vector, a matrix or a batch of matrices, got a scalar")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ArrayError(f"b must have {a[-1]} rows, as a has columns: got b of {size(b)}, and a of {size(a)}")
    batch_a, batch_b = tuple(a[:-2]), tuple(b[:-2])
    rows, cols = tuple(a[-2:-1]), tuple(b[-1:]) if len(b) > 1 else ()
    if batch_a == batch_b:
        return batch_a, (*batch_a, *rows, *cols)
    length = max(len(batch_a), len(batch_b))
    batch = []
    for one, other in zip(_fill(batch_a, length), _fill(batch_b, length), strict=True):
        if one != other and 1 not in (one, other):
            raise ArrayError(f"batches must be equal or 1 in each dimension: got a of {size(a)}, and b of {size(b)}")
        batch.append(other if one == 1 else one)
    return tuple(batch), (*batch, *rows, *cols)


def side_of(bias: Sequence[int], a: Sequence[int], b: Sequence[int]) -> Side:
    """The side of the result that a bias of this shape belongs to, given those of the factors."""
    sides = a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1
    return "column" if tuple(bias) == (sides[0], 1) and sides != (1, 1) else "row"


def check_shapes(
    a: Sequence[int], b: Sequence[int], bias: Sequence[int] | None = None, **alike: Sequence[int] | None
) -> tuple[int, ...]:
    """The shape of a product's result.

    Args:
        a, b, bias: shapes of these arguments of `matmul`.
        alike: shapes of arguments, by name, that must have the result's.

    Raises:
        ArrayError: the arrays do not fit each other; the message names what does not.
    """
    _, shape = result_shape(a, b)
    for name, given in alike.items():
        if given is not None and tuple(given) != shape:
            raise ArrayError(f"{name} must be {size(shape)} as a @ b is, got {size(given)}")
    if bias is not None:
        m, n = a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1
        if tuple(bias) not in ((n,), (1, n), (m, 1)):
            raise ArrayError(f"bias must have {n} elements, or {m} x 1, got shape {tuple(bias)}")
    return shape


def described(view: View) -> bool:
    """Whether a layout describes how a matrix, or a batch of matrices, lies in memory, so that it is not copied."""
    *batch, rows, cols = view.shape
    return not _matrices(view, rows, cols, tuple(batch), ("row", "column"))[1]


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
    scaling: Scaling = UNSCALED,
    is_complex: bool = False,
) -> Formulation:
    """The Problem that a product of arrays is.

    Args:
        a, b: factors, as `numpy.matmul` takes them.
        out: of the result's shape, where the result goes; None for a new row-major array.
        c: of the result's shape, what is added; None for nothing.
        bias: the side of the result that it belongs to.
        arithmetic, activation: as in a Problem.
        row_major: whether only row-major operands will do; others are copied.
        scaling: as in a Problem; that of lines is of one product.
        is_complex: whether elements are complex, so that kernels read the problem's B twice as large, and take biases
            of its columns alone.

    Raises:
        ArrayError: the arrays do not fit each other.
    """
    batch, shape = result_shape(a.shape, b.shape)
    of_rows, of_cols = len(a.shape) == 1, len(b.shape) == 1
    m, n = 1 if of_rows else a.shape[-2], 1 if of_cols else b.shape[-1]
    k, count = a.shape[-1], math.prod(batch) if batch else 1
    orders: tuple[Order, ...] = ("row",) if row_major else ("row", "column")
    of_a, copies_a = _matrices(_as_matrices(a, rows_missing=True) if of_rows else a, m, k, batch, orders)
    of_b, copies_b = _matrices(_as_matrices(b, cols_missing=True) if of_cols else b, k, n, batch, orders)

    if scaling != UNSCALED and scaling.of_blocks:  # kernels take a scale of each row of A, and none of each column of B
        orders = ("row",)

    def of_result(view: View, orders: tuple[Order, ...]) -> _Matrices:
        return _matrices(_as_matrices(view, rows_missing=of_rows, cols_missing=of_cols), m, n, batch, orders)

    if is_complex:
        # Of a row, the smaller factor is to be B; a bias is to belong to the columns of B.
        is_row = m == 1 < n and of_b.order == "column" and (count == 1 or of_b.batch_stride)
        is_row = is_row and not arithmetic.batch_invariant
        first: Order = "column" if is_row and not (bias or row_major) else "row"
        of_d, copies_d = of_result(View.tight(shape) if out is None else out, (first,))
        if copies_d and not (bias or row_major):
            assert out is not None  # a new one can be read both ways where it is a row
            of_d, copies_d = of_result(out, ("column" if first == "row" else "row",))
    elif out is None and m and n > 1:
        of_d, copies_d = Layout("row", n, m * n if count > 1 else 0), False
    else:
        of_d, copies_d = of_result(View.tight(shape) if out is None else out, orders)
    if of_d.order == "column" and out is not None and not is_complex:
        # Where it can be read both ways it is row-major.
        as_rows, needs_copy = of_result(out, ("row",))
        of_d, copies_d = (of_d, copies_d) if needs_copy else (as_rows, False)
    of_c, copies_c = (of_d, False) if c is None else of_result(c, (of_d.order,))
    if c is not None and copies_c and of_d.order == "column":
        # A copy of c is row-major, so the result is made so too.
        of_d, copies_d = of_result(View.tight(shape) if out is None else View(shape, None), ("row",))
        of_c, copies_c = of_result(c, ("row",))
    copied = _NOTHING
    if copies_a or copies_b or copies_c or copies_d:
        parts = {"a": copies_a, "b": copies_b, "c": copies_c, "out": copies_d}
        copied = frozenset(name for name, is_copied in parts.items() if is_copied)
    layouts = _Layouts(of_a, of_b, of_d, of_c)
    swapped = of_d.order == "column"
    if swapped:
        m, n, bias = n, m, _OTHER_SIDE[bias]
        arithmetic, scaling = arithmetic.swapped, scaling.swapped
        layouts = layouts.of_transposed
    elif count > 1 and bias != "column" and (tall := _tall(layouts, m, n, k)):
        layouts, m, count = tall, m * count, 1
    epilogue = Epilogue(bias, activation) if bias or activation is not None else _PLAIN
    problem = Problem(m, n, k, arithmetic, count, *layouts, epilogue, scaling=scaling)
    return Formulation(problem, swapped, copied, batch, shape)


def formulate_groups(
    a: View, b: View, out: View | None, arithmetic: Arithmetic, scaling: Scaling = UNSCALED
) -> Formulation:
    """The grouped Problem of rows of a, a matrix, against those of b, a batch of matrices.

    Args:
        a, b: of shapes that fit each other.
        out: of the result's shape, with rows of neighbours; None for a new array without gaps.
        arithmetic, scaling: as in a Problem.

    Raises:
        ArrayError: no layout describes out.
    """
    (m, k), (groups, _, n) = a.shape, b.shape
    of_a, copies_a = _matrices(a, m, k, (), ("row", "column"))
    of_b, copies_b = _matrices(b, k, n, (groups,), ("row", "column"))
    of_d, copies_d = _matrices(View.tight((m, n)) if out is None else out, m, n, (), ("row",))
    if copies_d:
        raise ArrayError(f"out must have rows whose elements are neighbours, got strides of {out and out.strides}")
    copied = frozenset(name for name, is_copied in (("a", copies_a), ("b", copies_b)) if is_copied)
    problem = Problem(m, n, k, arithmetic, groups, of_a, of_b, of_d, grouped=True, scaling=scaling)
    return Formulation(problem, False, copied, (groups,), (m, n))


def _tall(layouts: _Layouts, m: int, n: int, k: int) -> _Layouts | None:
    """The layouts of a batch against one b as one product of all rows of a; None where rows have no one distance."""
    if layouts.b.batch_stride:
        return None

    def tall(layout: Layout, length: int) -> Layout | None:
        stride = layout.batch_stride or 0
        ld = stride if m == 1 else layout.ld
        fits = layout.order == "row" and stride == m * ld and max(length, 1) <= ld <= _LARGEST_LD
        return Layout("row", ld, 0) if fits else None

    a, d, c = tall(layouts.a, k), tall(layouts.d, n), tall(layouts.c, n)
    return _Layouts(a, layouts.b, d, c) if a and d and c else None


def _as_matrices(view: View, rows_missing: bool = False, cols_missing: bool = False) -> View:
    """View of a matrix, with both of its dimensions; a dimension that is added has one element."""
    if not (rows_missing or cols_missing):
        return view
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
    shape, strides = view
    if 0 in shape:  # nothing is read or written, whatever the strides say
        length = max(cols if orders[0] == "row" else rows, 1)
        return Layout(orders[0], length, None if math.prod(batch) > 1 else 0), False
    stride = _batch_stride(view, batch) if strides is not None and batch else 0
    if strides is not None and stride is not None:
        best: Order | None = None
        ld = longest = 0
        row, col = strides[-2:]
        for order in orders:
            by_rows = order == "row"
            length = cols if by_rows else rows
            found = _ld(row, col, rows, cols) if by_rows else _ld(col, row, cols, rows)
            # Where it can be read both ways, the longer lines are the better ones.
            if found and (best is None or length > longest):
                best, ld, longest = order, found, length
                if rows > 1 and cols > 1:  # it cannot
                    break
        if best is not None:
            return Layout(best, ld, stride if batch and math.prod(batch) > 1 else 0), False
    serves_all = math.prod(shape[:-2]) == 1
    return Layout("row", max(cols, 1), 0 if serves_all else rows * max(cols, 1)), True


def _ld(far: int, near: int, lines: int, length: int) -> int:
    """The leading dimension of lines of neighbours with these strides from line to line and within one; 0 for none."""
    if (length > 1 and near != 1) or (lines > 1 and not length <= far <= _LARGEST_LD):
        return 0
    return max(far if lines > 1 else length, 1)


def _batch_stride(view: View, batch: tuple[int, ...]) -> int | None:
    """Elements from one matrix of a batch to the next, 0 for one that serves all; None where there is none."""
    assert view.strides is not None
    sizes = _fill(view.shape[:-2], len(batch))
    strides = (0,) * (len(batch) - len(view.shape) + 2) + view.strides[:-2]
    axes = zip(batch, sizes, strides, strict=True)
    known = [(whole, 0 if size == 1 else stride) for whole, size, stride in axes if whole != 1]
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
    if not shape:
        return "a number"
    matrix = " x ".join(map(str, shape[-2:])) if len(shape) > 1 else f"{shape[0]} element{'s' * (shape[0] != 1)}"
    return matrix if len(shape) < 3 else f"{' x '.join(map(str, shape[:-2]))} of {matrix}"
