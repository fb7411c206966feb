"""The front door: matmul() and plan() on arrays of any library, where the data lies."""

import contextlib
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tilewright import host
from tilewright.arrays.libraries import library_of
from tilewright.arrays.library import Library, type_name
from tilewright.arrays.operand import HOST, Operand, gpu_operand
from tilewright.engines import launcher
from tilewright.engines.base import Engine
from tilewright.engines.launcher import Launcher
from tilewright.engines.plan import Plan, Pointers
from tilewright.engines.registry import cuda_unavailable, resolve_engine
from tilewright.errors import ArrayError, ConfigError, DtypeError, KernelNotFoundError, nearest
from tilewright.kernels import resolve
from tilewright.kernels.spec import Kernel, parse_overrides
from tilewright.kernels.takes import VECTOR_BYTES, Addresses
from tilewright.problem import DTYPES, ITEM_BYTES, Arithmetic, Epilogue, Problem, Scalars, Side
from tilewright.select.selector import select
from tilewright.shapes import Formulation, View, formulate, result_shape, size

_MOST_PLANS = 4096
"""Products whose plans are kept; all are dropped when there are more."""

_Rung = tuple[Kernel, tuple[tuple[str, int], ...]]
"""A kernel, and the parameters for which it is not to take its defaults."""


def matmul(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    out_dtype: Any = None,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str | None = None,
    kernel: str | int | Kernel | None = None,
    config: str | Mapping[str, int] | None = None,
    engine: str | Engine | None = None,
) -> Any:
    """activation(alpha * a @ b + beta * c + bias).

    Takes arrays of NumPy, PyTorch, CuPy and JAX, and of any other library that speaks DLPack or
    __cuda_array_interface__; all arrays of a call must be of one library and lie on one device. Shapes are those of
    `numpy.matmul`: vectors, matrices, and batches of matrices that broadcast.

    - Arrays on a GPU are multiplied there, on the stream that is current in PyTorch or CuPy, or that
      __cuda_array_interface__ names; the call returns before the work has ended. Where the stream cannot
      be known (JAX, DLPack alone) it has ended on return.
    - Arrays on the host (NumPy, tensors on the CPU) are copied to the GPU and back where there is one.
      Where there is none, NumPy's own BLAS multiplies them, unless a kernel or an engine is named: then
      the emulator runs the kernel, thousands of times slower than a GPU.

    Row- and column-major arrays, also those with gaps as slices have, are used in place: a transposed array is. What
    no layout describes (reversed, strided in both dimensions, a batch without one distance) is copied once.

    Args:
        a: ... x m x k elements, or a vector of k; float32, float16 or bfloat16.
        b: ... x k x n elements, or a vector of k; of the same type.
        out: array of the result's shape and type, to write the result to. It may be the same array as c, but share no
            element with a, b or bias, nor some with c. Not for JAX, whose arrays cannot be written.
        out_dtype: element type of the result, as text or the library's own: 'float32', 'float16' or 'bfloat16'. None
            for that of out, or else of a and b. Sums are float32 in any case.
        c: array of the result's shape and type; needed where beta is not 0, and not read where it is.
        alpha, beta: scalars. With alpha = 0, a and b are not read.
        bias: of the result's type: n elements, which are added to every row, or m x 1 elements, to every column.
        activation: 'relu', 'gelu' (by the error function), 'gelu_tanh' or 'silu', as in PyTorch, applied last.
        kernel: its name, its number among the rungs, either with ':PRESET' (as in 'shared_tiled:fastcuda_v2'), or a
            Kernel. None takes the best one known for the problem.
        config: parameters of that kernel that differ from its defaults, {"BM": 64} or "BM=64,BN=64".
        engine: 'cuda', 'emulator' or an Engine. None takes 'cuda' where there is a GPU, and what is said
            above where there is none.

    Returns:
        `out` if given, else a new array of the same library, on the same device.

    Raises:
        ArrayError: an array does not fit the others, lies on another device, or is an `out` that cannot be written or
            overlaps an input.
        DtypeError: an element type that is not supported, arrays of different ones, or a kernel that does not take it.
        ProblemError: alpha or beta is not a number, the activation is unknown, or the kernel does not take the problem.
        KernelNotFoundError: no kernel or preset has this name; the message gives the nearest.
        ConfigError: config has an unknown parameter or breaks a constraint, or no kernel is named for it.
        EngineUnavailableError: this machine lacks what the engine needs.
        CompileError, LaunchError: the kernel does not compile, or cannot be launched.
    """
    options = None
    if engine is None and _launcher is not None:
        if not (out_dtype is None and activation is None and kernel is None and config is None):
            options = (out_dtype, activation, kernel, config)
        result = _launcher.call(a, b, c, out, bias, alpha, beta, options)
        if result is not _MISS:
            return result
    request = _Request(_type_name(out_dtype), activation, _rung(kernel, config), engine)
    arrays = {"a": a, "b": b, "c": c, "out": out, "bias": bias}
    call = _Call.read(request, arrays, Scalars.checked(alpha, beta))
    result = _run(call)
    if engine is None and call.a.device != HOST:
        _remember(call, arrays, options)
    return result


