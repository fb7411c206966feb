"""Call: the arrays of a call of `matmul` or `grouped_matmul` as they lie in memory, read and checked."""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.api.arrays.libraries import library_of
from tilewright.api.arrays.library import LEGACY_STREAM, Library, type_name
from tilewright.api.arrays.operand import HOST, Operand, unsupported
from tilewright.api.engines import cuda_unavailable, resolve_engine
from tilewright.api.formulate import check_shapes, result_shape, side_of, size
from tilewright.api.prepared import Prepared
from tilewright.api.request import PLAIN, Request, check_activation, scalars_of
from tilewright.core.dtypes import COMPLEX, FLOAT8, INT8, SUMS_OF_INT8, multiplied
from tilewright.core.errors import ArrayError, DtypeError, EngineUnavailableError, ProblemError
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import (
    COMPLEX_PRECISIONS,
    SCALED_BLOCK,
    UNSCALED,
    Arithmetic,
    Scalars,
    Scale,
    ScaleKind,
    Scaling,
    Side,
    check_kept_sums,
)
from tilewright.kernels.library.grouped_sm90 import KERNELS, kernel_for
from tilewright.kernels.support import VECTOR_BYTES
from tilewright.runtime.base import Engine

Shape = tuple[int, ...]

UNIT = Scalars()
"""Scalars of a call that asks for none."""


