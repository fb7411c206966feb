"""Tensors of PyTorch."""

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.api.arrays.library import LEGACY_STREAM, Library, Maker, type_name
from tilewright.api.arrays.operand import Operand, gpu_operand, host_operand, unsupported
from tilewright.api.formulate import View
from tilewright.core.dtypes import ARRAYS, COMPLEX, FLOAT8, ITEM_BYTES
from tilewright.core.errors import ArrayError, ProblemError

_CONVERT = "{}.to(torch.float32)"


class Torch(Library):
    """torch.Tensor. Its attributes are read, because a DLPack capsule costs time in every call."""

    shows_offsets = True

    @property
    def float32(self) -> Any:
        return sys.modules["torch"].float32

    def read(self, argument: str, array: Any, stream: int) -> Operand:
        torch = sys.modules["torch"]
        if array.layout is not torch.strided or array.is_nested or array.is_quantized:
            check_dense(argument, array)
        if array.is_neg():
            advice = f"pass {argument}.resolve_neg()"
            if argument == "out":  # of which that is a copy
                advice = "call without it, and write the result by out.copy_()"
            raise ArrayError(f"{argument} is a view that negates when it is read: {advice}")
        dtype = numpy_name(array.dtype)
        conjugated = dtype == COMPLEX and array.is_conj()
        if conjugated:
            if argument == "out":
                raise ArrayError("out is a view that conjugates when it is read: write the result by out.copy_()")
            conjugated = argument in ("a", "b")
            array = array.conj() if conjugated else array.resolve_conj()
        if dtype not in ARRAYS:
            raise unsupported(argument, dtype, _CONVERT)
        device = array.device
        where = device.type
        if where not in ("cpu", "cuda"):
            raise ArrayError(f"{argument} must lie on the host or an NVIDIA GPU, got device {device}")
        pointer, shape = array.data_ptr(), array.shape
        if not pointer and 0 not in shape:
            raise ArrayError(f"{argument} has no memory: its storage was freed, or it stands for zeros")
        if where == "cpu":
            found = host_operand(argument, array, _numpy_view(array.detach(), dtype))
        else:
            item = ITEM_BYTES[dtype]
            strides = [item * stride for stride in array.stride()]
            found = gpu_operand(argument, array, pointer, shape, strides, dtype, device.index)
        return found._replace(conjugated=True) if conjugated else found

    def records(self, arrays: Mapping[str, Any]) -> bool:
        torch = sys.modules["torch"]
        if sees_operators(torch) or torch._C._is_any_autocast_enabled():
            return True
        return any(array is not None and is_recorded(torch, array) for array in arrays.values())

    def number(self, argument: str, array: Any) -> Any:
        torch = sys.modules["torch"]
        if array.is_meta:
            raise ProblemError(f"{argument} must be a number, got a meta tensor, which has none")
        if sees_operators(torch) or type(array) not in (torch.Tensor, torch.nn.Parameter) or array.requires_grad:
            raise ProblemError(
                f"{argument} must be a number where PyTorch records what is done to tensors, got {type_name(array)}: "
                f"pass float({argument}), which is not recorded"
            )
        return array.item() if array.device.type == "cpu" else super().number(argument, array)

    def new(self, like: Operand, shape: tuple[int, ...], dtype: str) -> Operand:
        torch = sys.modules["torch"]
        array = torch.empty(shape, dtype=getattr(torch, dtype), device=like.array.device)
        return self.read("out", array, LEGACY_STREAM)

    def maker(self, like: Operand, dtype: str) -> Maker:
        torch = sys.modules["torch"]
        kind, make = _made_as(torch, dtype)
        if make is not None:
            return lambda shape: (make, (shape, View.tight(shape).strides, kind), {})
        keywords = {"dtype": kind, "device": like.array.device}
        return lambda shape: (torch.empty_strided, (shape, View.tight(shape).strides), keywords)

    def scratch(self, like: Operand, size: int) -> tuple[int, Any] | None:
        torch = sys.modules["torch"]
        try:
            memory = torch.empty(size, dtype=torch.uint8, device=like.array.device)
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error
        return memory.data_ptr(), memory

    def stream(self, array: Any) -> int:
        if not array.is_cuda:
            return LEGACY_STREAM
        torch = sys.modules["torch"]
        # What PyTorch's own compiled code calls: it makes no object.
        if raw := getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None):
            return int(raw(array.device.index))
        return int(torch.cuda.current_stream(array.device).cuda_stream)

    def row_major(self, operand: Operand, shape: tuple[int, ...]) -> Operand:
        return self.read(operand.argument, operand.array.expand(shape).contiguous(), LEGACY_STREAM)

    def copy(self, target: Operand, source: Operand) -> None:
        target.array.copy_(source.array)

    def written(self, array: Any) -> None:
        # So that backward() refuses to use a tensor that was saved for it and has changed since.
        sys.modules["torch"].autograd.graph.increment_version(array)


def check_dense(argument: str, array: Any) -> None:
    """Raise ArrayError unless a tensor's elements lie at strides in memory, and mean what lies there."""
    torch = sys.modules["torch"]
    if array.layout is torch.strided and not array.is_nested and not array.is_quantized:
        return
    if array.is_nested:
        kind, instead = "a nested tensor", f"multiply the tensors of {argument}.unbind()"
    elif array.is_quantized:
        kind, instead = f"a quantized tensor of {array.dtype}", f"pass {argument}.dequantize()"
    else:
        kind, instead = f"one of layout {array.layout}", f"pass {argument}.to_dense()"
    advice = "" if argument == "out" else f": {instead}"
    raise ArrayError(f"{argument} must be a dense tensor, got {kind}{advice}")


@lru_cache
def _made_as(torch: Any, dtype: str) -> tuple[Any, Callable[..., Any] | None]:
    """PyTorch's own object for an element type, and what makes tensors of a shape, strides and type; None for none.

    That is what PyTorch's own compiled code calls, at less cost than empty's; it allocates on the current GPU.
    """
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    return getattr(torch, dtype), getattr(guards, "_empty_strided_cuda", None)


def sees_operators(torch: Any) -> bool:
    """Whether a compiler, a transform of torch.func, forward differentiation or a mode sees operators."""
    return bool(
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch.autograd.forward_ad._current_level >= 0
    )


def is_recorded(torch: Any, array: Any) -> bool:
    """Whether a tensor wants a gradient, or has no elements but what a library or a tracer makes of it."""
    if type(array) in (torch.Tensor, torch.nn.Parameter) and not array.is_meta:
        return bool(array.requires_grad and torch.is_grad_enabled())
    return isinstance(array, torch.Tensor)


@lru_cache
def numpy_name(dtype: Any) -> str:
    """NumPy's name of an element type."""
    return str(dtype).removeprefix("torch.")


def _numpy_view(tensor: Any, dtype: str) -> NDArray[Any]:
    """A NumPy view of a PyTorch tensor on the host; PyTorch gives none of types that NumPy itself lacks."""
    if dtype != "bfloat16" and dtype not in FLOAT8:
        return tensor.numpy()  # type: ignore[no-any-return]
    torch = sys.modules["torch"]
    bits: NDArray[Any] = tensor.view(torch.int16 if ITEM_BYTES[dtype] == 2 else torch.int8).numpy()
    return bits.view(np.dtype(dtype))