def plan(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    out_dtype: Any = None,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str | None = None,
    kernel: str | int | Kernel | None = None,
    config: str | Mapping[str, int] | None = None,
    engine: str | Engine | None = None,
) -> "ProductPlan":
    """What `matmul` would do with these arrays, decided and compiled: to look at, and to call again.

    Takes the arguments of `matmul`, and raises what it raises. No element of an array is read or written, and the plan
    keeps no array.
    """
    request = _Request(_type_name(out_dtype), activation, _rung(kernel, config), engine)
    arrays = {"a": a, "b": b, "c": c, "out": out, "bias": bias}
    call = _Call.read(request, arrays, Scalars.checked(alpha, beta))
    return ProductPlan(request, call.signature, _bound(call) if call.engine else None)


class ProductPlan:
    """A product of arrays of one kind: call it with arrays of the same shapes, strides, types and device."""

    def __init__(self, request: "_Request", signature: tuple[Any, ...], bound: "_Bound | None") -> None:
        self._request = request
        self._signature = signature
        self._bound = bound

    def __call__(
        self, a: Any, b: Any, *, out: Any = None, c: Any = None, alpha: float = 1.0, beta: float = 0.0, bias: Any = None
    ) -> Any:
        """The product of other arrays of the same kind; returns what `matmul` returns.

        Raises:
            ArrayError: an array is of another kind; the message says what differs.
        """
        arrays = {"a": a, "b": b, "c": c, "out": out, "bias": bias}
        call = _Call.read(self._request, arrays, Scalars.checked(alpha, beta))
        if call.signature != self._signature:
            raise ArrayError(f"the plan is for arrays of another kind: {_difference(self._signature, call.signature)}")
        return _run(call)

    @property
    def problem(self) -> Problem | None:
        """The problem that is launched; None where NumPy multiplies."""
        return self._bound.plan.problem if self._bound else None

    def describe(self) -> str:
        """What will run and why, a fact a line."""
        if self._bound is None:
            return "NumPy's BLAS multiplies: the arrays lie on the host, and this machine has no GPU"
        return self._bound.describe()

    def __repr__(self) -> str:
        return f"<ProductPlan: {self.describe().splitlines()[0]}>"


class _Request(NamedTuple):
    """What a caller asks for besides the arrays."""

    out_dtype: str | None
    activation: str | None
    rung: _Rung | None
    engine: str | Engine | None


