"""Problem: a matrix product, or a batch of them, as kernels compute it; and the words it is made of.

D[i] = activation(alpha * A[i] @ B[i] + beta * C[i] + bias)        i from 0 to batch - 1
"""

import math
import numbers
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from tilewright.core.dtypes import DTYPES, FACTORS, FLOAT8, INT8, RESULTS, SUMS_OF_INT8, multiplied, results_of
from tilewright.core.errors import DtypeError, ProblemError, nearest
from tilewright.core.hardware import ceil_div

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
"""Functions that an epilogue may apply to each element, as PyTorch defines them."""

PRECISIONS = ("float32", "ieee", "fp16x3", "bf16x3", "tf32")
"""Precisions of a product of float32 factors: see `Arithmetic`."""

COMPLEX_PRECISIONS = {"3m": None, "fp16x3_3m": "fp16x3"}
"""Precisions of complex64 alone, in three real products for four, each with the precision of these; see
`runtime/complex_factors.py`."""

BATCH_INVARIANT = "batch_invariant"
"""Word in the text of an `Arithmetic` that is batch-invariant."""
FAST = "fast"
"""Precision of a product of `FLOAT8` factors besides the default: see `Arithmetic`."""

LAYOUTS = ("NN", "NT", "TN", "TT")
"""Orders of A and of B: N for row-major, T for column-major (stored transposed)."""

_ORDERS = {"row": "N", "column": "T"}
_LARGEST = 2**31 - 2**12  # kernels count in 32-bit integers, up to a tile past the end
_LARGEST_STRIDE = 2**62

Order = Literal["row", "column"]
Side = Literal["row", "column"]
ScaleKind = Literal["tensor", "line", "1x128", "128x128"]


@dataclass(frozen=True)
class Arithmetic:
    """Types and precision that a product is computed in; sums are taken in float32, of integers in int32, which wraps.

    factors: element type of A, and of B where no other is given.
    result: element type of D, C and the bias.
    precision: what a product of float32 factors promises. None, or 'float32', which becomes None: what float32 does, on
        every input, by tensor cores where that is faster. 'ieee': float32 multiply-adds on CUDA cores alone. 'fp16x3':
        three products of two scaled float16 parts, an error of each element of at most 2^-21 of (|A| @ |B|) and a
        rounding to float32 (where k is 33 to 127, 2^-20), or about float32's own where that is more: in long sums, and
        where a few products are most of one. 'bf16x3': three products of two bfloat16 parts, an error of about 2^-16 of
        it. 'tf32': factors rounded to TF32's 10 bits of mantissa, an error of about 2^-10 of it.
        Of float8 factors: None for sums that threads add up in float32 every 128 of k; 'fast' for sums of tensor cores
        alone, which keep 13 bits of mantissa and drift toward zero. Of factors of 8-bit integers sums are exact modulo
        2^32, in any order; results that are not int32 are these sums as float32 numbers, scaled.
        `Kernel.meets` says what meets a precision.
    batch_invariant: whether the bits of a row of D depend on that row of A, on B and on n alone: not on m, on the other
        rows, on where the row is, or on how many products there are. `Sums.order` says which kernels do that.
    of_b: element type of B, where both are of `FLOAT8`, or both of `INT8`; None for that of A.

    Raises:
        DtypeError: a type is none of `DTYPES`, a precision is asked for of factors that it is not for, or A and B have
            types that do not go together.
        ProblemError: the precision is none of `PRECISIONS`; the message gives the nearest.
    """

    factors: str = "float32"
    result: str = "float32"
    precision: str | None = None
    batch_invariant: bool = False
    of_b: str | None = None

    def __post_init__(self) -> None:
        second = self.of_b or self.factors
        of_each = ("dtype", self.factors, FACTORS), ("out_dtype", self.result, DTYPES), ("dtype of b", second, FACTORS)
        for name, dtype, known in of_each:
            if dtype not in known:
                raise DtypeError(f"{name} must be one of {', '.join(known)}, got {dtype!r}")
        if second != self.factors and not multiplied(self.factors, second):
            raise DtypeError(
                f"b must have the element type of a, or both be of float8, or of {' and '.join(INT8)}: "
                f"got {second}, and {self.factors} for a"
            )
        if self.result not in RESULTS and self.result not in (results := results_of(self.factors)):
            raise DtypeError(
                f"out_dtype must be one of {', '.join(results)}, got {self.result} with factors of {self.factors}"
            )
        if self.batch_invariant and self.factors in FLOAT8:
            kept = ", ".join((*RESULTS, *INT8))
            raise DtypeError(f"batch_invariant is for factors of {kept}, got {self.factors}")
        if self.of_b == self.factors:
            object.__setattr__(self, "of_b", None)
        if self.precision is None:
            return
        if self.precision == FAST:
            if self.factors not in FLOAT8:
                raise DtypeError(f"fast_accumulate is for float8 factors, got factors of {self.factors}")
            return
        object.__setattr__(self, "precision", precision_of(self.precision))
        if self.precision is not None and self.factors != "float32":
            raise DtypeError(
                f"precision is for float32 factors, got precision={self.precision!r} with factors of {self.factors}"
            )

    @property
    def second(self) -> str:
        """Element type of B."""
        return self.of_b or self.factors

    @property
    def swapped(self) -> "Arithmetic":
        """This arithmetic with A and B in each other's places."""
        return replace(self, factors=self.of_b, of_b=self.factors) if self.of_b else self

    def __str__(self) -> str:
        asked = (self.precision, BATCH_INVARIANT if self.batch_invariant else None)
        pair = f"{self.factors}*{self.of_b}" if self.of_b else self.factors
        factors = ":".join(filter(None, (pair, *asked)))
        return factors if self.result == "float32" else f"{factors}->{self.result}"