class Call(NamedTuple):
    """One call: its arrays as they lie in memory, and what is asked."""

    request: Request
    library: Library
    engine: Engine | None
    """None for NumPy."""
    stream: int
    a: Operand
    b: Operand
    c: Operand | None
    """None too where beta is 0, so that it is not read."""
    out: Operand | None
    bias: Operand | None
    scalars: Scalars
    prepared: Prepared | None = None
    """Prepared b, which caches copies of b."""
    scale_a: Operand | None = None
    scale_b: Operand | None = None
    offsets: Operand | None = None
    """Where the groups of a grouped product end."""
    waits: bool = False
    """Whether the caller cannot know the stream, so that work must have ended on return."""

    @classmethod
    def read(
        cls,
        request: Request,
        library: Library,
        arrays: Mapping[str, Any],
        alpha: Any = 1.0,
        beta: Any = 0.0,
        prepared: Prepared | None = None,
    ) -> "Call":
        """Check what is asked, and read the arrays of a call; `check` says whether they fit each other.

        Args:
            request, alpha, beta: as given; of a grouped product without a kernel.
            library: the library of a.
            arrays: a, b, c, out and bias; where they are given, scales, and offsets of a grouped product.
            prepared: what keeps copies of b.

        Raises:
            ArrayError, DtypeError: an array cannot be read, or is of another library; c does not fit where beta is 0.
            ConfigError, DtypeError, KernelNotFoundError, ProblemError: what is asked is unknown.
        """
        grouped = "offsets" in arrays
        if request is not PLAIN and not grouped:
            request = request.checked()
        plain = type(alpha) is type(beta) is float and alpha == 1 and beta == 0
        scalars = UNIT if plain else scalars_of(alpha, beta)
        a = arrays["a"]
        stream = library.stream(a)

        def read(name: str) -> Operand:
            array = arrays[name]
            if type(array) is not type(a):
                check_library(name, array, library, a)
            return library.read_offsets(array, on) if name == "offsets" else library.read(name, array, on)

        on = stream or LEGACY_STREAM
        first, second = read("a"), read("b")
        c = None if arrays["c"] is None else read("c")
        out = None if arrays["out"] is None else read("out")
        bias = None if arrays["bias"] is None else read("bias")
        scale_a = scale_b = offsets = None
        if "scale_a" in arrays:
            scale_a, scale_b = (None if arrays[name] is None else read(name) for name in ("scale_a", "scale_b"))
        if grouped:
            offsets = read("offsets")
            request = _of_groups(request, first.dtype)
        engine = _host_engine(request) if first.device == HOST else gpu_engine(request.engine, first.device)
        operands = first, second, c, out, bias
        more = scale_a, scale_b, offsets, stream is None
        call = cls(request, library, engine, on, *operands, scalars, prepared, *more)
        if c is None or scalars.beta:
            return call
        call.check()
        return call._replace(c=None)

    @property
    def arithmetic(self) -> Arithmetic:
        """Element types and precision of the product; of a complex one, those of its parts."""
        if self.a.dtype == COMPLEX:
            precision = COMPLEX_PRECISIONS.get(self.request.precision or "", self.request.precision)
            return _arithmetic("float32", "float32", precision, self.request.batch_invariant, "float32")
        given = self.request.out_dtype
        of_a = self.a.dtype  # `default_result`, in a call less
        usual = "float32" if of_a in FLOAT8 else SUMS_OF_INT8 if of_a in INT8 else of_a
        result = given or (self.out.dtype if self.out else usual)
        return _arithmetic(self.a.dtype, result, self.request.precision, self.request.batch_invariant, self.b.dtype)

    @property
    def result(self) -> str:
        """Element type of the result."""
        return COMPLEX if self.a.dtype == COMPLEX else self.arithmetic.result

    @property
    def shape(self) -> Shape:
        """Shape of the result."""
        if self.offsets is not None:
            return self.a.shape[0], self.b.shape[2]
        return result_shape(self.a.shape, self.b.shape)[1]

    @property
    def ends(self) -> NDArray[np.int32]:
        """The offsets, which lie on the host."""
        assert self.offsets is not None and self.offsets.host is not None
        return self.offsets.host.view(np.int32)

    @property
    def scales(self) -> list[Operand]:
        """Scales that are given."""
        return [operand for operand in (self.scale_a, self.scale_b) if operand is not None]

    @property
    def scaling(self) -> Scaling:
        """How the scales lie.

        Raises:
            ArrayError: they do not fit the factors.
        """
        of_a, of_b, groups = self.a.shape, self.b.shape, None if self.offsets is None else self.b.shape[0]
        return Scaling(
            _scale(self.scale_a, of_a[0], of_a[-1], groups), _scale(self.scale_b, of_b[-1], of_a[-1], groups)
        )

    @property
    def side(self) -> Side | None:
        """Side of the result that the bias belongs to."""
        return None if self.bias is None else side_of(self.bias.shape, self.a.shape, self.b.shape)

    @property
    def signature(self) -> tuple[Any, ...]:
        """All that a plan depends on."""
        return (
            _kind(self.a),
            _kind(self.b),
            self.c and _kind(self.c),
            self.out and _kind(self.out),
            self.bias and _kind(self.bias),
            self.request,
            self.scalars.alpha == 0,
            type(self.library),
            self.prepared is not None,
            self.scaling if self.scale_a or self.scale_b else UNSCALED,
            self.offsets is not None,
            self.scalars.factor_b != 1,
        )

    def check(self) -> None:
        """Raise where the operands do not fit each other, or the result must not be written to `out`."""
        a, b, c, out, bias = self.a, self.b, self.c, self.out, self.bias
        for factor in (a, b):
            if factor.dtype == SUMS_OF_INT8:
                raise unsupported(factor.argument, factor.dtype, "{} as float32, or as int8 if that holds its elements")
        if self.prepared is not None and self.prepared.engine is not self.engine:
            name = self.prepared.engine.name
            raise ArrayError(
                f"b is prepared for the {name} engine of {self.prepared.engine.device_name}: "
                + ("a must lie on that GPU" if name == "cuda" else f"pass engine={name!r}")
            )
        if self.offsets is not None:
            check_grouped(a.shape, b.shape, self.offsets.shape, out and out.shape)
            check_types(a.dtype, b.dtype, grouped=True)
            named, known = self.request.out_dtype or (out and out.dtype), kernel_for(a.dtype).support.results
            if named and named not in known:
                raise DtypeError(f"out_dtype must be one of {', '.join(known)}, got {named} with factors of {a.dtype}")
        more = [operand for operand in (c, out, bias) if operand is not None] if c or out or bias else []
        scales = self.scales if self.scale_a or self.scale_b else []
        inputs = (b, *more, *scales) if self.offsets is None else (b, *more, *scales, self.offsets)
        for operand in inputs:
            if operand.device != a.device:
                raise ArrayError(
                    f"{operand.argument} must lie where a does: got {name_of_device(operand.device)}, "
                    f"and {name_of_device(a.device)} for a"
                )
        if a.dtype != b.dtype:
            check_types(a.dtype, b.dtype)
        if self.request.activation is not None:
            check_activation(self.request.activation)
        if self.scalars.factor_b != 1 and a.dtype != COMPLEX:
            raise ProblemError(f"alpha must be a number, got {self.scalars.factor_b!r}: it may be complex where a is")
        if a.dtype == COMPLEX:
            check_complex(self.request.activation, self.request.out_dtype, self.side)
        result = self.result
        for one in more:
            if one.dtype != result:
                raise DtypeError(f"{one.argument} must have the result's element type {result}: got {one.dtype}")
        if self.offsets is None:
            check_shapes(a.shape, b.shape, **{operand.argument: operand.shape for operand in more})
        if self.scalars.beta and c is None:
            raise missing_c(self.scalars.beta)
        if result == SUMS_OF_INT8:
            check_kept_sums(result, scales[0].argument if scales else None, self.request.activation)
            _check_integers(self.scalars)
        for operand in scales:
            _check_scale(operand, a, b, grouped=self.offsets is not None)
        if scales and (scaling := self.scaling).of_blocks and None in scaling:
            raise ArrayError("scale_a and scale_b must both be given where one differs along k")
        if self.offsets is not None and self.offsets.host is not None:
            _check_ends(self.ends, a.shape[0])
        if out is None:
            return
        if self.library.immutable:
            raise ArrayError(f"out must be an array that can be written, and a {type_name(out.array)} never is")
        if out.read_only:
            raise ArrayError("out must be an array that can be written, got a read-only one")
        if out.elements_overlap:
            raise ArrayError(
                f"out must have memory for every element, got strides of {out.strides} bytes for shape {out.shape}"
            )
        for one in (a, *inputs):
            if one is not out and out.overlaps(one) and not (one is c and out.is_same(one)):
                raise ArrayError(f"out must not overlap {one.argument} in memory" + ", unless it is c" * (one is c))


