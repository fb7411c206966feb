"""Stand-ins for GPUs, and for array libraries that a test machine need not have.

The arrays here all lie in the host's memory, also those that say they lie on a GPU.
"""

import contextlib
import ctypes
import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.api import activations
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Addresses
from tilewright.runtime.base import Matrix, matrix_at, memory_lines
from tilewright.runtime.complex_factors import ComplexFactors
from tilewright.runtime.plan import CachedOperand, Needs, Plan, Pointers, Step
from tilewright.runtime.relayouts import cached_operand_of, jobs

_STEP = Step(None, (1, 1, 1), (1, 1, 1), 0, False, b"", (), ())
"""Stands for the launch of a product that has elements."""


class NumPyEngine:
    """An engine whose kernels all compute with NumPy; it notes what it is asked for.

    Like a GPU it gets bare addresses, so that a wrong one, or a wrong layout, gives a wrong result.
    """

    name = "numpy"
    device_name = "NumPy"
    cache_bytes = 0
    multiprocessors = 4

    def __init__(self, capability: tuple[int, int] | None) -> None:
        self.capability = capability
        self.planned: list[Plan] = []
        self.streams: list[Any] = []
        self.started: list[Pointers] = []
        self.needs: Callable[[Kernel], Needs] = lambda kernel: Needs()
        """Memory that plans of a kernel need."""
        self.cached: list[tuple[CachedOperand, Any]] = []
        self.uploads = self.loads = self.loaded_bytes = self.synchronized = 0
        self.allocated_bytes = 0
        """By `empty`, freed or not."""

    def plan(
        self,
        kernel: Kernel,
        config: Config,
        problem: Problem,
        addresses: Addresses = Addresses(),
        *,
        cached: str | None = None,
        capturing: Any = None,
        factors: ComplexFactors | None = None,
    ) -> Plan:
        assert capturing is None or not capturing()
        kernel.check(problem, addresses=addresses)
        executable = SimpleNamespace(kernel=kernel, variant=kernel.variant(problem, config, addresses))
        steps = () if problem.is_empty else (_STEP._replace(function=factors),)
        copy = None
        if steps and cached and (keeping := jobs(kernel, config, problem, addresses, cached).keeping):
            copy = cached_operand_of(keeping, _STEP._replace(function=(cached, problem)))
        plan = Plan(problem, kernel, config, executable, steps, self.needs(kernel), cached=copy)
        self.planned.append(plan)
        return plan

    def start(self, plan: Plan, pointers: Pointers, scalars: Scalars = Scalars(), stream: Any = None) -> None:
        factors = plan.steps[0].function if plan.steps else None
        problem = plan.problem if factors is None else factors.problem
        types = (problem.dtype, problem.result, np.float32) if factors is None else (np.complex64,) * 3
        dtype, result_type, wide = types
        self.streams.append(stream)
        self.started.append(pointers)
        of = {"A": pointers.a, "B": pointers.b}
        if plan.cached:
            of[plan.cached.step.function[0]] = pointers.cached
        a = _at(of["A"], problem.a, problem.m, problem.k, problem.batch, dtype)
        b = _at(of["B"], problem.b, problem.k, problem.n, problem.batch, dtype)
        d = _at(pointers.d, problem.d, problem.m, problem.n, problem.batch, result_type)
        if factors is not None:
            a, b = a.conj() if factors.conjugate_a else a, b.conj() if factors.conjugate_b else b
        result = scalars.alpha * np.matmul(a.astype(wide), b.astype(wide)) * scalars.factor_b
        if scalars.beta:
            c = _at(pointers.c or pointers.d, problem.addend, problem.m, problem.n, problem.batch, result_type)
            result = result + scalars.beta * c.astype(wide)
        if problem.epilogue.bias:
            shape = (1, problem.n) if problem.epilogue.bias == "row" else (problem.m, 1)
            result = result + _at(pointers.bias, Layout(ld=shape[1]), *shape, 1, result_type)[0].astype(wide)
        d[...] = activations.apply(problem.epilogue.activation, result)

    def keep(self, cached: CachedOperand, pointer: int, stream: Any) -> Matrix:
        """A copy of the operand as it is."""
        name, p = cached.step.function
        elements = p.a.extent(p.m, p.k, p.batch) if name == "A" else p.b.extent(p.k, p.n, p.batch)
        memory = np.frombuffer(ctypes.string_at(pointer, elements * np.dtype(p.dtype).itemsize), np.uint8)
        self.cached.append((cached, stream))
        return Matrix(memory.ctypes.data, 1, cached.bytes, cached.bytes, "uint8", memory)

    def upload(self, array: NDArray[Any], ld: int = 0, order: str = "row") -> Matrix:
        self.uploads += 1
        lines = memory_lines(array, ld, order).copy()
        return matrix_at(lines.ctypes.data, array, lines.shape[1], order, lines)

    def empty(self, rows: int, cols: int, dtype: str = "float32") -> Matrix:
        memory = np.full((rows, cols), np.nan, dtype)
        self.allocated_bytes += memory.nbytes
        return Matrix(memory.ctypes.data, rows, cols, max(cols, 1), dtype, memory)

    def download(self, matrix: Matrix) -> NDArray[Any]:
        return matrix.owner.copy()

    def free_bytes(self) -> int:
        return 2**62

    def mark(self) -> int:
        return len(self.started)

    def load(self, pointer: int, array: NDArray[Any], after: Any = None) -> Any:
        assert _has_lines(array)
        self.loads += 1
        self.loaded_bytes += array.nbytes
        np.frombuffer((ctypes.c_ubyte * array.nbytes).from_address(pointer), np.uint8)[:] = (
            np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        )
        return lambda: None

    def store(self, array: NDArray[Any], pointer: int, after: Any) -> Any:
        assert _has_lines(array)
        values = np.frombuffer(ctypes.string_at(pointer, array.nbytes), array.dtype).reshape(array.shape)
        return lambda: np.copyto(array, values)

    def capturing(self, stream: Any) -> bool:
        return False

    def start_other(self, stream: Any = None) -> None:
        self.streams.append(stream)

    def synchronize(self) -> None:
        self.synchronized += 1


