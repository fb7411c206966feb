"""Arrays of NumPy, PyTorch, CuPy, JAX and whatever else speaks DLPack or __cuda_array_interface__, to Operand and back.

The exchange protocols say where an array lies. What they do not say, how its library makes a new array,
copies one and which stream is current, is what a `Library` here knows. A library is never imported:
an array of it can only come from where it has been imported already.
"""

import sys
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.arrays.operand import Operand, gpu_operand, host_operand, supported
from tilewright.engines.base import Engine
from tilewright.engines.registry import resolve_engine
from tilewright.errors import ArrayError
from tilewright.problem import ITEM_BYTES, RESULT_DTYPE

LEGACY_STREAM = 0
"""Handle of CUDA's default stream: it waits for the other blocking streams, and they for it."""

_DLPACK_LEGACY_STREAM = 1  # as DLPack and __cuda_array_interface__ number it
_DLPACK_HOST = (1, 3)  # kDLCPU and kDLCUDAHost, which is pinned but ordinary host memory
_DLPACK_GPU = (2, 13)  # kDLCUDA and kDLCUDAManaged
_DLPACK_NO_STREAM = -1  # on the host there are none to wait for
_PROTOCOL_ERRORS = (BufferError, RuntimeError, TypeError)


class Library(ABC):
    """An array library, and what can be done with its arrays."""

    immutable = False
    """Whether its arrays cannot be written, so that there is no `out`."""

    @abstractmethod
    def read(self, argument: str, array: Any, stream: int) -> Operand:
        """Find where an array lies; work on a GPU's stream will see all that was done to it before.

        Raises:
            ArrayError: the array is no matrix, or lies where no engine can reach it.
            DtypeError: the element type is not supported.
            EngineUnavailableError: it lies on a GPU, and this process can use none.
        """

    @abstractmethod
    def new(self, like: Operand, rows: int, cols: int, engine: Engine | None) -> Operand:
        """Memory for a result, float32, where `like` lies; its elements are undefined. engine is None on the host.

        Raises:
            ArrayError: the library cannot be asked for new arrays.
        """

    def finish(self, result: Operand, like: Operand) -> Any:
        """The array to return, once the memory from `new` holds the result."""
        return result.array

    def stream(self, array: Any) -> int:
        """Handle of the stream that a caller expects work on this GPU array to go to."""
        return LEGACY_STREAM

    def waits(self, array: Any) -> bool:
        """Whether a caller cannot know the stream, so that work must have ended on return."""
        return False

    def row_major(self, operand: Operand) -> Operand:
        """A row-major copy of a GPU array.

        Raises:
            ArrayError: the library cannot be asked for copies.
        """
        raise ArrayError(
            f"{operand.argument} must be row-major, the elements of a row touching; got strides of "
            f"{operand.strides} bytes, and a {type_name(operand.array)} cannot be copied from here"
        )

    def copy(self, target: Operand, source: Operand) -> None:
        """Copy the elements of one GPU array to another.

        Raises:
            ArrayError: the library cannot be asked for copies.
        """
        raise ArrayError(
            f"{source.argument} and {target.argument} must be the same row-major array, "
            f"as a {type_name(source.array)} cannot be copied from here"
        )

    def written(self, array: Any) -> None:  # noqa: B027 - most libraries keep no account of it
        """Tell the library that a kernel has written a GPU array."""


class _NumPy(Library):
    def read(self, argument: str, array: Any, stream: int) -> Operand:
        if type(array) not in (np.ndarray, np.memmap):
            raise ArrayError(
                f"{argument} must be a plain numpy.ndarray, got {type_name(array)}: "
                f"numpy.asarray({argument}) makes one, without what the subclass adds"
            )
        return host_operand(argument, array, array)

    def new(self, like: Operand, rows: int, cols: int, engine: Engine | None) -> Operand:
        return self.read("out", np.empty((rows, cols), RESULT_DTYPE), LEGACY_STREAM)


