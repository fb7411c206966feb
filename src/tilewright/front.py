"""The front door: matmul() on arrays of any library, where the data lies."""

import numbers
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.arrays.libraries import Library, library_of, type_name
from tilewright.arrays.operand import HOST, Operand
from tilewright.engines.base import Engine, Executable, Matrix
from tilewright.engines.registry import cuda_unavailable, resolve_engine
from tilewright.errors import ArrayError, ConfigError, DtypeError, KernelNotFoundError, ProblemError
from tilewright.kernels import resolve
from tilewright.kernels.spec import VECTOR_BYTES, Kernel, parse_overrides
from tilewright.problem import RESULT_DTYPE, Problem
from tilewright.select.selector import select

_Matrices = tuple[Matrix, Matrix, Matrix]
_Rung = tuple[Kernel, tuple[tuple[str, int], ...]]
"""A kernel, and the parameters for which it is not to take its defaults."""


def matmul(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    kernel: str | int | Kernel | None = None,
    config: str | Mapping[str, int] | None = None,
    engine: str | Engine | None = None,
) -> Any:
    """alpha * a @ b + beta * c.

    Takes arrays of NumPy, PyTorch, CuPy and JAX, and of any other library that speaks DLPack or
    __cuda_array_interface__; all arrays of a call must be of one library and lie on one device.

    - Arrays on a GPU are multiplied there, on the stream that is current in PyTorch or CuPy, or that
      __cuda_array_interface__ names; the call returns before the work has ended. Where the stream cannot
      be known (JAX, DLPack alone) it has ended on return.
    - Arrays on the host (NumPy, tensors on the CPU) are copied to the GPU and back where there is one.
      Where there is none, NumPy's own BLAS multiplies them, unless a kernel or an engine is named: then
      the emulator runs the kernel, thousands of times slower than a GPU.

    Row-major arrays, also those with a gap from row to row as slices have, are used in place. Inputs that
    are not (transposed, reversed, broadcast) are copied to row-major ones first, and so is the result
    where `out` is not.

    Args:
        a: m x k elements, float32, float16 or bfloat16.
        b: k x n elements of the same type.
        out: m x n elements, float32, to write the result to. It may be the same array as c, but share no element
            with a or b, nor some with c. Not for JAX, whose arrays cannot be written.
        c: m x n elements, float32; needed where beta is not 0, and not read where it is.
        alpha, beta: scalars.
        kernel: a rung of the ladder: its name, its number, either with ':PRESET' (as in
            'shared_tiled:fastcuda_v2'), or a Kernel. None takes the best one known for the problem.
        config: parameters of that kernel that differ from its defaults, {"BM": 64} or "BM=64,BN=64".
        engine: 'cuda', 'emulator' or an Engine. None takes 'cuda' where there is a GPU, and what is said
            above where there is none.

    Returns:
        `out` if given, else a new m x n array of the same library, on the same device. It is float32 whatever a and b
        are: their products are summed in float32.

    Raises:
        ArrayError: an array is no matrix, does not fit the others, lies on another device, or is an `out`
            that cannot be written or overlaps an input.
        DtypeError: an element type that is not supported, a and b of different ones, or a kernel that does not take it.
        ProblemError: alpha or beta is not a number.
        KernelNotFoundError: no kernel or preset has this name; the message gives the nearest.
        ConfigError: config has an unknown parameter or breaks a constraint, or no kernel is named for it.
        EngineUnavailableError: this machine lacks what the engine needs.
        CompileError, LaunchError: the kernel does not compile, or cannot be launched.
    """
    library = library_of("a", a)
    stream = library.stream(a)
    product = _Product(
        library.read("a", a, stream),
        _read(library, "b", b, a, stream),
        None if c is None else _read(library, "c", c, a, stream),
        None if out is None else _read(library, "out", out, a, stream),
        _scalar("alpha", alpha),
        _scalar("beta", beta),
    )
    _check(product, library)
    rung = _rung(kernel, config)
    if product.a.device == HOST:
        return _on_host(product, library, rung, _host_engine(engine, rung))
    return _on_gpu(product, library, rung, _gpu_engine(engine, product.a.device), stream)