def _has_lines(array: NDArray[Any]) -> bool:
    """Whether elements are neighbours along rows, as a GPU copies them."""
    return not array.size or array.shape[1] < 2 or array.strides[1] == array.itemsize


def _at(pointer: int, layout: Layout, rows: int, cols: int, batch: int, dtype: str) -> NDArray[Any]:
    """The matrices that lie at an address."""
    kind = np.dtype(dtype)
    elements = layout.extent(rows, cols, batch)
    if not elements:
        return np.empty((batch, rows, cols), kind)
    memory = np.ctypeslib.as_array((ctypes.c_ubyte * (elements * kind.itemsize)).from_address(pointer))
    far, near = kind.itemsize * layout.ld, kind.itemsize
    strides = (kind.itemsize * (layout.batch_stride or 0), *((far, near) if layout.order == "row" else (near, far)))
    return np.lib.stride_tricks.as_strided(memory.view(kind), (batch, rows, cols), strides)


class Exporter:
    """An array that speaks DLPack and nothing else; on GPU `device` where one is given."""

    def __init__(self, array: NDArray[Any], device: int | None = None) -> None:
        self.values = array
        self.where = (1, 0) if device is None else (2, device)
        self.consumers: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.where

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        self.consumers.append(stream)
        if self.values.dtype == "bfloat16":
            return _as_bfloat16(self.values.view(np.int16).__dlpack__(max_version=options.get("max_version")))
        return self.values.__dlpack__(max_version=options.get("max_version"))


def _unwritten(shape: Any, dtype: str) -> NDArray[Any]:
    """An array of NaN, or of the largest integer of its type."""
    return np.full(shape, np.iinfo(dtype).max if np.dtype(dtype).kind in "iu" else np.nan, dtype)


