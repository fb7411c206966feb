"""Arrays of JAX."""

import math
import sys
from typing import Any

import numpy as np

from tilewright.arrays.library import Library
from tilewright.arrays.operand import Operand, engine_operand, host_operand, supported
from tilewright.arrays.protocols import DLPACK_HOST, exchanged
from tilewright.engines.base import Engine
from tilewright.errors import ArrayError
from tilewright.problem import ITEM_BYTES


class Jax(Library):
    """jax.Array."""

    immutable = True

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        if any(base.__name__ == "Tracer" for base in type(array).__mro__):
            raise ArrayError(f"{argument} is a traced value: matmul takes JAX arrays, outside jit, grad and vmap")
        dtype = supported(argument, str(array.dtype))
        if dtype == "bfloat16" and array.__dlpack_device__()[0] in DLPACK_HOST:
            return host_operand(argument, array, np.asarray(array))  # makes no copy; NumPy's DLPack lacks bfloat16
        return exchanged(argument, array, stream)

    def new(self, like: Operand, shape: tuple[int, ...], dtype: str, engine: Engine | None) -> Operand:
        if engine is None or 0 in shape:
            undefined = np.empty(shape, dtype)
            return host_operand("out", undefined, undefined)
        memory = engine.empty(1, math.prod(shape), dtype)
        return engine_operand("out", memory, shape, like.device)

    def finish(self, result: Operand, like: Operand) -> Any:
        jax = sys.modules["jax"]
        if result.host is not None:
            (device,) = like.array.devices()
            return jax.device_put(result.host, device)
        from cuda.core import Buffer  # noqa: PLC0415 - slow to import, and a JAX user on a GPU alone needs it
        from cuda.core.utils import StridedMemoryView  # noqa: PLC0415

        size = math.prod(result.shape) * ITEM_BYTES[result.dtype]
        memory = Buffer.from_handle(result.pointer, size, owner=result.array)
        return jax.dlpack.from_dlpack(StridedMemoryView.from_buffer(memory, result.shape, dtype=np.dtype(result.dtype)))

    def waits(self, array: Any) -> bool:
        return True
