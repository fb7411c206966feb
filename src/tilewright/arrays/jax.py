"""Arrays of JAX."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.arrays.library import Library
from tilewright.arrays.operand import Operand, gpu_operand, host_operand, supported
from tilewright.arrays.protocols import DLPACK_HOST, exchanged
from tilewright.errors import ArrayError, DtypeError
from tilewright.problem import FLOAT8


class Jax(Library):
    """jax.Array. XLA multiplies what is traced or lies on a GPU."""

    immutable = True

    def recorder(self, arrays: Mapping[str, Any], grouped: bool = False) -> Callable[..., Any] | None:
        if not any(_is_traced(array) or _lies_on_a_gpu(array) for array in arrays.values()):
            return None
        if grouped:
            raise ArrayError("grouped_matmul takes no arrays that JAX traces or that lie on its GPU")
        from tilewright.jax_op.call import matmul  # noqa: PLC0415 - imports JAX, which has been imported here

        return matmul

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        dtype = supported(argument, str(array.dtype))
        if (dtype == "bfloat16" or dtype in FLOAT8) and array.__dlpack_device__()[0] in DLPACK_HOST:
            return host_operand(argument, array, np.asarray(array))  # makes no copy; NumPy's DLPack lacks these
        return exchanged(argument, array, stream)

    def shown(self, argument: str, array: Any) -> Operand:
        """What is known of an array that XLA will multiply: its shape and type.

        Raises:
            DtypeError: the element type is not supported.
        """
        dtype = supported(argument, str(array.dtype))
        if dtype in FLOAT8:
            raise DtypeError(f"{argument} has element type {dtype}, which is for arrays that XLA does not multiply")
        return gpu_operand(argument, array, 0, array.shape, (0,) * array.ndim, dtype, 0)

    def new(self, like: Operand, shape: tuple[int, ...], dtype: str) -> Operand:
        undefined = np.empty(shape, dtype)
        return host_operand("out", undefined, undefined)

    def finish(self, result: Operand, like: Operand) -> Any:
        (device,) = like.array.devices()
        return sys.modules["jax"].device_put(result.host, device)


def _is_traced(array: Any) -> bool:
    """Whether it stands for an array inside jit, grad or vmap."""
    return any(base.__name__ == "Tracer" for base in type(array).__mro__)


def _lies_on_a_gpu(array: Any) -> bool:
    devices = getattr(array, "devices", None)
    return callable(devices) and any(getattr(device, "platform", "") == "gpu" for device in devices())
