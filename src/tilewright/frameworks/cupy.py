"""Arrays of CuPy."""

import sys
from typing import Any

import numpy as np

from tilewright.api.arrays.library import LEGACY_STREAM, Library, Maker
from tilewright.api.arrays.operand import Operand, gpu_operand, unsupported
from tilewright.core.dtypes import ARRAYS


class CuPy(Library):
    """cupy.ndarray."""

    shows_offsets = True

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        dtype = str(array.dtype)
        if dtype not in ARRAYS:
            raise unsupported(argument, dtype)
        memory = array.data
        return gpu_operand(argument, array, memory.ptr, array.shape, array.strides, dtype, memory.device_id)

    def new(self, like: Operand, shape: tuple[int, ...], dtype: str) -> Operand:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(like.device):
            return self.read("out", cupy.empty(shape, dtype), LEGACY_STREAM)

    def maker(self, like: Operand, dtype: str) -> Maker:
        # The constructor allocates from CuPy's pool as empty() does, at half its cost.
        make, kind = sys.modules["cupy"].ndarray, np.dtype(dtype)
        return lambda shape: (make, (shape, kind), {})

    def stream(self, array: Any) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream(array.data.device_id).ptr)

    def row_major(self, operand: Operand, shape: tuple[int, ...]) -> Operand:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(operand.device):
            whole = cupy.broadcast_to(operand.array, shape)
            return self.read(operand.argument, cupy.ascontiguousarray(whole), LEGACY_STREAM)

    def copy(self, target: Operand, source: Operand) -> None:
        with sys.modules["cupy"].cuda.Device(target.device):
            target.array[...] = source.array
