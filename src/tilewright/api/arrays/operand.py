"""Operand: an array that a caller gave, and where its elements lie."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np
from numpy.typing import NDArray

from tilewright.api.formulate import View
from tilewright.core.dtypes import ARRAYS, COMPLEX, ITEM_BYTES, SUMS_OF_INT8
from tilewright.core.errors import DtypeError
from tilewright.runtime.base import Matrix

HOST = -1
"""Device of arrays in the host's memory; GPUs count from 0."""


class Operand(NamedTuple):
    """An array that a caller gave: where its elements lie."""

    argument: str
    """Its name among the arguments of `matmul`, for messages."""
    array: Any
    """The array itself, which keeps the memory alive."""
    host: NDArray[Any] | None
    """A NumPy view of it; None on a GPU."""
    pointer: int
    """Address of its first element."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Bytes from one element to the next along each axis; 0 along an axis of one element or none."""
    dtype: str
    device: int
    """The GPU's number, or HOST."""
    read_only: bool
    conjugated: bool = False
    """Whether its elements are the conjugates of those in memory; of a and b alone."""

    @property
    def view(self) -> View:
        """Shape, and strides in elements."""
        item, strides = ITEM_BYTES[self.dtype], self.strides
        whole = math.gcd(item, *strides) == item
        return View(self.shape, tuple([stride // item for stride in strides]) if whole else None)

    @property
    def elements_overlap(self) -> bool:
        """Whether some of its elements share memory, as in a broadcast array, so that it cannot be written."""
        if 0 in self.shape:
            return False
        end = ITEM_BYTES[self.dtype]
        axes = sorted((abs(stride), count) for stride, count in zip(self.strides, self.shape, strict=True) if count > 1)
        for stride, count in axes:  # enough for what slicing and transposing make
            if stride < end:
                return True
            end = stride * (count - 1) + end
        return False

    def is_same(self, other: "Operand") -> bool:
        """Whether both are the same elements in the same order."""
        return (self.pointer, self.shape, self.strides) == (other.pointer, other.shape, other.strides)

    def overlaps(self, other: "Operand") -> bool:
        """Whether an element of one shares memory with an element of the other. Views side by side do not."""
        low, high = self._bounds()
        other_low, other_high = other._bounds()
        if low >= other_high or other_low >= high:
            return False
        try:
            return np.shares_memory(self._addresses(), other._addresses(), max_work=_MOST_WORK)  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return True

    def _bounds(self) -> tuple[int, int]:
        """The first address that the elements lie at, and the one past the last; both 0 if there are none."""
        if 0 in self.shape:
            return 0, 0
        reaches = [(count - 1) * stride for count, stride in zip(self.shape, self.strides, strict=True)]
        low = self.pointer + sum(min(reach, 0) for reach in reaches)
        return low, self.pointer + sum(max(reach, 0) for reach in reaches) + ITEM_BYTES[self.dtype]

    def _addresses(self) -> NDArray[Any]:
        """A NumPy array of the same addresses, for comparing them: a GPU's memory cannot be read through it."""
        dtype = np.dtype(self.dtype).str
        return np.asarray(ArrayInterface(self.pointer, True, self.shape, self.strides, dtype))


_MOST_WORK = 1_000_000
"""Steps of the exact comparison of addresses, after which two arrays are taken to overlap."""


class ArrayInterface:
    """An object with NumPy's __array_interface__: arrays that NumPy makes of it share the memory, and keep its owner
    alive."""

    def __init__(
        self,
        pointer: int,
        read_only: bool,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        typestr: str,
        owner: Any = None,
    ) -> None:
        self.owner = owner
        data = pointer, read_only
        self.__array_interface__ = {"data": data, "shape": shape, "strides": strides, "typestr": typestr, "version": 3}


_REAL = re.compile(r"bool|u?int\d+|float\d+(_e\d+m\d+\w*)?|[<>][iuf]\d+")
"""Names of element types whose conversion to float32 does nothing but round."""

_PACKED = "_x2"
"""End of the names of types of which PyTorch keeps two elements in a byte, and converts none."""


def unsupported(argument: str, dtype: str, convert: str = "{}.astype('float32')") -> DtypeError:
    """The error for an element type that no kernel takes: which there are, and how to convert, where that changes no
    more than the type.

    Args:
        argument: what has the type.
        dtype: its name.
        convert: how the library converts an array, which stands for {}.
    """
    taken = [one for one in ARRAYS if one != SUMS_OF_INT8 or argument not in ("a", "b")]
    known = f"{argument} has element type {dtype}; matmul takes {', '.join(taken)}"
    return DtypeError(known + _advice(argument, dtype, convert))


def _advice(argument: str, dtype: str, convert: str) -> str:
    if argument == "out":  # a converted one would be written in place of the caller's
        return ": pass an out of one of these"
    if "complex" in dtype or dtype.lstrip("<>").startswith("c"):
        return f": pass {convert.format(argument).replace('float32', COMPLEX)}"
    if _REAL.fullmatch(dtype) and not dtype.endswith(_PACKED):
        return f": pass {convert.format(argument)}"
    return ""


def host_operand(argument: str, array: Any, view: NDArray[Any], convert: str = "{}.astype('float32')") -> Operand:
    """The operand that a NumPy view of an array shows.

    Raises:
        DtypeError: the element type is not supported.
    """
    dtype = str(view.dtype)
    if dtype not in ARRAYS:
        raise unsupported(argument, dtype, convert)
    strides = _normal(view.shape, view.strides)
    return Operand(argument, array, view, view.ctypes.data, view.shape, strides, dtype, HOST, not view.flags.writeable)


def gpu_operand(
    argument: str,
    array: Any,
    pointer: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: str,
    device: int,
    read_only: bool = False,
) -> Operand:
    """The operand of an array on a GPU; strides are in bytes, dtype is one of ARRAYS."""
    sizes = tuple(shape)
    return Operand(argument, array, None, pointer, sizes, _normal(sizes, strides), dtype, device, read_only)


def engine_operand(argument: str, memory: Matrix, shape: Sequence[int], device: int) -> Operand:
    """The operand of a row-major array without gaps, of any shape, that fills memory of an engine."""
    strides = [ITEM_BYTES[memory.dtype] * stride for stride in View.tight(shape).strides or ()]
    return gpu_operand(argument, memory, memory.pointer, shape, strides, memory.dtype, device)


def _normal(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides, those that no element depends on being 0."""
    if 0 in shape:
        return (0,) * len(shape)
    return tuple([stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True)])