class _Call(NamedTuple):
    """One call: its arrays as they lie in memory, and what is asked."""

    request: _Request
    library: Library
    engine: Engine | None
    """None for NumPy."""
    stream: int
    a: Operand
    b: Operand
    c: Operand | None
    out: Operand | None
    bias: Operand | None
    scalars: Scalars

    @classmethod
    def read(cls, request: _Request, arrays: Mapping[str, Any], scalars: Scalars) -> "_Call":
        """Read and check the arrays of a call.

        Raises:
            ArrayError, DtypeError: they do not fit each other, or cannot be read.
        """
        a = arrays["a"]
        library = library_of("a", a)
        stream = library.stream(a)
        operands: dict[str, Operand | None] = {}
        for name, array in arrays.items():
            if array is None and name not in ("a", "b"):
                operands[name] = None
                continue
            if library_of(name, array) is not library:
                raise ArrayError(
                    f"{name} must be of the same library as a and lie on the same device: "
                    f"got {type_name(array)}, and {type_name(a)} for a"
                )
            operands[name] = library.read(name, array, stream)
        first = operands["a"]
        assert first is not None
        engine = _host_engine(request) if first.device == HOST else _gpu_engine(request.engine, first.device)
        call = cls(request, library, engine, stream, **operands, scalars=scalars)  # type: ignore[arg-type]
        call.check()
        return call

    @property
    def operands(self) -> tuple[Operand | None, ...]:
        """The arrays, None for those that were not given."""
        return self.a, self.b, self.c, self.out, self.bias

    @property
    def arithmetic(self) -> Arithmetic:
        """Element types of the product."""
        given = self.request.out_dtype
        return Arithmetic(self.a.dtype, given or (self.out.dtype if self.out else self.a.dtype))

    @property
    def side(self) -> Side | None:
        """Of the result, that the bias belongs to."""
        if self.bias is None:
            return None
        return "column" if len(self.bias.shape) == 2 and self.bias.shape[1] == 1 else "row"

    @property
    def reads_c(self) -> bool:
        """Whether c is added."""
        return self.c is not None and self.scalars.beta != 0

    @property
    def signature(self) -> tuple[Any, ...]:
        """All that a plan depends on."""
        kinds = [
            None
            if operand is None
            else (operand.shape, operand.strides, operand.dtype, operand.device, operand.pointer % VECTOR_BYTES)
            for operand in (self.a, self.b, self.c if self.reads_c else None, self.out, self.bias)
        ]
        return (*kinds, self.request, self.scalars.alpha == 0, type(self.library))

    def check(self) -> None:
        """Raise where the operands do not fit each other, or the result must not be written to `out`."""
        a, b, c, out, bias = self.a, self.b, self.c, self.out, self.bias
        for operand in (b, c, out, bias):
            if operand is not None and operand.device != a.device:
                raise ArrayError(
                    f"{operand.argument} must lie where a does: got {_place(operand.device)}, "
                    f"and {_place(a.device)} for a"
                )
        if a.dtype != b.dtype:
            raise DtypeError(f"b must have the element type of a: got {b.dtype}, and {a.dtype} for a")
        result = self.arithmetic.result
        Epilogue(activation=self.request.activation)
        for operand in (c, out, bias):
            if operand is not None and operand.dtype != result:
                raise DtypeError(
                    f"{operand.argument} must have the result's element type {result}: got {operand.dtype}"
                )
        _, shape = result_shape(a.shape, b.shape)
        for operand in (c, out):
            if operand is not None and operand.shape != shape:
                raise ArrayError(f"{operand.argument} must be {size(shape)} as a @ b is, got {size(operand.shape)}")
        if bias is not None:
            m = a.shape[-2] if len(a.shape) > 1 else 1
            n = b.shape[-1] if len(b.shape) > 1 else 1
            if bias.shape not in ((n,), (1, n), (m, 1)):
                raise ArrayError(f"bias must have {n} elements, or {m} x 1, got shape {bias.shape}")
        if self.scalars.beta and c is None:
            raise ArrayError(
                f"c must be given where beta is not 0, got beta={self.scalars.beta}; it may be the same array as out"
            )
        if out is None:
            return
        if self.library.immutable:
            raise ArrayError(f"out must be an array that can be written, and a {type_name(out.array)} never is")
        if out.read_only:
            raise ArrayError("out must be an array that can be written, got a read-only one")
        if out.elements_overlap:
            raise ArrayError(
                f"out must have memory for every element, got strides of {out.strides} bytes for shape {shape}"
            )
        for operand in (a, b, c, bias):
            if operand is not None and out.overlaps(operand) and not (operand is c and out.is_same(operand)):
                raise ArrayError(
                    f"out must not overlap {operand.argument} in memory" + ", unless it is c" * (operand is c)
                )


