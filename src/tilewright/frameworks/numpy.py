"""Arrays of NumPy."""

from typing import Any

import numpy as np

from tilewright.api.arrays.library import LEGACY_STREAM, Library, type_name
from tilewright.api.arrays.operand import Operand, host_operand
from tilewright.core.errors import ArrayError, ProblemError

_PLAIN = (np.ndarray, np.memmap)


class NumPy(Library):
    """numpy.ndarray and numpy.memmap."""

    shows_offsets = True

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        if type(array) not in _PLAIN:
            check_plain(argument, array)
        return host_operand(argument, array, array)

    def number(self, argument: str, array: Any) -> Any:
        if type(array) not in _PLAIN:  # a masked one may hold none
            raise ProblemError(f"{argument} must be a number, got {array!r}")
        return array.item()

    def new(self, like: Operand, shape: tuple[int, ...], dtype: str) -> Operand:
        return self.read("out", np.empty(shape, dtype), LEGACY_STREAM)

    def finish(self, result: Operand, like: Operand) -> Any:
        return result.array if result.shape else result.array[()]  # a scalar, as numpy.matmul gives


def check_plain(argument: str, array: Any) -> None:
    """Raise ArrayError where an array is of a subclass, whose elements may mean more than their memory says."""
    if type(array) in _PLAIN:
        return
    if isinstance(array, np.ma.MaskedArray):
        plain = f"{argument}.filled(0) is one, with 0 for what is masked" if argument != "out" else "out.data is one"
    else:
        plain = f"numpy.asarray({argument}) makes one, without what the subclass adds"
    raise ArrayError(f"{argument} must be a plain numpy.ndarray, got {type_name(array)}: {plain}")
