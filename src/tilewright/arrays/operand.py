"""Operand: a matrix that a caller gave, and where its elements lie."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.engines.base import Matrix
from tilewright.errors import ArrayError, DtypeError
from tilewright.problem import DTYPES, ITEM_BYTES, RESULT_DTYPE

HOST = -1
"""Device of arrays in the host's memory; GPUs count from 0."""

_FACTORS = ("a", "b")
"""The arguments that may have any of the element types; the others are results, or added to them."""


class Operand(NamedTuple):
    """A matrix that a caller gave: where its elements lie."""

    argument: str
    """Its name among the arguments of `matmul`, for messages."""
    array: Any
    """The array itself, which keeps the memory alive."""
    host: NDArray[Any] | None
    """A NumPy view of it; None on a GPU."""
    pointer: int
    """Address of element (0, 0)."""
    shape: tuple[int, int]
    strides: tuple[int, int]
    """Bytes from one row and one column to the next; as if row-major along an axis of one element or none."""
    dtype: str
    device: int
    """The GPU's number, or HOST."""
    read_only: bool

    @property
    def row_major(self) -> bool:
        """Whether the elements of a row touch and rows do not overlap: what kernels take."""
        item = ITEM_BYTES[self.dtype]
        row, col = self.strides
        return col == item and row >= self.shape[1] * item and row % item == 0

    @property
    def matrix(self) -> Matrix:
        """The operand as engines take it; it must be row-major."""
        rows, cols = self.shape
        ld = max(self.strides[0] // ITEM_BYTES[self.dtype], 1)
        return Matrix(self.pointer, rows, cols, ld, self.dtype, self.array)

    @property
    def elements_overlap(self) -> bool:
        """Whether some of its elements share memory, as in a broadcast array, so that it cannot be written."""
        (near, near_count), (far, _) = sorted(zip(map(abs, self.strides), self.shape, strict=True))
        return 0 not in self.shape and (near < ITEM_BYTES[self.dtype] or far < near * near_count)

    def is_same(self, other: "Operand") -> bool:
        """Whether both are the same elements in the same order."""
        return (self.pointer, self.shape, self.strides) == (other.pointer, other.shape, other.strides)

    def overlaps(self, other: "Operand") -> bool:
        """Whether an element of one shares memory with an element of the other. Views side by side do not."""
        low, high = self._bounds()
        other_low, other_high = other._bounds()
        return low < other_high and other_low < high and np.shares_memory(self._addresses(), other._addresses())

    def _bounds(self) -> tuple[int, int]:
        """The first address that the elements lie at, and the one past the last; both 0 if there are none."""
        rows, cols = self.shape
        if rows == 0 or cols == 0:
            return 0, 0
        down, across = (rows - 1) * self.strides[0], (cols - 1) * self.strides[1]
        low = self.pointer + min(down, 0) + min(across, 0)
        return low, self.pointer + max(down, 0) + max(across, 0) + ITEM_BYTES[self.dtype]

    def _addresses(self) -> NDArray[Any]:
        """A NumPy array of the same addresses, for comparing them: a GPU's memory cannot be read through it."""
        return np.asarray(_ArrayInterface(self))


class _ArrayInterface:
    def __init__(self, operand: Operand) -> None:
        self.__array_interface__ = {
            "data": (operand.pointer, True),
            "shape": operand.shape,
            "strides": operand.strides,
            "typestr": np.dtype(operand.dtype).str,
            "version": 3,
        }


def supported(argument: str, dtype: str) -> str:
    """The element type, if kernels take it for this argument.

    Raises:
        DtypeError: they do not.
    """
    if dtype not in (DTYPES if argument in _FACTORS else (RESULT_DTYPE,)):
        raise DtypeError(
            f"{argument} has element type {dtype}; matmul takes {', '.join(DTYPES)} for a and b, "
            f"and {RESULT_DTYPE} for c and out"
        )
    return dtype


def host_operand(argument: str, array: Any, view: NDArray[Any]) -> Operand:
    """The operand that a NumPy view of an array shows.

    Raises:
        ArrayError: it is no matrix.
        DtypeError: the element type is not supported.
    """
    dtype = supported(argument, str(view.dtype))
    shape, strides = _matrix(argument, view.shape, view.strides, dtype)
    return Operand(argument, array, view, view.ctypes.data, shape, strides, dtype, HOST, not view.flags.writeable)


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
    """The operand of an array on a GPU; strides are in bytes, dtype is a supported one.

    Raises:
        ArrayError: it is no matrix.
    """
    matrix_shape, matrix_strides = _matrix(argument, shape, strides, dtype)
    return Operand(argument, array, None, pointer, matrix_shape, matrix_strides, dtype, device, read_only)


def _matrix(
    argument: str, shape: Sequence[int], strides: Sequence[int], dtype: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Shape and strides of a matrix; strides that no element depends on are those of a row-major one."""
    if len(shape) != 2:
        raise ArrayError(f"{argument} must be a matrix, with 2 dimensions; got {len(shape)}, shape {tuple(shape)}")
    rows, cols = shape
    row, col = strides
    item = ITEM_BYTES[dtype]
    return (rows, cols), (row if rows > 1 and cols else cols * item, col if cols > 1 and rows else item)
