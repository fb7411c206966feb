"""Arrays of JAX."""

import math
import sys
from typing import Any

import numpy as np

from tilewright.arrays.library import Library
from tilewright.arrays.operand import Operand, engine_operand, gpu_operand, host_operand, supported
from tilewright.arrays.protocols import DLPACK_HOST, exchanged
from tilewright.engines.base import Engine
from tilewright.errors import ArrayError
from tilewright.problem import ITEM_BYTES


class Jax(Library):
    """jax.Array."""

    immutable = True

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        if is_traced(array):
            raise ArrayError(
                f"{argument} is a traced value, which matmul takes and plan does not: it has no memory yet"
            )
        dtype = supported(argument, str(array.dtype))
        if dtype == "bfloat16" and array.__dlpack_device__()[0] in DLPACK_HOST:
            return host_operand(argument, array, np.asarray(array))  # makes no copy; NumPy's DLPack lacks bfloat16
        return exchanged(argument, array, stream)

    def shown(self, argument: str, array: Any) -> Operand:
        """What is known of an array that XLA will multiply: its shape and type.

        Raises:
            DtypeError: the element type is not supported.
        """
        dtype = supported(argument, str(array.dtype))
        return gpu_operand(argument, array, 0, array.shape, (0,) * array.ndim, dtype, 0)

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


def is_traced(array: Any) -> bool:
    """Whether it stands for an array inside jit, grad or vmap."""
    return any(base.__name__ == "Tracer" for base in type(array).__mro__)


def lies_on_a_gpu(array: Any) -> bool:
    """Whether an array that is not traced lies on GPUs."""
    return any(getattr(device, "platform", "") == "gpu" for device in array.devices())