class _Product(NamedTuple):
    """The operands, as they were given."""

    a: Operand
    b: Operand
    c: Operand | None
    out: Operand | None
    alpha: float
    beta: float

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k."""
        m, k = self.a.shape
        return m, self.b.shape[1], k


def _read(library: Library, argument: str, array: Any, a: Any, stream: int) -> Operand:
    if library_of(argument, array) is not library:
        raise ArrayError(
            f"{argument} must be of the same library as a and lie on the same device: "
            f"got {type_name(array)}, and {type_name(a)} for a"
        )
    return library.read(argument, array, stream)


def _check(product: _Product, library: Library) -> None:
    """Raise where the operands do not fit each other, or the result must not be written to `out`."""
    a, b, c, out, _, beta = product
    for operand in (b, c, out):
        if operand is not None and operand.device != a.device:
            raise ArrayError(
                f"{operand.argument} must lie where a does: got {_place(operand.device)}, and {_place(a.device)} for a"
            )
    if a.dtype != b.dtype:
        raise DtypeError(f"b must have the element type of a: got {b.dtype}, and {a.dtype} for a")
    if a.shape[1] != b.shape[0]:
        raise ArrayError(
            f"b must have as many rows as a has columns: got b of {_size(b.shape)}, and a of {_size(a.shape)}"
        )
    shape = (a.shape[0], b.shape[1])
    for operand in (c, out):
        if operand is not None and operand.shape != shape:
            raise ArrayError(f"{operand.argument} must be {_size(shape)} as a @ b is, got {_size(operand.shape)}")
    if beta and c is None:
        raise ArrayError(f"c must be given where beta is not 0, got beta={beta}; it may be the same array as out")
    if out is None:
        return
    if library.immutable:
        raise ArrayError(f"out must be an array that can be written, and a {type_name(out.array)} never is")
    if out.read_only:
        raise ArrayError("out must be an array that can be written, got a read-only one")
    if not out.row_major and out.elements_overlap:
        raise ArrayError(
            f"out must have memory for every element, got strides of {out.strides} bytes for {_size(shape)}"
        )
    for operand in (a, b, c):
        if operand is not None and out.overlaps(operand) and not (operand is c and out.is_same(operand)):
            raise ArrayError(f"out must not overlap {operand.argument} in memory" + ", unless it is c" * (operand is c))


def _scalar(name: str, value: Any) -> float:
    is_number = type(value) is float or (isinstance(value, numbers.Real) and not isinstance(value, bool))
    if not is_number or value != value:
        raise ProblemError(f"{name} must be a number, got {value!r}")
    return float(value)


def _rung(kernel: str | int | Kernel | None, config: str | Mapping[str, int] | None) -> _Rung | None:
    """What a caller asks to be run; None where the choice is left to `select`."""
    if kernel is None:
        if config is not None:
            raise ConfigError(f"config needs the kernel whose parameters it sets, got config={config!r} and no kernel")
        return None
    if isinstance(kernel, bool) or not isinstance(kernel, (str, int, Kernel)):
        raise KernelNotFoundError(f"kernel must be a name, the number of a rung or a Kernel, got {kernel!r}")
    found, preset = (kernel, {}) if isinstance(kernel, Kernel) else resolve(str(kernel))
    if config is None:
        return found, tuple(preset.items())
    if isinstance(config, str):
        config = parse_overrides(config)
    if not isinstance(config, Mapping):
        raise ConfigError(f"config must map parameters to integers or read NAME=INTEGER,..., got {config!r}")
    overrides = {**preset, **config}
    if not all(type(value) is int for value in overrides.values()):
        found.config(overrides)  # refuses what is no integer, and perhaps no key for the cache below either
    return found, tuple(overrides.items())


def _host_engine(engine: str | Engine | None, rung: _Rung | None) -> Engine | None:
    """Where arrays on the host are multiplied; None for NumPy."""
    if engine is None and rung is None and cuda_unavailable():
        return None
    return resolve_engine("auto" if engine is None else engine)


def _gpu_engine(engine: str | Engine | None, device: int) -> Engine:
    """The engine of the GPU that the arrays lie on."""
    if engine is None or engine in ("auto", "cuda"):
        return _gpu(device)
    resolved = resolve_engine(engine)
    if resolved.capability is None:
        raise ArrayError(f"a must lie on the host for the {resolved.name} engine, got {_place(device)}")
    from tilewright.engines.cuda import CudaEngine  # noqa: PLC0415 - slow to import, see registry

    if isinstance(resolved, CudaEngine) and resolved.device.device_id != device:
        raise ArrayError(f"a must lie on the engine's {_place(resolved.device.device_id)}, got {_place(device)}")
    return resolved


@lru_cache
def _gpu(device: int) -> Engine:
    if device == 0:
        return resolve_engine("cuda")
    from tilewright.engines.cuda import CudaEngine  # noqa: PLC0415 - slow to import, see registry

    return CudaEngine(device)


@lru_cache(maxsize=1024)
def _prepare(
    engine: Engine,
    rung: _Rung | None,
    sizes: tuple[int, int, int],
    lds: tuple[int, int, int],
    dtype: str,
    alpha: float,
    beta: float,
    misalignment: tuple[int, int, int],
) -> tuple[Executable, Problem]:
    """What to launch for operands of these sizes. Cached, as it takes longer than to launch it."""
    problem = Problem(*sizes, dtype, alpha, beta, *lds)
    if rung is None:
        kernel, config = select(problem, engine.capability, engine.device_name, misalignment)
    else:
        kernel = rung[0]
        config = kernel.config(dict(rung[1]), capability=engine.capability)
    kernel.check(problem, misalignment)
    return engine.compile(kernel, config, kernel.specialize(problem, config, misalignment)), problem


def _launch(
    engine: Engine, rung: _Rung | None, product: _Product, beta: float, matrices: _Matrices, stream: Any
) -> None:
    a, b, c = matrices
    misalignment = (a.pointer % VECTOR_BYTES, b.pointer % VECTOR_BYTES, c.pointer % VECTOR_BYTES)
    lds = (a.ld, b.ld, c.ld)
    executable, problem = _prepare(
        engine,  # type: ignore[arg-type] # engines are hashable, as objects are, but a Protocol does not say so
        rung,
        product.sizes,
        lds,
        a.dtype,
        product.alpha,
        beta,
        misalignment,
    )
    engine.launch(executable, problem, a, b, c, stream)


def _on_gpu(product: _Product, library: Library, rung: _Rung | None, engine: Engine, stream: int) -> Any:
    m, n, _ = product.sizes
    out = product.out
    a, b = _in_rows(product.a, library), _in_rows(product.b, library)
    target = library.new(a, m, n, engine) if out is None else _in_rows(out, library)
    # Kernels update C in place. An array that cannot be written gets its share of c afterwards.
    addend = product.c if product.beta and not library.immutable else None
    if addend is not None and not addend.is_same(target):
        library.copy(target, addend)
    beta = product.beta if addend is not None else 0.0
    _launch(engine, rung, product, beta, (a.matrix, b.matrix, target.matrix), stream)
    if out is not None:
        if target is out:
            library.written(out.array)
        else:
            library.copy(out, target)
    if library.waits(product.a.array):
        engine.synchronize()
    if out is not None:
        return out.array
    result = library.finish(target, product.a)
    if product.c is not None and product.beta and library.immutable:
        return result + product.beta * product.c.array
    return result


def _in_rows(operand: Operand, library: Library) -> Operand:
    return operand if operand.row_major else library.row_major(operand)


def _on_host(product: _Product, library: Library, rung: _Rung | None, engine: Engine | None) -> Any:
    m, n, _ = product.sizes
    target = product.out if product.out is not None else library.new(product.a, m, n, None)
    if engine is None:
        _blas(product, _view(target))
    else:
        _through_engine(product, rung, engine, _view(target))
    return target.array if product.out is not None else library.finish(target, product.a)


def _blas(product: _Product, target: NDArray[Any]) -> None:
    """Multiply with NumPy's BLAS, in float32."""
    a, b = (_view(operand).astype(RESULT_DTYPE, copy=False) for operand in (product.a, product.b))
    if product.beta and product.c is not None:
        result = np.matmul(a, b)
        result *= product.alpha
        result += product.beta * _view(product.c)
        np.copyto(target, result)
        return
    np.matmul(a, b, out=target)
    if product.alpha != 1:
        target *= product.alpha


def _through_engine(product: _Product, rung: _Rung | None, engine: Engine, target: NDArray[Any]) -> None:
    """Copy host arrays to the engine's memory, multiply there, and copy the result back."""
    m, n, _ = product.sizes
    a, b = (engine.upload(np.ascontiguousarray(_view(factor))) for factor in (product.a, product.b))
    if product.beta and product.c is not None:
        c = engine.upload(np.ascontiguousarray(_view(product.c)))
    else:
        c = engine.empty(m, n, RESULT_DTYPE)
    _launch(engine, rung, product, product.beta, (a, b, c), None)
    np.copyto(target, engine.download(c))


def _view(operand: Operand) -> NDArray[Any]:
    assert operand.host is not None
    return operand.host


def _place(device: int) -> str:
    return "the host" if device == HOST else f"GPU {device}"


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]}"