class _Torch(Library):
    # Reads attributes where _exchanged would do, because a DLPack capsule costs a few microseconds a call.

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        torch = sys.modules["torch"]
        if array.requires_grad and torch.is_grad_enabled():
            raise ArrayError(
                f"{argument} requires a gradient, and matmul records none: "
                f"pass {argument}.detach(), or call matmul under torch.no_grad()"
            )
        if array.layout is not torch.strided:
            raise ArrayError(f"{argument} must be a dense tensor, got one of layout {array.layout}")
        if array.is_neg():
            raise ArrayError(f"{argument} is a view that negates when it is read: pass {argument}.resolve_neg()")
        dtype = supported(argument, str(array.dtype).removeprefix("torch."))
        device = array.device
        if device.type == "cpu":
            return host_operand(argument, array, _numpy_view(array.detach(), dtype))
        if device.type != "cuda":
            raise ArrayError(f"{argument} must lie on the host or an NVIDIA GPU, got device {device}")
        item = ITEM_BYTES[dtype]
        strides = [item * stride for stride in array.stride()]
        return gpu_operand(argument, array, array.data_ptr(), array.shape, strides, dtype, device.index)

    def new(self, like: Operand, rows: int, cols: int, engine: Engine | None) -> Operand:
        torch = sys.modules["torch"]
        array = torch.empty((rows, cols), dtype=getattr(torch, RESULT_DTYPE), device=like.array.device)
        return self.read("out", array, LEGACY_STREAM)

    def stream(self, array: Any) -> int:
        return (
            int(sys.modules["torch"].cuda.current_stream(array.device).cuda_stream) if array.is_cuda else LEGACY_STREAM
        )

    def row_major(self, operand: Operand) -> Operand:
        return self.read(operand.argument, operand.array.contiguous(), LEGACY_STREAM)

    def copy(self, target: Operand, source: Operand) -> None:
        target.array.copy_(source.array)

    def written(self, array: Any) -> None:
        # So that backward() refuses to use a tensor that was saved for it and has changed since.
        sys.modules["torch"].autograd.graph.increment_version(array)


class _CuPy(Library):
    def read(self, argument: str, array: Any, stream: int) -> Operand:
        dtype = supported(argument, str(array.dtype))
        memory = array.data
        return gpu_operand(argument, array, memory.ptr, array.shape, array.strides, dtype, memory.device_id)

    def new(self, like: Operand, rows: int, cols: int, engine: Engine | None) -> Operand:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(like.device):
            return self.read("out", cupy.empty((rows, cols), RESULT_DTYPE), LEGACY_STREAM)

    def stream(self, array: Any) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream(array.data.device_id).ptr)

    def row_major(self, operand: Operand) -> Operand:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(operand.device):
            return self.read(operand.argument, cupy.ascontiguousarray(operand.array), LEGACY_STREAM)

    def copy(self, target: Operand, source: Operand) -> None:
        with sys.modules["cupy"].cuda.Device(target.device):
            target.array[...] = source.array


class _Jax(Library):
    immutable = True

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        if any(base.__name__ == "Tracer" for base in type(array).__mro__):
            raise ArrayError(f"{argument} is a traced value: matmul takes JAX arrays, outside jit, grad and vmap")
        dtype = supported(argument, str(array.dtype))
        if dtype == "bfloat16" and array.__dlpack_device__()[0] in _DLPACK_HOST:
            return host_operand(argument, array, np.asarray(array))  # makes no copy; NumPy's DLPack lacks bfloat16
        return _exchanged(argument, array, stream)

    def new(self, like: Operand, rows: int, cols: int, engine: Engine | None) -> Operand:
        if engine is None or rows == 0 or cols == 0:
            undefined = np.empty((rows, cols), RESULT_DTYPE)
            return host_operand("out", undefined, undefined)
        memory, item = engine.empty(rows, cols, RESULT_DTYPE), ITEM_BYTES[RESULT_DTYPE]
        strides = (memory.ld * item, item)
        return gpu_operand("out", memory, memory.pointer, (rows, cols), strides, RESULT_DTYPE, like.device)

    def finish(self, result: Operand, like: Operand) -> Any:
        jax = sys.modules["jax"]
        if result.host is not None:
            (device,) = like.array.devices()
            return jax.device_put(result.host, device)
        from cuda.core import Buffer  # noqa: PLC0415 - slow to import, and a JAX user on a GPU alone needs it
        from cuda.core.utils import StridedMemoryView  # noqa: PLC0415

        size = result.shape[0] * result.strides[0]
        memory = Buffer.from_handle(result.pointer, size, owner=result.array)
        return jax.dlpack.from_dlpack(StridedMemoryView.from_buffer(memory, result.shape, dtype=np.dtype(result.dtype)))

    def waits(self, array: Any) -> bool:
        return True


