"""GroupedCall: the arrays of a call of `grouped_matmul` as they lie in memory, read and checked."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.arrays.libraries import library_of
from tilewright.arrays.library import Library, type_name
from tilewright.arrays.operand import HOST, Operand
from tilewright.calls import check_library, dtype_name, gpu_engine, place_name
from tilewright.core.dtypes import FLOAT8, default_result
from tilewright.core.errors import ArrayError, ConfigError, DtypeError
from tilewright.core.problem import Scale, Scaling
from tilewright.engines.base import Engine
from tilewright.engines.registry import cuda_unavailable, resolve_engine
from tilewright.kernels.library.grouped_sm90 import FP8, KERNEL, kernel_for
from tilewright.kernels.spec import Config, Kernel, parse_overrides
from tilewright.shapes import size

Shape = tuple[int, ...]


class GroupedCall(NamedTuple):
    """One call: its arrays as they lie in memory, and what is asked."""

    library: Library
    engine: Engine | None
    """None for NumPy."""
    stream: int
    a: Operand
    b: Operand
    offsets: Operand
    out: Operand | None
    result: str
    """Element type of the result."""
    config: Config | None
    """None where the choice is left to `select`."""
    scale_a: Operand | None = None
    scale_b: Operand | None = None

    @classmethod
    def read(
        cls,
        arrays: Mapping[str, Any],
        out_dtype: Any,
        config: str | Mapping[str, int] | None,
        engine: str | Engine | None,
    ) -> "GroupedCall":
        """Read and check the arrays of a call.

        Raises:
            ArrayError, DtypeError: they do not fit each other, or cannot be read.
            ConfigError: the kernel has no such config.
        """
        first = arrays["a"]
        library = library_of("a", first)
        for name in ("b", "offsets", "out", "scale_a", "scale_b"):
            if arrays.get(name) is not None:
                check_library(name, arrays[name], library, first)
        stream = library.stream(first)
        a, b = library.read("a", first, stream), library.read("b", arrays["b"], stream)
        offsets = library.read_offsets(arrays["offsets"], stream)
        out = None if arrays["out"] is None else library.read("out", arrays["out"], stream)
        if a.device != HOST:
            where: Engine | None = gpu_engine(engine, a.device)
        elif engine is None and config is None and cuda_unavailable():
            where = None
        else:
            where = resolve_engine("auto" if engine is None else engine)
        result = dtype_name(out_dtype) or (out.dtype if out else default_result(a.dtype))
        scales = (
            None if (one := arrays.get(name)) is None else library.read(name, one, stream)
            for name in ("scale_a", "scale_b")
        )
        chosen = _config(config, kernel_for(a.dtype))
        call = cls(library, where, stream, a, b, offsets, out, result, chosen, *scales)
        call.check()
        return call

    @property
    def shape(self) -> Shape:
        """Of the result."""
        return self.a.shape[0], self.b.shape[2]

    @property
    def signature(self) -> tuple[Any, ...]:
        """All that a plan depends on."""
        return self.a.kind, self.b.kind, self.out and self.out.kind, self.result, self.config, self.scaling

    @property
    def scales(self) -> list[Operand]:
        """Those of a and b, where they have some."""
        return [operand for operand in (self.scale_a, self.scale_b) if operand is not None]

    @property
    def scaling(self) -> Scaling:
        """How the scales lie.

        Raises:
            ArrayError: their shapes do not fit.
        """
        (rows, columns), groups = self.shape, self.b.shape[0]
        return Scaling(*(one and _scale(one, rows, columns, groups) for one in (self.scale_a, self.scale_b)))

    def check(self) -> None:
        """Raise where the operands do not fit each other, or the result must not be written to `out`."""
        a, b, offsets, out = self.a, self.b, self.offsets, self.out
        check_grouped(a.shape, b.shape, offsets.shape, out and out.shape)
        check_types(a.dtype, b.dtype)
        check_result(a.dtype, self.result)
        for operand in self.scales:
            if a.dtype not in FLOAT8:
                raise DtypeError(f"{operand.argument} is for factors of {' and '.join(FLOAT8)}, got {a.dtype}")
            if operand.dtype != "float32":
                raise DtypeError(f"{operand.argument} must have element type float32, got {operand.dtype}")
        assert self.scaling
        for operand in (b, offsets, *self.scales, *([out] if out else [])):
            if operand.device != a.device:
                raise ArrayError(
                    f"{operand.argument} must lie where a does: got {place_name(operand.device)}, "
                    f"and {place_name(a.device)} for a"
                )
        if offsets.host is not None:
            _check_ends(self.ends, a.shape[0])
        if out is None:
            return
        if out.dtype != self.result:
            raise DtypeError(f"out must have the result's element type {self.result}: got {out.dtype}")
        if self.library.immutable:
            raise ArrayError(f"out must be an array that can be written, and a {type_name(out.array)} never is")
        if out.read_only:
            raise ArrayError("out must be an array that can be written, got a read-only one")
        if out.elements_overlap:
            raise ArrayError(f"out must have memory for every element, got strides of {out.strides} bytes")
        for operand in (a, b, offsets, *self.scales):
            if out.overlaps(operand):
                raise ArrayError(f"out must not overlap {operand.argument} in memory")

    @property
    def ends(self) -> NDArray[np.int32]:
        """The offsets, which lie on the host."""
        assert self.offsets.host is not None
        return self.offsets.host.view(np.int32)


def check_grouped(a: Shape, b: Shape, offsets: Shape, out: Shape | None = None) -> None:
    """Raise ArrayError unless arrays of these shapes fit each other."""
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


def check_types(a: str, b: str) -> None:
    """Raise DtypeError unless factors of these element types are multiplied."""
    known = (*KERNEL.takes.factors, *FP8.takes.factors)
    if a not in known:
        raise DtypeError(f"a has element type {a}; grouped_matmul takes {', '.join(known)}")
    if a != b and not (a in FLOAT8 and b in FLOAT8):
        raise DtypeError(f"b must have the element type of a: got {b}, and {a} for a")


def check_result(a: str, result: str) -> None:
    """Raise DtypeError unless products of factors of a type may have results of another."""
    if result not in (known := kernel_for(a).takes.results):
        raise DtypeError(f"out_dtype must be one of {', '.join(known)}, got {result} with factors of {a}")


def _scale(operand: Operand, rows: int, columns: int, groups: int) -> Scale:
    """How the scales of a with this many rows lie, or of b, whose matrices have this many columns.

    Raises:
        ArrayError: their shape does not fit, or their strides are no whole numbers of elements.
    """
    name, (shape, strides) = operand.argument, operand.view
    if strides is None:
        raise ArrayError(f"{name} must have whole elements, got shape {shape}")
    if math.prod(shape) == 1:
        return Scale("tensor")
    if name == "scale_a":
        if shape not in ((rows,), (rows, 1)):
            raise ArrayError(f"scale_a must have 1 element, or be of {rows} x 1, got shape {shape}")
        return Scale("line", strides[0])
    if shape not in ((groups, columns), (groups, 1)):
        raise ArrayError(
            f"scale_b must have 1 element, or be of {groups} x {columns} or {groups} x 1, got shape {shape}"
        )
    return Scale("line", strides[1] if shape[1] > 1 else 0, strides[0])


def _check_ends(ends: NDArray[np.int32], rows: int) -> None:
    """Raise ArrayError unless offsets on the host are ends of groups of this many rows."""
    all_ends = np.concatenate(([0], ends, [rows]))
    if (wrong := np.flatnonzero(np.diff(all_ends) < 0)).size:
        number = int(wrong[0])
        if number == len(ends):
            raise ArrayError(f"offsets must be at most {rows}, the rows of a, got {ends[-1]} at the end")
        raise ArrayError(f"offsets must not decrease from 0 on, got {ends[number]} after {all_ends[number]}")


def _config(config: str | Mapping[str, int] | None, kernel: Kernel) -> Config | None:
    if config is None:
        return None
    if isinstance(config, str):
        config = parse_overrides(config)
    if not isinstance(config, Mapping):
        raise ConfigError(f"config must map parameters to integers or read NAME=INTEGER,..., got {config!r}")
    return kernel.config(config)