def check_kept_sums(result: str, scale: str | None, activation: str | None) -> None:
    """Raise DtypeError where results are sums of integers, and a scale of this name or an activation changes them."""
    if result == SUMS_OF_INT8 and (scale or activation):
        raise DtypeError(
            f"{scale or 'activation'} is for an out_dtype of {', '.join(RESULTS)}: without one, results of 8-bit "
            f"integers are {result}"
        )


def precision_of(precision: Any) -> str | None:
    """A precision as `Arithmetic` has it: None for 'float32'.

    Raises:
        ProblemError: it is none of `PRECISIONS`; the message gives the nearest.
    """
    if precision is None or precision == PRECISIONS[0]:
        return None
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        near = nearest(str(precision), PRECISIONS, listed=True)
        raise ProblemError(f"precision must be one of {known}, got {precision!r}{near}")
    return str(precision)


class Layout(NamedTuple):
    """Where the elements of a matrix lie, or of the matrices of a batch.

    order: 'row' where the elements of a row are neighbours, 'column' where those of a column are.
    ld: elements from one row (or column) to the next; 0 for rows without gaps.
    batch_stride: elements from one matrix of a batch to the next, 0 where one matrix serves the whole batch; None for
        matrices without gaps.
    """

    order: Order = "row"
    ld: int = 0
    batch_stride: int | None = None

    def simplest(self, rows: int, cols: int) -> "Layout":
        """This layout as row-major where the memory can be read so: columns of one element, without gaps, are a row."""
        if self.order == "column" and rows == 1 and self.ld == 1:
            return Layout("row", max(cols, 1), self.batch_stride)
        return self

    def lines(self, rows: int, cols: int) -> tuple[int, int]:
        """How many lines of neighbours a rows x cols matrix has, and how long they are."""
        return (rows, cols) if self.order == "row" else (cols, rows)

    def complete(self, name: str, rows: int, cols: int, batch: int) -> "Layout":
        """This layout with its numbers filled in.

        Raises:
            ProblemError: one is negative, too small or near 2**31.
        """
        order, ld, stride = self
        count, length = (rows, cols) if order == "row" else (cols, rows)
        least = length or 1
        if type(ld) is type(stride) is int and least <= ld <= _LARGEST and stride == 0:
            return self
        ld = _in_range(f"ld{name}", ld or least, _LARGEST)
        if ld < least:
            raise ProblemError(f"ld{name} must be at least the {order} length {least}, got {ld}")
        stride = 0 if batch == 1 else ld * count if stride is None else stride
        stride = _in_range(f"batch stride of {name}", stride, _LARGEST_STRIDE)
        return self if ld is self.ld and stride is self.batch_stride else Layout(order, ld, stride)

    @property
    def transposed(self) -> "Layout":
        """Layout of the transposed matrix in the same memory."""
        return Layout("column" if self.order == "row" else "row", self.ld, self.batch_stride)

    def extent(self, rows: int, cols: int, batch: int) -> int:
        """Elements from the first of the first matrix to the last of the last, both included."""
        if 0 in (rows, cols, batch):
            return 0
        count, length = self.lines(rows, cols)
        return (batch - 1) * (self.batch_stride or 0) + (count - 1) * self.ld + length

    def aligned(self, item_bytes: int, width: int) -> bool:
        """Whether every line starts at a multiple of width bytes where the first of the first matrix does."""
        return (self.ld | (self.batch_stride or 0)) * item_bytes % width == 0


