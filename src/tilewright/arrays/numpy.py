"""Arrays of NumPy."""

from typing import Any

import numpy as np

from tilewright.arrays.library import LEGACY_STREAM, Library, type_name
from tilewright.arrays.operand import Operand, host_operand
from tilewright.errors import ArrayError


class NumPy(Library):
    """numpy.ndarray and numpy.memmap."""

    shows_offsets = True

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        if type(array) not in (np.ndarray, np.memmap):
            raise ArrayError(
                f"{argument} must be a plain numpy.ndarray, got {type_name(array)}: "
                f"numpy.asarray({argument}) makes one, without what the subclass adds"
            )
        return host_operand(argument, array, array)

    def new(self, like: Operand, shape: tuple[int, ...], dtype: str) -> Operand:
        return self.read("out", np.empty(shape, dtype), LEGACY_STREAM)