class _Other(Library):
    """A library of which nothing is known but the protocols that its arrays speak."""

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        return _exchanged(argument, array, stream)

    def new(self, like: Operand, rows: int, cols: int, engine: Engine | None) -> Operand:
        if not hasattr(like.array, "__array_namespace__"):
            raise ArrayError(f"out must be given: there is no way to ask for a new {type_name(like.array)}")
        if engine is None:
            undefined = np.empty((rows, cols), RESULT_DTYPE)
            return host_operand("out", undefined, undefined)
        library = like.array.__array_namespace__()
        array = library.empty((rows, cols), dtype=getattr(library, RESULT_DTYPE), device=like.array.device)
        return self.read("out", array, LEGACY_STREAM)

    def finish(self, result: Operand, like: Operand) -> Any:
        return result.array if result.host is None else like.array.__array_namespace__().from_dlpack(result.host)

    def stream(self, array: Any) -> int:
        return _interface_stream(array) or LEGACY_STREAM

    def waits(self, array: Any) -> bool:
        return _interface_stream(array) is None


_NUMPY, _JAX, _OTHER = _NumPy(), _Jax(), _Other()
_LIBRARIES: dict[str, Library] = {"torch": _Torch(), "cupy": _CuPy(), "jax": _JAX, "jaxlib": _JAX}


def library_of(argument: str, array: Any) -> Library:
    """The library that an array is of.

    Raises:
        ArrayError: the object is no array that engines could read.
    """
    kind: type = type(array)
    library = _library_of_type(kind)
    if not hasattr(array, "__dlpack__") and not hasattr(array, "__cuda_array_interface__"):
        raise ArrayError(
            f"{argument} must be an array of NumPy, CuPy, PyTorch or JAX, or speak DLPack or "
            f"__cuda_array_interface__; got {type_name(array)}"
        )
    return library


@lru_cache(maxsize=256)
def _library_of_type(kind: type) -> Library:
    if issubclass(kind, np.ndarray):
        return _NUMPY
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((_LIBRARIES[root] for root in roots if root in _LIBRARIES), _OTHER)


def _exchanged(argument: str, array: Any, stream: int) -> Operand:
    """Read an array through its protocol: DLPack, or the other one where it alone tells the stream."""
    speaks_dlpack = hasattr(array, "__dlpack_device__")
    try:
        kind = array.__dlpack_device__()[0] if speaks_dlpack else _DLPACK_GPU[0]
        view = _host_view(array) if kind in _DLPACK_HOST else None
    except _PROTOCOL_ERRORS as error:
        raise ArrayError(f"{argument} cannot be read through its protocol: {error}") from error
    if view is not None:
        return host_operand(argument, array, view)
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
        raise ArrayError(f"{argument} cannot be read through its protocol: {error}") from error
    item = ITEM_BYTES[supported(argument, dtype)]
    counts = memory.strides or (*memory.shape[1:], 1)  # no strides stand for row-major ones
    strides = [item * count for count in counts]
    return gpu_operand(argument, array, memory.ptr, memory.shape, strides, dtype, memory.device_id, memory.readonly)


def _host_view(array: Any) -> NDArray[Any]:
    """A NumPy view of an array on the host that speaks DLPack."""
    try:
        return np.from_dlpack(array)
    except _PROTOCOL_ERRORS:  # NumPy knows no bfloat16, which cuda.core reads as that of ml_dtypes
        from cuda.core.utils import StridedMemoryView  # noqa: PLC0415 - slow to import

        memory = StridedMemoryView.from_dlpack(array, _DLPACK_NO_STREAM)
        return _ForeignMemory(memory).view()


class _ForeignMemory:
    """What NumPy reads memory through that is another library's. Arrays made from it keep it alive."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._dtype = np.dtype(memory.dtype)
        strides = memory.strides and tuple(self._dtype.itemsize * count for count in memory.strides)
        self.__array_interface__ = {
            "data": (memory.ptr, memory.readonly),
            "shape": tuple(memory.shape),
            "strides": strides,
            "typestr": f"|V{self._dtype.itemsize}",
            "version": 3,
        }

    def view(self) -> NDArray[Any]:
        return np.asarray(self).view(self._dtype)


def _numpy_view(tensor: Any, dtype: str) -> NDArray[Any]:
    """A NumPy view of a PyTorch tensor on the host; PyTorch gives none of bfloat16."""
    if dtype != "bfloat16":
        return tensor.numpy()  # type: ignore[no-any-return]
    bits: NDArray[Any] = tensor.view(sys.modules["torch"].int16).numpy()
    return bits.view(np.dtype(dtype))


def _interface_stream(array: Any) -> int | None:
    """The stream that an array names in version 3 of __cuda_array_interface__."""
    interface = getattr(array, "__cuda_array_interface__", {})
    return interface.get("stream") if interface.get("version", 0) >= 3 else None


def type_name(array: Any) -> str:
    """What messages call an object: 'torch.Tensor', 'list'."""
    kind = type(array)
    library = kind.__module__.partition(".")[0]
    return kind.__qualname__ if library == "builtins" else f"{library}.{kind.__qualname__}"