class _Bound(NamedTuple):
    """A plan, and how the arrays of a call become its operands."""

    plan: Plan
    form: Formulation
    engine: Engine
    c_in_place: bool
    """Whether the kernel adds C where the result goes, so that c is copied there first."""
    why: str

    def describe(self) -> str:
        problem, kernel = self.plan.problem, self.plan.kernel
        lines = [
            f"{problem.shape}, {problem.case}: {kernel.name} {self.plan.config} on {self.engine.device_name}",
            f"picked: {self.why}",
        ]
        if self.form.swapped:
            lines.append("the result is column-major: its transpose is computed, from the transposed factors")
        if len(self.form.batch) and problem.batch == 1:
            lines.append("the batch is one tall product, since all of it meets the same b")
        lines += [f"{name} is copied first: no layout describes how it lies" for name in sorted(self.form.copied)]
        lines += [f"{name} is copied to the order and alignment that the kernel wants" for name in self.plan.relaid]
        for step in self.plan.steps:
            threads = math.prod(step.block)
            lines.append(
                f"launch: {math.prod(step.grid)} blocks of {threads} threads, {step.shared_bytes} bytes shared"
            )
        needs = self.plan.needs
        if needs.workspace_bytes or needs.relayout_bytes:
            lines.append(f"workspace: {needs.workspace_bytes} bytes of sums, {needs.relayout_bytes} of copies")
        return "\n".join(lines)


_plans: dict[tuple[Any, ...], _Bound] = {}


_launcher: Launcher | None = None
"""Calls with plans that it knows go no further than this."""

_MISS: object = None


def _remember(call: _Call, arrays: Mapping[str, Any], options: tuple[Any, ...] | None) -> None:
    """Have the compiled launcher, where this machine has one, answer calls like this one from now on."""
    global _launcher, _MISS
    bound = _bound(call)
    gaps = call.bias is not None and _has_gaps(call.bias)
    if bound.form.copied or gaps or not bound.plan.kernel.takes.separate_c:
        return  # something is to be copied first, or A and B must not be read where alpha is 0
    engine = bound.engine
    from tilewright.engines.cuda import CudaEngine  # noqa: PLC0415 - slow to import, see registry

    if not isinstance(engine, CudaEngine):
        return
    if _launcher is None:
        module = launcher.load()
        if module is None:
            return
        _MISS = module.MISS  # before another thread can see the launcher
        _launcher = module.Launcher(launcher.DRIVER)
    new = None
    if call.out is None:
        make = call.library.maker(call.a, bound.form.shape, call.arithmetic.result)
        if make is None:
            return
        new = make
    with contextlib.suppress(TypeError):  # options that are no key
        _launcher.remember(
            arrays["a"],
            arrays["b"],
            arrays["c"],
            arrays["out"],
            arrays["bias"],
            options,
            steps=bound.plan.steps,
            needs=bound.plan.needs,
            context=engine.context,
            memory=engine.workspace,
            new=new,
            scaled=call.scalars.beta != 0,
            swapped=bound.form.swapped,
        )


def _run(call: _Call) -> Any:
    if call.a.device != HOST:
        return _on_gpu(call)
    target = call.out
    if target is None:
        _, shape = result_shape(call.a.shape, call.b.shape)
        target = call.library.new(call.a, shape, call.arithmetic.result, None)
    if call.engine is None:
        host.multiply(call.operands, call.side, call.request.activation, call.scalars, target)
    else:
        _through_engine(call, call.engine, target)
    return target.array if call.out is not None else call.library.finish(target, call.a)