SCALED_BLOCK = 128
"""Sides of a block with a scale of its own: elements along k, and rows or columns where it has several."""


SCALINGS = ("tensor", "lines", "blocks")
"""Kinds of scales: of a whole factor; of rows of A and columns of B; of 1 x 128 blocks of A and 128 x 128 of B."""


class Scale(NamedTuple):
    """How the scales of a factor lie, float32 numbers that come with a launch.

    kind: 'tensor' for one number; 'line' for one of each row of A, or of each column of B; '1x128' for one of each row
        and 128 of k; '128x128' for one of 128 rows, or columns, and 128 of k.
    step, step_k: elements from one row's (column's, or block's) to the next, and from one 128 of k to the next; of the
        B of a grouped product, which has none along k, from one matrix to the next.
    """

    kind: ScaleKind
    step: int = 0
    step_k: int = 0

    @property
    def sides(self) -> int:
        """Rows (or columns) that share a scale, where there are several."""
        return SCALED_BLOCK if self.kind == "128x128" else 1

    @property
    def of_blocks(self) -> bool:
        """Whether it differs along k."""
        return self.kind in ("1x128", "128x128")

    def extent(self, sides: int, k: int) -> int:
        """Elements from the first to the last, both included, of this many rows (or columns)."""
        return (ceil_div(sides, self.sides) - 1) * self.step + (ceil_div(k, SCALED_BLOCK) - 1) * self.step_k + 1


class Scaling(NamedTuple):
    """Scales of A and of B, which products are multiplied by besides alpha; None for none."""

    a: Scale | None = None
    b: Scale | None = None

    @classmethod
    def dense(cls, kind: str | None, n: int, k: int) -> "Scaling":
        """Scales of both factors without gaps, row-major.

        Args:
            kind: one of `SCALINGS`, or None for none.
            n, k: sizes of the product.

        Raises:
            ProblemError: there is no such kind; the message gives the nearest.
        """
        if kind is None:
            return UNSCALED
        if kind not in SCALINGS:
            known = ", ".join(SCALINGS)
            raise ProblemError(f"scales must be one of {known}, got {kind!r}{nearest(kind, SCALINGS, listed=True)}")
        if kind == "tensor":
            return cls(Scale("tensor"), Scale("tensor"))
        if kind == "lines":
            return cls(Scale("line", 1), Scale("line", 1))
        deep, wide = ceil_div(k, SCALED_BLOCK), ceil_div(n, SCALED_BLOCK)
        return cls(Scale("1x128", deep, 1), Scale("128x128", 1, wide))

    @property
    def kind(self) -> str | None:
        """Which of `SCALINGS` it comes to."""
        if self == UNSCALED:
            return None
        return "blocks" if self.of_blocks else "lines" if any(one and one.kind == "line" for one in self) else "tensor"

    @property
    def swapped(self) -> "Scaling":
        """These scales with A and B in each other's places."""
        return Scaling(self.b, self.a)

    def __str__(self) -> str:
        words = {None: "none", "tensor": "one", "line": "one of each row or column"}
        of_a, of_b = (words.get(one and one.kind, f"one of each {one and one.kind}") for one in self)
        return f"scales of A: {of_a}, of B: {of_b}"

    @property
    def of_blocks(self) -> bool:
        """Whether one of them differs along k."""
        return any(one is not None and one.of_blocks for one in self)