def _kind(operand: Operand) -> tuple[Shape, Shape, str, int, int, bool]:
    """All of an operand that a plan depends on: shape, strides, element type, device, and a GPU's address modulo 16.

    What lies on the host is copied to an engine's memory, which is aligned.
    """
    left = operand.pointer % VECTOR_BYTES if operand.device != HOST else 0
    return operand.shape, operand.strides, operand.dtype, operand.device, left, operand.conjugated


def check_complex(activation: str | None, out_dtype: str | None, side: Side | None) -> None:
    """Raise where a complex product is asked for what it has not."""
    if activation is not None:
        raise ProblemError(f"activation must be None where a is {COMPLEX}, got {activation!r}")
    if out_dtype not in (None, COMPLEX):
        raise DtypeError(f"out_dtype must be {COMPLEX} where a is, got {out_dtype}")
    if side == "column":
        raise ArrayError(f"bias must have an element for each column where a is {COMPLEX}, got one for each row")


def check_types(a: str, b: str, *, grouped: bool = False) -> None:
    """Raise DtypeError unless factors of these element types are multiplied."""
    if grouped and a not in (known := [dtype for kernel in KERNELS for dtype in kernel.support.factors]):
        raise DtypeError(f"a has element type {a}; grouped_matmul takes {', '.join(known)}")
    if not multiplied(a, b):
        raise DtypeError(f"b must have the element type of a: got {b}, and {a} for a")


