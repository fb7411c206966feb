"""Arrays of JAX."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.api.arrays.library import Library, type_name
from tilewright.api.arrays.operand import Operand, host_operand, unsupported
from tilewright.core.dtypes import ARRAYS, FLOAT8
from tilewright.core.errors import ArrayError, DtypeError, ProblemError
from tilewright.frameworks.dlpack import DLPACK_HOST, exchange_device, exchanged
from tilewright.frameworks.numpy import check_plain


class Jax(Library):
    """jax.Array. XLA multiplies what is traced or lies on a GPU."""

    immutable = True

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        dtype = _dtype(argument, array)
        if (dtype == "bfloat16" or dtype in FLOAT8) and exchange_device(argument, array) in DLPACK_HOST:
            return host_operand(argument, array, np.asarray(array))  # makes no copy; NumPy's DLPack lacks these
        return exchanged(argument, array, stream)

    def records(self, arrays: Mapping[str, Any]) -> bool:
        for name, array in arrays.items():
            if not is_traced(array) and getattr(array, "is_deleted", bool)():
                raise ArrayError(f"{name} has no elements any more: it was deleted, or donated to a program")
        return any(is_traced(array) or lies_on_a_gpu(array) for array in arrays.values())

    def number(self, argument: str, array: Any) -> Any:
        if is_traced(array):
            raise ProblemError(
                f"{argument} must be a number when a program is traced, got {type_name(array)}: it is part of the "
                "program, as a static argument of jax.jit is"
            )
        return super().number(argument, array) if lies_on_a_gpu(array) else np.asarray(array).item()

    def constant(self, argument: str, array: Any) -> Any:
        check_plain(argument, array)
        _dtype(argument, array)
        return sys.modules["jax"].numpy.array(array)

    def shown(self, argument: str, array: Any) -> Operand:
        """Shape and type of an array that XLA will multiply, as an operand.

        Raises:
            DtypeError: the element type is not supported.
        """
        dtype = _dtype(argument, array)
        if dtype in FLOAT8:
            raise DtypeError(f"{argument} has element type {dtype}, which is for arrays that XLA does not multiply")
        shape = tuple(array.shape)  # of sizes, or of symbols for sizes
        return Operand(argument, array, None, 0, shape, (0,) * len(shape), dtype, 0, False)

    def new(self, like: Operand, shape: tuple[int, ...], dtype: str) -> Operand:
        undefined = np.empty(shape, dtype)
        return host_operand("out", undefined, undefined)

    def finish(self, result: Operand, like: Operand) -> Any:
        (device,) = like.array.devices()
        return sys.modules["jax"].device_put(result.host, device)


JAX = Jax()


def _dtype(argument: str, array: Any) -> str:
    """The name of an array's element type.

    Raises:
        DtypeError: it is not supported.
    """
    dtype = str(array.dtype)
    if dtype not in ARRAYS:
        raise unsupported(argument, dtype)
    return dtype


def is_traced(array: Any) -> bool:
    """Whether it stands for an array inside jit, grad or vmap."""
    return any(base.__name__ == "Tracer" for base in type(array).__mro__)


def lies_on_a_gpu(array: Any) -> bool:
    devices = getattr(array, "devices", None)
    return callable(devices) and any(getattr(device, "platform", "") == "gpu" for device in devices())