def _bound(call: _Call) -> _Bound:
    """The plan of a call, made once for arrays of a kind."""
    key = (call.engine, call.signature)
    found = _plans.get(key)
    if found is None:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        found = _plans[key] = _bind(call)
    return found


def _bind(call: _Call) -> _Bound:
    engine, rung = call.engine, call.request.rung
    assert engine is not None
    views = [operand.view if operand is not None else None for operand in (call.a, call.b, call.out)]
    c = call.c.view if call.c is not None and call.reads_c else None

    def form_of(row_major: bool) -> Formulation:
        a, b, out = views
        assert a is not None and b is not None
        return formulate(a, b, out, c, call.side, call.arithmetic, call.request.activation, row_major=row_major)

    form = form_of(rung is not None and rung[0].takes.layouts == ("NN",) and rung[0].relayouts is None)
    problem = form.problem.without_products if call.scalars.alpha == 0 else form.problem
    addresses = _misalignment(call, form)
    if rung is None:
        kernel, config = select(problem, engine.capability, engine.device_name, addresses)
        why = "the fastest known for the problem, from tables and the cost model"
    else:
        kernel = rung[0]
        config = kernel.config(dict(rung[1]), capability=engine.capability)
        why = "named by the caller"
    c_in_place = call.reads_c and not kernel.takes.separate_c
    if c_in_place:
        problem = _with_c_in_d(problem)
    capturing = call.a.device != HOST and engine.capturing(call.stream)
    bound = engine.plan(kernel, config, problem, addresses, capturing=capturing)
    return _Bound(bound, form, engine, c_in_place, why)


def _with_c_in_d(problem: Problem) -> Problem:
    p = problem
    return Problem(p.m, p.n, p.k, p.arithmetic, p.batch, p.a, p.b, p.d, p.d, p.epilogue)


def _misalignment(call: _Call, form: Formulation) -> Addresses:
    """What the addresses of the problem's operands leave when divided by 16; copies and new arrays are aligned."""

    def left(operand: Operand | None, name: str) -> int:
        return 0 if operand is None or name in form.copied else operand.pointer % VECTOR_BYTES

    a, b = left(call.a, "a"), left(call.b, "b")
    if form.swapped:
        a, b = b, a
    return Addresses(a, b, left(call.out, "out"), left(call.c if call.reads_c else None, "c"))


def _on_gpu(call: _Call) -> Any:
    bound, library = _bound(call), call.library
    form, arithmetic = bound.form, call.arithmetic
    a, b, c = (_in_place(call, form, operand) for operand in (call.a, call.b, call.c if call.reads_c else None))
    assert a is not None and b is not None
    out = call.out
    target = library.new(call.a, form.shape, arithmetic.result, bound.engine) if _needs_new(out, form) else out
    assert target is not None
    if bound.c_in_place and c is not None and not c.is_same(target):
        library.copy(target, c)
        c = target
    bias = library.row_major(call.bias, call.bias.shape) if call.bias and _has_gaps(call.bias) else call.bias
    first, second = (b, a) if form.swapped else (a, b)
    pointers = Pointers(
        first.pointer, second.pointer, target.pointer, c.pointer if c else target.pointer, bias.pointer if bias else 0
    )
    bound.engine.start(bound.plan, pointers, call.scalars, call.stream)
    if out is not None:
        if target is out:
            library.written(out.array)
        else:
            library.copy(out, target)
    if library.waits(call.a.array):
        bound.engine.synchronize()
    return out.array if out is not None else library.finish(target, call.a)


def _needs_new(out: Operand | None, form: Formulation) -> bool:
    return out is None or "out" in form.copied