def _as_bfloat16(capsule: Any) -> Any:
    """Change the element type in the DLPack capsule of a 16-bit one, for NumPy exports no bfloat16."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.argtypes, api.PyCapsule_GetName.restype = (ctypes.py_object,), ctypes.c_char_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    name = api.PyCapsule_GetName(capsule)
    tensor = 32 if name == b"dltensor_versioned" else 0  # where DLTensor begins; its type code is its byte 20
    ctypes.c_uint8.from_address(api.PyCapsule_GetPointer(capsule, name) + tensor + 20).value = 4  # kDLBfloat
    return capsule


class StandardArray(Exporter):
    """An array of a library that follows the array API standard."""

    dtype = "float32"

    def __init__(self, array: NDArray[Any], device: int | None = None) -> None:
        super().__init__(array, device)
        self.device = device

    def __array_namespace__(self) -> SimpleNamespace:
        def empty(shape: tuple[int, int], *, dtype: str, device: int) -> StandardArray:
            return StandardArray(np.full(shape, np.nan, dtype), device)

        types = {name: name for name in ("float32", "float16", "bfloat16")}
        return SimpleNamespace(empty=empty, from_dlpack=StandardArray, **types)


class CudaArray:
    """An array that speaks __cuda_array_interface__ and nothing else."""

    def __init__(self, array: NDArray[Any], stream: int | None = None) -> None:
        self.values = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": None,
            "stream": stream,
            "version": 3,
        }


class CuPyArray:
    """cupy.ndarray."""

    def __init__(self, array: NDArray[Any], device: int = 0) -> None:
        self.values = array
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.data = SimpleNamespace(ptr=array.ctypes.data, device_id=device)
        self.__cuda_array_interface__: dict[str, Any] = {}

    def __setitem__(self, index: Any, value: "CuPyArray") -> None:
        self.values[index] = value.values


CuPyArray.__module__ = "cupy"


def cupy_module(stream: int) -> ModuleType:
    """The part of CuPy that is used here; arrays it makes are `_unwritten`."""
    module: Any = ModuleType("cupy")
    devices = []

    @contextlib.contextmanager
    def current(device: int) -> Any:
        devices.append(device)
        yield
        devices.pop()

    module.empty = lambda shape, dtype: CuPyArray(_unwritten(shape, dtype), devices[-1])
    module.ascontiguousarray = lambda array: CuPyArray(np.ascontiguousarray(array.values), devices[-1])
    module.broadcast_to = lambda array, shape: CuPyArray(np.broadcast_to(array.values, shape), devices[-1])
    module.cuda = SimpleNamespace(
        Device=current, get_current_stream=lambda device: SimpleNamespace(ptr=stream + device)
    )
    return module


class Tensor:
    """torch.Tensor."""

    def __init__(self, array: NDArray[Any], device: str = "cpu", **attributes: Any) -> None:
        self.values = array
        kind, _, index = device.partition(":")
        self.device = SimpleNamespace(type=kind, index=int(index or 0))
        self.is_cuda = kind == "cuda"
        self.dtype = f"torch.{array.dtype}"
        self.shape = array.shape
        self.requires_grad, self.layout, self.negated, self.version = False, "strided", False, 0
        self.is_meta = self.is_nested = self.is_quantized = False
        self.__dict__.update(attributes)

    def __dlpack__(self) -> None:
        raise AssertionError("a tensor's attributes say all")

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return self.negated

    def detach(self) -> "Tensor":
        return self

    def numpy(self) -> NDArray[Any]:
        assert not self.is_cuda
        if self.values.dtype == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values

    def view(self, dtype: str) -> "Tensor":
        return Tensor(self.values.view(dtype.removeprefix("torch.")), f"{self.device.type}:{self.device.index}")

    def data_ptr(self) -> int:
        return self.values.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.values.itemsize for step in self.values.strides)

    def expand(self, shape: tuple[int, ...]) -> "Tensor":
        return Tensor(np.broadcast_to(self.values, shape), f"{self.device.type}:{self.device.index}")

    def contiguous(self) -> "Tensor":
        return Tensor(np.ascontiguousarray(self.values), f"{self.device.type}:{self.device.index}")

    def copy_(self, source: "Tensor") -> None:
        self.values[...] = source.values
        self.version += 1


Tensor.__module__ = "torch"


def torch_module(stream: int = 0, grad: bool = True) -> ModuleType:
    """The part of PyTorch that is used here; tensors it makes are `_unwritten`."""
    module: Any = ModuleType("torch")

    def empty(shape: Any, dtype: str, device: Any) -> Tensor:
        if math.prod(np.atleast_1d(shape)) > module.most:
            raise module.OutOfMemoryError("CUDA out of memory")
        kind = dtype.removeprefix("torch.")
        values = _unwritten(shape, kind)
        return Tensor(values, f"{device.type}:{device.index}")

    def increment_version(tensor: Tensor) -> None:
        tensor.version += 1

    module.strided = "strided"
    for name in ("float32", "float16", "bfloat16", "complex64", "int16", "int32", "uint8"):
        setattr(module, name, f"torch.{name}")
    module.empty_strided = lambda shape, strides, **named: empty(shape, **named)
    module.empty, module.most = empty, math.inf  # the most elements that there is room for
    module.OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})
    module.is_grad_enabled = lambda: grad
    module.cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=stream + device.index))
    graph, forward_ad = SimpleNamespace(increment_version=increment_version), SimpleNamespace(_current_level=-1)
    module.autograd = SimpleNamespace(graph=graph, forward_ad=forward_ad)
    module.Tensor, module.nn = Tensor, SimpleNamespace(Parameter=Tensor)
    module.compiler = SimpleNamespace(is_compiling=lambda: False)
    names = ("_are_functorch_transforms_active", "_len_torch_dispatch_stack", "_is_any_autocast_enabled")
    module._C = SimpleNamespace(**dict.fromkeys(names, lambda: 0))
    return module


class JaxArray(Exporter):
    """jax.Array."""

    def __init__(self, array: NDArray[Any], device: int | None = None) -> None:
        super().__init__(array, device)
        self.dtype = array.dtype

    def devices(self) -> set[str]:
        return {"cpu:0"}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        assert dtype is None
        assert not copy
        return self.values


JaxArray.__module__ = "jaxlib._jax"


class Tracer:
    """jax.core.Tracer."""

    def __dlpack__(self) -> None:
        raise AssertionError("it has no elements")


class DynamicJaxprTracer(Tracer):
    """Stand-in for an array inside jax.jit."""


Tracer.__module__ = DynamicJaxprTracer.__module__ = "jax._src.core"


def jax_module() -> ModuleType:
    """The part of JAX that is used here."""
    module: Any = ModuleType("jax")

    def device_put(array: NDArray[Any], device: str) -> JaxArray:
        assert device == "cpu:0"
        return JaxArray(array)

    module.device_put = device_put
    return module
