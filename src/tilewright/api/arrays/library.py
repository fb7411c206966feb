"""Facts about an array library that are needed to multiply its arrays, besides where their elements lie."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.api.arrays.operand import Operand
from tilewright.core.errors import ArrayError, DtypeError, ProblemError

LEGACY_STREAM = 0
"""Handle of CUDA's default stream: it waits for the other blocking streams, and they for it."""

_OFFSETS = "int32"

Maker = Callable[[tuple[int, ...]], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
"""Gives, for a shape, a function that makes an array of it, and what to call it with."""


class Library(ABC):
    """An array library, and what can be done with its arrays. It is never imported: an array of it can only come from
    where it has been imported already.
    """

    immutable = False
    """Whether its arrays cannot be written, so that there is no `out`."""
    shows_offsets = False
    """Whether its arrays have a `view` that shows their memory as elements of another type."""

    @abstractmethod
    def read(self, argument: str, array: Any, stream: int) -> Operand:
        """Find where an array lies; work on a GPU's stream will see all that was done to it before.

        Raises:
            ArrayError: it lies where no engine can reach it.
            DtypeError: the element type is not supported.
            EngineUnavailableError: it lies on a GPU, and this process can use none.
        """

    @abstractmethod
    def new(self, like: Operand, shape: tuple[int, ...], dtype: str) -> Operand:
        """Memory for a row-major array where `like` lies; its elements are undefined.

        Raises:
            ArrayError: the library cannot be asked for new arrays.
        """

    def records(self, arrays: Mapping[str, Any]) -> bool:
        """Whether the library records a call of these arrays, for a gradient or to be compiled.

        Raises:
            ArrayError: an array has no elements any more.
        """
        return False

    def recorder(self, grouped: bool = False) -> Callable[..., Any]:
        """The function that multiplies where the library records a call.

        It takes the arrays, a Request as given, alpha and beta, or the arguments of `grouped_matmul`.

        Raises:
            ArrayError: there is none.
        """
        raise NotImplementedError

    def constant(self, argument: str, array: Any) -> Any:
        """An array of NumPy that stands next to some of this library: a constant, as an array of the library where that
        takes such, else the array itself, which is one of another library.

        Raises:
            ArrayError, DtypeError: it is none of those that `matmul` takes of NumPy.
        """
        return array

    def divide(self, call: Any, arrays: dict[str, Any], gpus: Sequence[int]) -> Any:
        """The product of a `Call` that was checked, and of its arrays, on several GPUs.

        Raises:
            ArrayError: products of the library are not divided, or not this one.
        """
        raise ArrayError(
            f"devices divides products of PyTorch's tensors and of arrays on the host, got {type_name(call.a.array)}"
        )

    def number(self, argument: str, array: Any) -> Any:
        """The number that an array without dimensions holds, which lies on the host.

        Raises:
            ProblemError: it lies on a GPU, has no elements, or what records a call would lose sight of it.
        """
        raise ProblemError(
            f"{argument} must be a number, or an array of one on the host, got {type_name(array)}: "
            f"pass float({argument}), which waits for what computes it"
        )

    def read_offsets(self, array: Any, stream: int) -> Operand:
        """Find where int32 numbers lie, as `read` does; the operand has them as elements of float32, of the same size.

        Raises:
            ArrayError: they are no vector of neighbours, or the library cannot show them so.
            DtypeError: they are of another type.
        """
        if not self.shows_offsets:
            raise ArrayError(f"offsets must be an array of NumPy, PyTorch or CuPy, got {type_name(array)}")
        dtype = str(array.dtype).removeprefix("torch.")
        if dtype != _OFFSETS:
            raise DtypeError(f"offsets must have element type {_OFFSETS}, got {dtype}")
        if len(array.shape) != 1:
            raise ArrayError(f"offsets must be a vector, got shape {tuple(array.shape)}")
        operand = self.read("offsets", array.view(self.float32), stream)
        if array.shape[0] > 1 and operand.strides != (4,):
            raise ArrayError(f"offsets must be neighbours, 4 bytes apart, got {operand.strides[0]} bytes")
        return operand

    @property
    def float32(self) -> Any:
        """The element type as `view` of an array takes it."""
        return np.float32

    def finish(self, result: Operand, like: Operand) -> Any:
        """The array to return, once memory from `new` on the host holds the result."""
        return result.array

    def stream(self, array: Any) -> int | None:
        """Handle of the stream that a caller expects work on this GPU array to go to; None where nobody can know it."""
        return LEGACY_STREAM

    def row_major(self, operand: Operand, shape: tuple[int, ...]) -> Operand:
        """A row-major copy of a GPU array, broadcast to a shape.

        Raises:
            ArrayError: the library cannot be asked for copies.
        """
        raise ArrayError(
            f"{operand.argument} must have rows or columns whose elements are neighbours, and matrices of a batch at "
            f"one distance; got strides of {operand.strides} bytes, and a {type_name(operand.array)} cannot be copied "
            "from here"
        )

    def copy(self, target: Operand, source: Operand) -> None:
        """Copy the elements of one GPU array to another.

        Raises:
            ArrayError: the library cannot be asked for copies.
        """
        raise ArrayError(
            f"{source.argument} and {target.argument} must be the same row- or column-major array, "
            f"as a {type_name(source.array)} cannot be copied from here"
        )

    def maker(self, like: Operand, dtype: str) -> Maker | None:
        """How to make arrays as `new` does, for the compiled launcher; None where that cannot be said so."""
        return None

    def scratch(self, like: Operand, size: int) -> tuple[int, Any] | None:
        """Memory on the GPU of `like` for work on the stream that is current there: its address, on a boundary of 256
        bytes, and what owns it, which may end once the work is launched. None where the library has none to lend.

        Raises:
            MemoryError: the GPU's memory is full.
        """
        return None

    def written(self, array: Any) -> None:  # noqa: B027 - most libraries keep no account of it
        """Tell the library that a kernel has written a GPU array."""


def type_name(array: Any) -> str:
    """Name of an object's type in messages: 'torch.Tensor', 'list'."""
    kind = type(array)
    library = kind.__module__.partition(".")[0]
    return kind.__qualname__ if library == "builtins" else f"{library}.{kind.__qualname__}"
