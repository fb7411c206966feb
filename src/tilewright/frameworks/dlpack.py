"""Arrays that speak DLPack or __cuda_array_interface__, of whatever library."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.api.arrays.library import LEGACY_STREAM, Library, type_name
from tilewright.api.arrays.operand import HOST, ArrayInterface, Operand, gpu_operand, host_operand, unsupported
from tilewright.api.engines import resolve_engine
from tilewright.api.formulate import View
from tilewright.core.dtypes import ARRAYS, ITEM_BYTES
from tilewright.core.errors import ArrayError

DLPACK_HOST = (1, 3)  # kDLCPU and kDLCUDAHost, which is pinned but ordinary host memory
_DLPACK_GPU = (2, 13)  # kDLCUDA and kDLCUDAManaged
_DLPACK_LEGACY_STREAM = 1  # as DLPack and __cuda_array_interface__ number it
_DLPACK_NO_STREAM = -1  # on the host there are none to wait for
_CONVERT = "{} of one of these"
_PROTOCOL_ERRORS = (BufferError, RuntimeError, TypeError)


class Other(Library):
    """A library of which nothing is known but the protocols that its arrays speak."""

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        return exchanged(argument, array, stream)

    def new(self, like: Operand, shape: tuple[int, ...], dtype: str) -> Operand:
        if not hasattr(like.array, "__array_namespace__"):
            raise ArrayError(f"out must be given: there is no way to ask for a new {type_name(like.array)}")
        if like.device == HOST:
            undefined = np.empty(shape, dtype)
            return host_operand("out", undefined, undefined)
        library = like.array.__array_namespace__()
        array = library.empty(shape, dtype=getattr(library, dtype), device=like.array.device)
        return self.read("out", array, LEGACY_STREAM)

    def finish(self, result: Operand, like: Operand) -> Any:
        return result.array if result.host is None else like.array.__array_namespace__().from_dlpack(result.host)

    def stream(self, array: Any) -> int | None:
        return _interface_stream(array)


def exchanged(argument: str, array: Any, stream: int) -> Operand:
    """Read an array through its protocol: DLPack, or the other one where it alone names the stream."""
    speaks_dlpack = hasattr(array, "__dlpack_device__")
    kind = exchange_device(argument, array) if speaks_dlpack else _DLPACK_GPU[0]
    try:
        view = _host_view(array) if kind in DLPACK_HOST else None
    except _PROTOCOL_ERRORS as error:
        raise _unreadable(argument, error) from error
    if view is not None:
        return host_operand(argument, array, view, _CONVERT)
    if kind not in _DLPACK_GPU:
        raise ArrayError(f"{argument} must lie on the host or an NVIDIA GPU, got DLPack device type {int(kind)}")
    resolve_engine("cuda")  # says what is missing where there is no GPU, as the calls below would not
    from cuda.core.utils import StridedMemoryView  # noqa: PLC0415 - slow to import, and without a GPU of no use

    read = StridedMemoryView.from_dlpack
    if not speaks_dlpack or _interface_stream(array):
        read = StridedMemoryView.from_cuda_array_interface
    try:
        memory = read(array, stream or _DLPACK_LEGACY_STREAM)
        dtype = str(memory.dtype)
    except _PROTOCOL_ERRORS as error:
        raise _unreadable(argument, error) from error
    if dtype not in ARRAYS:
        raise unsupported(argument, dtype, _CONVERT)
    item = ITEM_BYTES[dtype]
    counts = memory.strides or View.tight(memory.shape).strides or ()  # no strides stand for row-major ones
    strides = [item * count for count in counts]
    return gpu_operand(argument, array, memory.ptr, memory.shape, strides, dtype, memory.device_id, memory.readonly)


def exchange_device(argument: str, array: Any) -> int:
    """Kind of the device that an array lies on, as DLPack numbers them.

    Raises:
        ArrayError: the array cannot be exchanged.
    """
    try:
        return int(array.__dlpack_device__()[0])
    except _PROTOCOL_ERRORS as error:
        raise _unreadable(argument, error) from error


def _unreadable(argument: str, error: Exception) -> ArrayError:
    return ArrayError(f"{argument} cannot be read through its protocol: {error}")


def _host_view(array: Any) -> NDArray[Any]:
    """A NumPy view of an array on the host that speaks DLPack."""
    try:
        return np.from_dlpack(array)
    except _PROTOCOL_ERRORS:  # NumPy knows no bfloat16, which cuda.core reads as that of ml_dtypes
        from cuda.core.utils import StridedMemoryView  # noqa: PLC0415 - slow to import

        memory = StridedMemoryView.from_dlpack(array, _DLPACK_NO_STREAM)
        dtype, shape = np.dtype(memory.dtype), tuple(memory.shape)
        strides = memory.strides and tuple(dtype.itemsize * count for count in memory.strides)
        owned = ArrayInterface(memory.ptr, memory.readonly, shape, strides, f"|V{dtype.itemsize}", memory)
        return np.asarray(owned).view(dtype)


def _interface_stream(array: Any) -> int | None:
    """The stream that an array names in version 3 of __cuda_array_interface__."""
    interface = getattr(array, "__cuda_array_interface__", {})
    return interface.get("stream") if interface.get("version", 0) >= 3 else None