UNSCALED = Scaling()


@dataclass(frozen=True)
class Epilogue:
    """Operations on sums on their way out, besides alpha and beta * C.

    bias: None, 'row' (n values, one for each column of D: a row is added to every row), or 'column' (m values).
    activation: None or one of `ACTIVATIONS`, applied last.

    Raises:
        ProblemError: the activation is unknown; the message gives the nearest.
    """

    bias: Side | None = None
    activation: str | None = None

    def __post_init__(self) -> None:
        if self.activation is not None and self.activation not in ACTIVATIONS:
            known = nearest(str(self.activation), ACTIVATIONS)
            raise ProblemError(f"activation must be None or a known function, got {self.activation!r}{known}")
        if self.bias not in (None, "row", "column"):
            raise ProblemError(f"bias must be None, 'row' or 'column', got {self.bias!r}")

    def __str__(self) -> str:
        bias = {None: [], "row": ["bias"], "column": ["column_bias"]}[self.bias]
        return "+".join([*bias, *([self.activation] if self.activation else [])])


_MOST = (2 - 2.0**-23) * 2.0**127
"""The largest finite number of float32."""

_ZERO = 2.0**-150
"""The largest number that is 0 in float32."""


def _held(value: Any) -> bool:
    """Whether float32 holds a real number, or its nearest."""
    try:
        number = float(value)
    except OverflowError:  # of an integer
        return False
    return abs(number) <= _MOST or (math.isinf(number) and number == value)  # and not finite in a wider type


class Scalars(NamedTuple):
    """Numbers that a launch is given: they are no part of a Problem, and the same code serves all."""

    alpha: float = 1.0
    beta: float = 0.0
    factor_b: complex = 1
    """Number that B of a complex product is multiplied by: alpha where it is not real, and then alpha is 1."""

    @property
    def named(self) -> dict[str, Any]:
        """alpha and beta by name, as `matmul` takes them."""
        return {"alpha": self.alpha, "beta": self.beta}

    @property
    def alpha_re(self) -> float:
        """Real part of `factor_b`."""
        return self.factor_b.real

    @property
    def alpha_im(self) -> float:
        """Imaginary part of `factor_b`."""
        return self.factor_b.imag

    @classmethod
    def checked(cls, alpha: Any, beta: Any) -> "Scalars":
        """Scalars from what a caller gave: 0 where they are 0 in float32, as kernels are given them.

        Raises:
            ProblemError: beta is not a real number, alpha no number, or one is finite and float32 does not hold it.
        """
        if not (type(alpha) is type(beta) is float and -_MOST <= alpha <= _MOST and -_MOST <= beta <= _MOST):
            if isinstance(alpha, complex) and alpha.imag and alpha == alpha and _held(alpha.real) and _held(alpha.imag):
                return cls.checked(1.0, beta)._replace(factor_b=alpha)
            alpha, beta = [one.real if isinstance(one, complex) and not one.imag else one for one in (alpha, beta)]
            for name, value in (("alpha", alpha), ("beta", beta)):
                if isinstance(value, bool) or not isinstance(value, numbers.Real) or value != value:
                    raise ProblemError(f"{name} must be a number, got {value!r}")
                if not _held(value):
                    most = f"{_MOST:.7g} in magnitude, what float32 holds"
                    raise ProblemError(f"{name} must be infinite or at most {most}, got {value!r}")
            alpha, beta = float(alpha), float(beta)
        return cls(0.0 if -_ZERO <= alpha <= _ZERO else alpha, 0.0 if -_ZERO <= beta <= _ZERO else beta)