def check_grouped(a: Shape, b: Shape, offsets: Shape, out: Shape | None = None) -> None:
    """Raise ArrayError unless arrays of these shapes fit each other, with offsets of groups."""
    if len(a) != 2:
        raise ArrayError(f"a must be a matrix of the rows of all groups, got shape {tuple(a)}")
    if len(b) != 3:
        raise ArrayError(f"b must be a batch of matrices, one for each group, got shape {tuple(b)}")
    if a[1] != b[1]:
        raise ArrayError(f"b must have {a[1]} rows in each matrix, as a has columns: got b of {size(b)}")
    if tuple(offsets) != (b[0],):
        raise ArrayError(f"offsets must be {b[0]} numbers, one for each matrix of b, got shape {tuple(offsets)}")
    if out is not None and tuple(out) != (a[0], b[2]):
        raise ArrayError(f"out must be {a[0]} x {b[2]}, got shape {tuple(out)}")


def _check_ends(ends: NDArray[np.int32], rows: int) -> None:
    """Raise ArrayError unless offsets on the host are ends of groups of this many rows."""
    all_ends = np.concatenate(([0], ends, [rows]))
    if (wrong := np.flatnonzero(np.diff(all_ends) < 0)).size:
        number = int(wrong[0])
        if number == len(ends):
            raise ArrayError(f"offsets must be at most {rows}, the rows of a, got {ends[-1]} at the end")
        raise ArrayError(f"offsets must not decrease from 0 on, got {ends[number]} after {all_ends[number]}")


def _of_groups(request: Request, dtype: str) -> Request:
    """Request of a grouped product, checked, with the kernel for factors of this type where a config is named."""
    if request.config is None:
        return request.checked()
    asked = request._replace(kernel=kernel_for(dtype)).checked()
    asked.kernel.config(dict(asked.config))  # refuses what it cannot run with
    return asked


def _scale(operand: Operand | None, sides: int, k: int, groups: int | None) -> Scale | None:
    """How the scales of a factor with this many rows of a, or columns of b, lie; None for none.

    Of a grouped product, each of the groups has its own scales of b, and none are of blocks.

    Raises:
        ArrayError: their shape does not fit, or their strides are no whole numbers of elements.
    """
    if operand is None:
        return None
    shape, strides = operand.view
    if math.prod(shape) == 1:
        return Scale("tensor")
    of_a, deep, wide = operand.argument == "scale_a", ceil_div(k, SCALED_BLOCK), ceil_div(sides, SCALED_BLOCK)
    kinds: list[tuple[Shape, ScaleKind]]
    if of_a:
        kinds = [((sides, 1), "line"), ((sides, deep), "1x128"), ((wide, deep), "128x128")]
        kinds = kinds if groups is None else kinds[:1]
    elif groups is None:
        kinds = [((1, sides), "line"), ((deep, wide), "128x128")]
    else:
        kinds = [((groups, sides), "line"), ((groups, 1), "line")]
    if strides is None or len(shape) > 2:
        raise ArrayError(f"{operand.argument} must be a matrix of whole elements, got shape {shape}")
    if shape == (sides,) and (of_a or groups is None):
        return Scale("line", strides[0])
    for fits, kind in kinds:
        if shape == fits:  # along an axis of one element, strides are 0
            return Scale(kind, *(strides if of_a else strides[::-1]))
    known = " or ".join(f"{rows} x {cols}" for rows, cols in dict.fromkeys(fits for fits, _ in kinds))
    raise ArrayError(f"{operand.argument} must have 1 element, or be of {known}, got shape {shape}")


def _check_scale(operand: Operand, a: Operand, b: Operand, *, grouped: bool) -> None:
    """Raise where a scale does not fit the factors, whose shapes fit each other."""
    name = operand.argument
    if a.dtype not in (known := (*FLOAT8, *INT8)):
        raise DtypeError(f"{name} is for factors of {', '.join(known)}, got {a.dtype}")
    if operand.dtype != "float32":
        raise DtypeError(f"{name} must have element type float32, got {operand.dtype}")
    if not grouped and math.prod(operand.shape) != 1 and (len(a.shape) != 2 or len(b.shape) != 2):
        raise ArrayError(f"{name} must have 1 element where a and b are no matrices, got shape {operand.shape}")