def _in_place(call: _Call, form: Formulation, operand: Operand | None) -> Operand | None:
    """An operand that a layout describes: itself, or a copy."""
    if operand is None or operand.argument not in form.copied:
        return operand
    shape = operand.shape
    if operand.argument != "c" and math.prod(shape[:-2]) != 1:  # c has the result's shape
        shape = (*form.batch, *shape[-2:])
    return call.library.row_major(operand, shape)


def _has_gaps(bias: Operand) -> bool:
    view = bias.view
    return view.strides is None or any(stride not in (0, 1) for stride in view.strides)


def _through_engine(call: _Call, engine: Engine, target: Operand) -> None:
    """Copy host arrays to the engine's memory, multiply there, and copy the result back."""
    batch, shape = result_shape(call.a.shape, call.b.shape)
    if 0 in shape:
        return
    rung = call.request.rung
    columns = rung is None or "T" in "".join(rung[0].takes.layouts)
    a, b = (host.uploaded(engine, operand, batch, columns) for operand in (call.a, call.b))
    bias = call.bias and host.uploaded(engine, call.bias, (), columns=False)
    if call.c is not None and call.reads_c:
        out = host.uploaded(engine, call.c, batch, columns=False)
    else:
        memory = engine.empty(1, math.prod(shape), target.dtype)
        strides = [ITEM_BYTES[target.dtype] * stride for stride in View.tight(shape).strides or ()]
        out = gpu_operand("out", memory, memory.pointer, shape, strides, target.dtype, HOST)
    there = call._replace(a=a, b=b, c=out if call.reads_c else None, out=out, bias=bias)
    bound = _bound(there)
    first, second = (b, a) if bound.form.swapped else (a, b)
    pointers = Pointers(first.pointer, second.pointer, out.pointer, out.pointer, bias.pointer if bias else 0)
    engine.start(bound.plan, pointers, call.scalars)
    assert target.host is not None
    np.copyto(target.host, engine.download(out.array).reshape(shape))


def _type_name(dtype: Any) -> str | None:
    """An element type's name, from text or a library's own object."""
    if dtype is None:
        return None
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    name = str(name).removeprefix("torch.")
    if name not in DTYPES:
        raise DtypeError(f"out_dtype must be one of {', '.join(DTYPES)}, got {dtype!r}{nearest(name, DTYPES)}")
    return name


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
        found.config(overrides)  # refuses what is no integer, and perhaps no key for the cache either
    return found, tuple(overrides.items())


def _host_engine(request: _Request) -> Engine | None:
    """Where arrays on the host are multiplied; None for NumPy."""
    if request.engine is None and request.rung is None and cuda_unavailable():
        return None
    return resolve_engine("auto" if request.engine is None else request.engine)


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


# What an array's part of a signature holds, in the order in which differences are told.
_KINDS: tuple[tuple[int, str, Callable[[Any], str]], ...] = (
    (2, "element type", str),
    (0, "shape", str),
    (1, "strides in bytes of", str),
    (3, "its place on", lambda device: _place(device)),
    (4, "an address that, divided by 16, leaves", str),
)


def _difference(expected: tuple[Any, ...], got: tuple[Any, ...]) -> str:
    """What differs between two signatures, the first difference in words."""
    for name, one, other in zip(("a", "b", "c", "out", "bias"), expected, got, strict=False):
        if (one is None) != (other is None):
            before, now = ("with", "without") if other is None else ("without", "with")
            return f"the plan is {before} {name}, the call {now}"
        if one != other:
            for place, what, text in _KINDS:
                if one[place] != other[place]:
                    return f"{name} has {what} {text(other[place])}, the plan's has {text(one[place])}"
    if expected[6] != got[6]:
        return f"alpha is {'0' if got[6] else 'not 0'}, the plan's is {'0' if expected[6] else 'not 0'}"
    return "the arrays are of another library"


def _place(device: int) -> str:
    return "the host" if device == HOST else f"GPU {device}"