class Shaped:
    """Base of classes that have the sizes of a product, m, n, k and batch."""

    @property
    def shape(self: Any) -> str:
        """The sizes as text: 'MxNxK'; of a batch, '8 of MxNxK'."""
        sizes = f"{self.m}x{self.n}x{self.k}"
        return sizes if self.batch == 1 else f"{self.batch} of {sizes}"


@dataclass(frozen=True)
class Problem(Shaped):
    """D = activation(alpha * A @ B + beta * C + bias), for each matrix of a batch.

    A has m x k elements, B k x n, C and D m x n; any size may be 0. A and B may be row- or column-major, C and D are
    row-major: a column-major product is that of the transposed factors in the other order. Sums are float32. With
    beta = 0, C is not read; with alpha = 0, neither are A and B.

    Args:
        m, n, k: sizes.
        arithmetic: element types and precision; a text stands for factors of this type with a float32 result.
        batch: products to compute.
        a, b, d: layouts, without gaps if left out. c: that of d if left out.
        epilogue: bias and activation.
        grouped: whether the products of the batch have rows of one A, of one C and of one D, m in all; B has a matrix
            for each. Which rows are whose is in the engine's memory: see `Pointers.offsets`.
        scaling: scales of float8 factors, or of integers whose results are not int32.

    Raises:
        ProblemError: a size, leading dimension or stride is negative, too small or near 2**31, or C or D column-major.
        DtypeError: an element type is none of `DTYPES`, there are scales of factors that have none, or scales or an
            activation of int32 results.
    """

    m: int
    n: int
    k: int
    arithmetic: Arithmetic = Arithmetic()
    batch: int = 1
    a: Layout = Layout()
    b: Layout = Layout()
    d: Layout = Layout()
    c: Layout | None = None
    epilogue: Epilogue = Epilogue()
    grouped: bool = False
    scaling: Scaling = UNSCALED
    layout: str = field(init=False, repr=False, compare=False)
    """Orders of A and B, as one of `LAYOUTS`."""

    def __post_init__(self) -> None:
        if isinstance(self.arithmetic, str):
            object.__setattr__(self, "arithmetic", Arithmetic(self.arithmetic))
        m, n, k, batch = self.m, self.n, self.k, self.batch
        sizes = m, n, k, batch
        if not (type(m) is type(n) is type(k) is type(batch) is int and min(sizes) >= 0 and max(sizes) <= _LARGEST):
            for name, value in zip(("m", "n", "k", "batch"), sizes, strict=True):
                object.__setattr__(self, name, _in_range(name, value, _LARGEST))
            m, n, k, batch = self.m, self.n, self.k, self.batch
        for name, given, rows, cols in (("a", self.a, m, k), ("b", self.b, k, n), ("d", self.d, m, n)):
            layout = given.complete(name, rows, cols, 1 if self.grouped and name != "b" else batch)
            if layout.order == "column":
                layout = layout.simplest(rows, cols)
            if layout is not given:
                object.__setattr__(self, name, layout)
        c = self.d if self.c is None or self.c is self.d else self.c.complete("c", m, n, 1 if self.grouped else batch)
        if c is not self.c:
            object.__setattr__(self, "c", c)
        if self.d.order != "row" or c.order != "row":
            raise ProblemError("c and d must be row-major: multiply the transposed factors in the other order")
        if self.scaling != UNSCALED and self.arithmetic.factors not in (*FLOAT8, *INT8):
            raise DtypeError(f"scales are for factors of 8 bits, got factors of {self.arithmetic.factors}")
        if self.arithmetic.result == SUMS_OF_INT8:
            scale = "scaling" if self.scaling != UNSCALED else None
            check_kept_sums(self.arithmetic.result, scale, self.epilogue.activation)
        object.__setattr__(self, "layout", _ORDERS[self.a.order] + _ORDERS[self.b.order])

    @classmethod
    def parse(cls, shape: str, **fields: Any) -> "Problem":
        """Read 'MxNxK' (or a single number for a square), as in '4096x4096x4096'.

        Raises:
            ProblemError: the text is not three sizes, or a size is out of range.
        """
        match = re.fullmatch(r"(\d{1,99})(?:[xX*](\d{1,99})[xX*](\d{1,99}))?", shape.strip())
        if match is None:
            raise ProblemError(f"shape must read MxNxK, as in 4096x4096x4096, got {shape!r}")
        m, n, k = (int(size or match[1]) for size in match.groups())
        return cls(m, n, k, **fields)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.m, self.n, self.k, self.arithmetic, self.batch, self.a, self.b, self.d, self.epilogue))

    @property
    def dtype(self) -> str:
        """Element type of A, and of B where no other is given."""
        return self.arithmetic.factors

    @property
    def dtype_b(self) -> str:
        """Element type of B."""
        return self.arithmetic.second

    @property
    def result(self) -> str:
        """Element type of D, C and the bias."""
        return self.arithmetic.result

    @property
    def addend(self) -> Layout:
        """Layout of C."""
        return self.c or self.d

    @property
    def case(self) -> str:
        """Orders, element types and epilogue as text: 'NT float16->float16 bias+gelu'. What is promised besides follows
        the factors' type: 'NN float32:fp16x3', 'NN float32:ieee:batch_invariant'."""
        grouped = "grouped" if self.grouped else ""
        return " ".join(filter(None, (self.layout, str(self.arithmetic), str(self.epilogue), grouped)))

    @property
    def flops(self) -> int:
        """Floating-point operations of the products: 2 * batch * m * n * k; 2 * m * n * k where they are grouped."""
        return 2 * (1 if self.grouped else self.batch) * self.m * self.n * self.k

    @property
    def is_empty(self) -> bool:
        """Whether D has no elements."""
        return self.m == 0 or self.n == 0 or self.batch == 0

    @classmethod
    def of_layouts(
        cls,
        sizes: tuple[int, int, int],
        arithmetic: Arithmetic,
        a: Layout,
        b: Layout,
        d: Layout,
        c: Layout,
        epilogue: Epilogue,
    ) -> "Problem":
        """One product in layouts that are complete and fit its sizes, all of them in range: nothing is checked."""
        made, (m, n, k) = object.__new__(cls), sizes
        made.__dict__.update(
            m=m, n=n, k=k, arithmetic=arithmetic, batch=1, a=a, b=b, d=d, c=c, epilogue=epilogue,
            layout=_ORDERS[a.order] + _ORDERS[b.order],
        )  # fmt: skip
        return made

    def of_factors(self, arithmetic: Arithmetic, a: Layout, b: Layout) -> "Problem":
        """This problem with factors of another type or in other memory, given as complete layouts."""
        other, layout = object.__new__(Problem), _ORDERS[a.order] + _ORDERS[b.order]
        other.__dict__.update(self.__dict__, arithmetic=arithmetic, a=a, b=b, layout=layout)
        other.__dict__.pop("_hash", None)
        return other

    @property
    def without_products(self) -> "Problem":
        """This problem with k = 0, which is the one to compute where alpha = 0."""
        return replace(self, k=0, a=Layout(), b=Layout())

    def promising(self, precision: str) -> "Problem":
        """This problem with another precision."""
        return replace(self, arithmetic=replace(self.arithmetic, precision=precision))

    def gflops(self, time_us: float) -> float:
        """GFLOP/s of a run that took time_us microseconds."""
        return self.flops / time_us / 1e3 if time_us > 0 else 0.0


def orders(layout: str) -> tuple[Layout, Layout]:
    """Layouts of A and B without gaps, of the orders that 'NN', 'NT', 'TN' or 'TT' says.

    Raises:
        ProblemError: the text is none of these.
    """
    if layout not in LAYOUTS:
        raise ProblemError(f"layout must be one of {', '.join(LAYOUTS)}, A's order then B's, got {layout!r}")
    a, b = (Layout("row" if order == "N" else "column") for order in layout)
    return a, b


def _in_range(name: str, value: Any, most: int) -> int:
    """A size as an int; raises ProblemError unless it is one of 0 to most."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ProblemError(f"{name} must be an integer, got {value!r}")
    size = int(value)
    if not 0 <= size <= most:
        raise ProblemError(f"{name} must be from 0 to {most}, got {size}")
    return size