def _check_integers(scalars: Scalars) -> None:
    """Raise ProblemError unless alpha and beta are integers that a launch, which is given float32, is given exactly."""
    for name, value in scalars.named.items():
        if abs(value) > 1 << 24 or value % 1:
            raise ProblemError(
                f"{name} must be an integer from -2^24 to 2^24 where the result is {SUMS_OF_INT8}, got {value!r}"
            )


def missing_c(beta: float) -> ArrayError:
    """Error for a beta that is not 0 without a c."""
    return ArrayError(f"c must be given where beta is not 0, got beta={beta}; it may be the same array as out")


def check_library(name: str, array: Any, library: Library, a: Any) -> None:
    """Raise ArrayError where an array is of another library than a, whose library this is."""
    if library_of(name, array) is not library:
        raise ArrayError(
            f"{name} must be of the same library as a and lie on the same device: "
            f"got {type_name(array)}, and {type_name(a)} for a"
        )


_arithmetic = lru_cache(Arithmetic)


def _host_engine(request: Request) -> Engine | None:
    """Where arrays on the host are multiplied; None for NumPy."""
    if request.engine is None and request.kernel is None and (missing := cuda_unavailable()):
        if request.batch_invariant:
            raise EngineUnavailableError(
                "batch_invariant needs a GPU, or engine='emulator': NumPy's BLAS, which multiplies arrays on the host "
                f"without one, adds up a row in an order that depends on the others. {missing}"
            )
        return None
    return resolve_engine("auto" if request.engine is None else request.engine)


def gpu_engine(engine: str | Engine | None, device: int) -> Engine:
    """The engine of the GPU that the arrays lie on."""
    if engine is None or engine in ("auto", "cuda"):
        return _gpu(device)
    resolved = resolve_engine(engine)
    if resolved.capability is None:
        raise ArrayError(f"a must lie on the host for the {resolved.name} engine, got {name_of_device(device)}")
    from tilewright.runtime.cuda import CudaEngine  # noqa: PLC0415 - slow to import, see registry

    if isinstance(resolved, CudaEngine) and resolved.device.device_id != device:
        raise ArrayError(
            f"a must lie on the engine's {name_of_device(resolved.device.device_id)}, got {name_of_device(device)}"
        )
    return resolved


@lru_cache
def _gpu(device: int) -> Engine:
    if device == 0:
        return resolve_engine("cuda")
    from tilewright.runtime.cuda import CudaEngine  # noqa: PLC0415 - slow to import, see registry

    return CudaEngine(device)


# What an array's part of a signature holds, in the order in which differences are reported.
_KINDS: tuple[tuple[int, str, Callable[[Any], str]], ...] = (
    (2, "element type", str),
    (0, "shape", str),
    (1, "strides in bytes of", str),
    (3, "its place on", lambda device: name_of_device(device)),
    (4, "an address that, divided by 16, leaves", str),
    (5, "conjugated elements:", str),
)


def difference(expected: tuple[Any, ...], got: tuple[Any, ...]) -> str:
    """First difference between two signatures, in words."""
    for name, one, other in zip(("a", "b", "c", "out", "bias"), expected, got, strict=False):
        if (one is None) != (other is None):
            before, now = ("with", "without") if other is None else ("without", "with")
            return f"the plan is {before} {name}, the call {now}"
        if one != other:
            for place, what, text in _KINDS:
                if one[place] != other[place]:
                    return f"{name} has {what} {text(other[place])}, the plan's has {text(one[place])}"
    if expected[6] != got[6]:
        return f"alpha is {'0' if got[6] else 'not 0'}, the plan's is {'0' if expected[6] else 'not 0'}"
    if expected[8] != got[8]:
        return f"b is {'' if got[8] else 'not '}prepared, the plan's is{' not' if got[8] else ''}"
    if expected[9] != got[9]:
        return f"there are {got[9]}; the plan's are {expected[9]}"
    if expected[11] != got[11]:
        return f"alpha is {'' if got[11] else 'not '}complex, the plan's is{' not' if got[11] else ''}"
    return "the arrays are of another library"


def name_of_device(device: int) -> str:
    """Name of a device in messages."""
    return "the host" if device == HOST else f"GPU {device}"
