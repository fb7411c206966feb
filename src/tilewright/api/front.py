"""The front door: matmul(), grouped_matmul(), prepare() and plan() on arrays of any library, where the data lies."""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from tilewright.api import gpu as on_gpu
from tilewright.api.arrays.libraries import library_of, number_of, read_library
from tilewright.api.arrays.library import LEGACY_STREAM, Library
from tilewright.api.arrays.operand import HOST
from tilewright.api.call import Call, difference, gpu_engine
from tilewright.api.engines import gpus_named, resolve_engine
from tilewright.api.formulate import described, size
from tilewright.api.out_of_core import host as on_host
from tilewright.api.planned_call import PlannedCall
from tilewright.api.prepared import Prepared
from tilewright.api.request import PLAIN, Request, scalars_of
from tilewright.core.dtypes import COMPLEX, RESULTS
from tilewright.core.errors import ArrayError, DtypeError, ProblemError
from tilewright.core.problem import Problem
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.base import Engine

_P = ParamSpec("_P")
_R = TypeVar("_R")

_GROUPED = "grouped"
"""Word by which the compiled launcher knows grouped products, next to the element type of the result."""


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
    precision: str | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    fast_accumulate: bool = False,
    kernel: str | int | Kernel | None = None,
    config: str | Mapping[str, int] | None = None,
    engine: str | Engine | None = None,
    devices: str | Sequence[int] | None = None,
    memory_limit: int | None = None,
    batch_invariant: bool = False,
) -> Any:
    """activation(alpha * scale_a * scale_b * a @ b + beta * c + bias).

    Takes arrays of NumPy, PyTorch, CuPy and JAX, and of any other library that speaks DLPack or
    __cuda_array_interface__; all arrays of a call must be of one library and lie on one device. Arrays of NumPy next to
    some of JAX are constants, as they are to `jax.numpy`. Shapes are those of `numpy.matmul`: vectors, matrices, and
    batches of matrices that broadcast. Results follow IEEE 754: overflow and NaN come out as infinity and NaN, and
    NumPy's error state says nothing of them.

    - Arrays on a GPU are multiplied there, on the stream that is current in PyTorch or CuPy, or that
      __cuda_array_interface__ names, or by XLA (JAX); the call returns before the work has ended. Where the stream
      cannot be known (DLPack alone) it has ended on return.
    - Where PyTorch records a call, for a gradient or to compile it, it records one operator (see tilewright.torch), and
      its backward products are made here too.
    - Values that JAX traces (inside jit, grad, vmap, scan) are multiplied where XLA runs the program.
    - Arrays on the host (NumPy, tensors on the CPU) are copied to the GPU and back where there is one, in tiles while
      others are multiplied, so they may be larger than its memory. Where a product is interrupted, a note of the
      exception says which rows of the result are done; a numpy.memmap as `out` is flushed.
      Where there is none, NumPy's own BLAS multiplies them, unless a kernel or an engine is named: then
      the emulator runs the kernel, thousands of times slower than a GPU.

    Row- and column-major arrays, also those with gaps as slices have, are used in place: a transposed array is. What
    no layout describes (reversed, strided in both dimensions, a batch without one distance) is copied once.

    Args:
        a: ... x m x k elements, or a vector of k; float32, float16, bfloat16, complex64, float8_e4m3fn, float8_e5m2,
            int8 or uint8.
        b: ... x k x n elements, or a vector of k; of the same type, or both of float8, or both of 8-bit integers. Or
            what `prepare` made of such an array.
        out: array of the result's shape and type, to write the result to. It may be the same array as c, but share no
            element with a, b or bias, nor some with c. Not for JAX, whose arrays cannot be written.
        out_dtype: element type of the result, as text or the library's own: 'float32', 'float16' or 'bfloat16', of
            float8 factors 'float8_e4m3fn' too, whose largest number larger results become. None for that of out, or
            else of a and b, or float32 where these are of float8. Sums are float32. Those of 8-bit integers are exact
            int32, which wrap, and so is the result where no type is named: NumPy's own matmul of int8 wraps at 8 bits,
            float32 does not hold all sums. Named, it may be of the three others, to which these sums are rounded.
        c: array of the result's shape and type; needed where beta is not 0, and not read where it is.
        alpha, beta: numbers, or arrays without dimensions on the host, integers where the result is int32; they may be
            complex where a is, and c is then multiplied by beta first. With alpha = 0, a and b are not read.
        bias: of the result's type: n elements, which are added to every row, or m x 1 elements, to every column;
            of complex64 n elements alone.
        activation: 'relu', 'gelu' (by the error function), 'gelu_tanh' or 'silu', as in PyTorch, applied last, to
            results that are neither int32 nor complex64.
        precision: what a product of float32 factors promises, and for each real and imaginary part one of complex64.
            None or 'float32': what float32 does, on every input, by tensor cores where that is faster. 'ieee': float32
            multiply-adds on CUDA cores alone. 'fp16x3': an error of each element of at most 2^-21 of (|a| @ |b|) and a
            rounding to float32 (where k is 33 to 127, 2^-20), or about float32's own where that is more: in long sums,
            and where a few products are most of one. 'bf16x3': of about 2^-16 of it. 'tf32': of about 2^-10 of it, as
            factors rounded to TF32 have. A precision may be met by more than it asks for. For complex64 there are '3m'
            and 'fp16x3_3m' too: three products for four, in float32's precision or that of 'fp16x3', where that is
            faster; each part then errs relative to the whole element, and an infinity may make it NaN.
        scale_a, scale_b: float32 numbers that float8 factors are multiplied by, as in torch._scaled_mm: arrays of 1
            element, or of two matrices m x 1 elements, one of each row of a, and 1 x n, one of each column of b. Or
            both of blocks of 128 of k: of a m x k/128, or m/128 x k/128, of b k/128 x n/128 elements, rounded up.
            Factors of 8-bit integers have them too, where the result is not int32.
        fast_accumulate: whether tensor cores add up all products of float8 factors, and keep 13 bits of sums. Else
            threads add them up in float32 every 128 of k.
        kernel: its name, its number among the rungs, either with ':PRESET' (as in 'shared_tiled:fastcuda_v2'), or a
            Kernel. None takes the best one known for the problem.
        config: parameters of that kernel that differ from its defaults, {"BM": 64} or "BM=64,BN=64".
        engine: 'cuda', 'emulator' or an Engine. None takes 'cuda' where there is a GPU, and what is said
            above where there is none.
        devices: 'all', or numbers of GPUs, to divide one product among them: of two matrices of PyTorch on one of these
            GPUs, or of arrays on the host. Results are the same bits for a number of GPUs. None for one GPU.
        memory_limit: bytes of a GPU's memory that a product of arrays on the host may take, on each GPU. None for what
            is free.
        batch_invariant: whether a row of the result has the same bits whatever m is, whatever the other rows hold,
            wherever it is among them, and however many matrices a batch has: the order in which products along k are
            added then follows from n, k and the element types, on one kind of GPU. Products of parts of float32 factors
            are left out, as are kernels whose blocks share the k of a tile where that depends on m, so it may take
            longer. In every mode a product has the same bits from run to run.

    Returns:
        `out` if given, else a new array of the same library, on the same device; of two vectors of NumPy a scalar.

    Raises:
        ArrayError: an array does not fit the others, lies on another device, has elements that cannot be read as
            strided memory (sparse, nested and quantized tensors), or is an `out` that cannot be written or overlaps an
            input.
        ArrayError: PyTorch records the call, and it names a kernel, a config or an engine, or an out for a gradient, or
            b is prepared, or there are scales.
        DtypeError: an element type that is not supported, arrays of different ones, a kernel that does not take it, a
            precision of factors that are not float32, or one that the kernel does not keep; scales or fast_accumulate
            with factors that are not of float8.
        ProblemError: alpha or beta is no number that float32 holds, the activation or the precision is unknown, the
            kernel does not take the problem, or batch_invariant is asked of a kernel or GPU that cannot promise it.
        KernelNotFoundError: no kernel or preset has this name; the message gives the nearest.
        ConfigError: config has an unknown parameter or breaks a constraint, or no kernel is named for it.
        EngineUnavailableError: this machine lacks what the engine needs, a GPU of devices cannot be reached, or
            batch_invariant is asked of NumPy's BLAS.
        CompileError, LaunchError: the kernel does not compile, or cannot be launched.
    """
    asked: tuple[Any, ...] | None = None
    plain = out_dtype is activation is precision is kernel is config is None
    if not plain or batch_invariant is not False or fast_accumulate:
        # A Request without its name: a call that the launcher knows makes no object.
        asked = (out_dtype, activation, precision, kernel, config, batch_invariant, fast_accumulate, None)
    key: Hashable | None = asked
    prepared = None
    if type(b) is Prepared:
        prepared, b = b, b.array
        key = (prepared.key, asked)
    scaled = scale_a is not None or scale_b is not None
    if engine is None and devices is None and memory_limit is None and on_gpu.fast is not None:
        if scaled:
            result = on_gpu.fast.call(a, b, c, out, bias, alpha, beta, key, scale_a, scale_b)
        else:
            result = on_gpu.fast.call(a, b, c, out, bias, alpha, beta, key)
        if result is not on_gpu.miss:
            return result
    if c is not None and type(beta) not in (float, int):
        c, beta = _scaled(c, beta)
    request = PLAIN if asked is None else Request(*asked)
    if engine is not None:
        request = request._replace(engine=engine)
    arrays = {"a": a, "b": b, "c": c, "out": out, "bias": bias}
    if devices is not None or memory_limit is not None:
        if scaled or fast_accumulate:
            raise ArrayError("devices and memory_limit are for products without scales and fast_accumulate")
        call = _read_unrecorded(request, arrays, alpha, beta, prepared, "devices and memory_limit")
        if call.a.dtype not in RESULTS:
            raise DtypeError(f"devices and memory_limit are for factors of {', '.join(RESULTS)}, got {call.a.dtype}")
        return _beyond(call, arrays, devices, memory_limit)
    library, alike, records = read_library(arrays)
    if records:
        if prepared is not None:
            raise prepared_and_recorded()
        if scaled or fast_accumulate:
            raise scaled_and_recorded()
        return library.recorder()(alike, request, alpha, beta)
    if scaled:
        alike = {**alike, "scale_a": scale_a, "scale_b": scale_b}
    return multiply(request, library, alike, alpha, beta, key, prepared)


def _scaled(c: Any, beta: Any) -> tuple[Any, Any]:
    """c, multiplied by its library by a beta that is not real, and the beta that is left: products take real ones. As
    they are, to be refused, where c is not complex64 or float32 does not hold beta."""
    number = number_of("beta", beta)
    if isinstance(number, complex) and number.imag and abs(number) < 2.0**128 and _is_complex(c):
        return c * number, 1.0
    return c, beta


def _is_complex(array: Any) -> bool:
    return str(getattr(array, "dtype", None)).rpartition(".")[2] == COMPLEX


def grouped_matmul(
    a: Any,
    b: Any,
    offsets: Any,
    *,
    scale_a: Any = None,
    scale_b: Any = None,
    out: Any = None,
    out_dtype: Any = None,
    config: str | Mapping[str, int] | None = None,
    engine: str | Engine | None = None,
) -> Any:
    """Rows of each group of a, multiplied with the group's own matrix of b: result[i:j] = a[i:j] @ b[g].

    Group g begins at i = offsets[g - 1], the first one at 0, and ends at j = offsets[g]. The meaning is that of
    `torch._grouped_mm` for a matrix and a batch, as mixtures of experts need it. Groups may have any number of rows,
    also none; nothing need be aligned. On a GPU the kernel reads the offsets: the call returns before the work has
    ended, the host never waits for it, and a CUDA graph that captured the call may be replayed with other offsets.

    Factors of float8 may have scales, as those of `torch._scaled_grouped_mm`: a row of the result is multiplied by that
    of its row of a, and an element by that of its group's column of b. Their sums are added up in float32 every 128 of
    k. Factors of 8-bit integers may have them where the result is not int32.

    Rows from the last offset on belong to no group. They are not written: `out` keeps what it has there, and a new
    result has undefined elements there, as PyTorch's has.

    Takes arrays of NumPy, PyTorch and CuPy, all of one library and on one device: a GPU of compute capability 9.0, on
    the stream that is current there, or the host. Arrays on the host are copied to the GPU and back where there is one;
    where there is none, NumPy multiplies, or the emulator where it is named. Where PyTorch records a call, for a
    gradient or to compile it, it records the operator tilewright::grouped_matmul.

    Args:
        a: rows x k elements, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8 or uint8; row-major, any distance from
            row to row. Other orders are copied.
        b: groups x k x n elements of the same type, or both of float8, or both of 8-bit integers; each matrix row-major
            (k x n) or column-major (n x k transposed), in place where rows, or columns, and matrices start at multiples
            of 16 bytes; row-major b of 8 bits is copied.
        offsets: groups int32 numbers, the row of a where each group ends; they do not decrease, and are at most the
            rows of a. On a GPU this is not checked: rows of groups that overlap are undefined, but nothing outside of
            the arrays is read or written.
        scale_a, scale_b: float32 numbers that float8 factors are multiplied by: arrays of 1 element; of rows x 1, one
            for each row of a; of groups x n, one for each column of each matrix of b, or groups x 1. Not where
            PyTorch records the call.
        out: rows x n elements, with rows of neighbours, to write the result to; it shares no memory with the others.
        out_dtype: element type of the result: 'float32', 'float16' or 'bfloat16', of float8 factors 'float8_e4m3fn'
            too, or the library's own object. None for that of out, or else of a, of float8 factors float32, of 8-bit
            integers int32, the sums as `matmul` has them. Other sums are float32.
        config: parameters of the kernel that differ from its defaults, {"BM": 64} or "BM=64,BN=64". None: the cost
            model picks a config, by the mean number of rows of a group.
        engine: 'cuda', 'emulator' or an Engine, as for `matmul`.

    Returns:
        `out` if given, else a new array of rows x n elements of the same library, on the same device.

    Raises:
        ArrayError: an array does not fit the others, lies on another device, or is an `out` that cannot be written; or
            offsets on the host decrease or pass the rows of a.
        ArrayError: PyTorch records the call, and it names a config or an engine, or an out for a gradient; or JAX does.
        DtypeError: a has none of these element types, b is not like it, offsets are not int32, or scales not float32 or
            of factors that are not of 8 bits.
        ConfigError: config has an unknown parameter or breaks a constraint; the GPU is not of compute capability 9.0.
        EngineUnavailableError: this machine lacks what the engine needs.
        CompileError, LaunchError: the kernel does not compile, or cannot be launched.
    """
    scales = {} if scale_a is scale_b is None else {"scale_a": scale_a, "scale_b": scale_b}
    plain = engine is None and config is None and not scales
    if plain and (result := launched_groups(a, b, offsets, out, out_dtype)) is not None:
        return result
    arrays = {"a": a, "b": b, "c": None, "out": out, "bias": None, "offsets": offsets} | scales
    library = library_of("a", a)
    if library.records(arrays):
        recorded = library.recorder(grouped=True)
        if scales:
            raise scaled_groups_recorded()
        return recorded(a, b, offsets, out=out, out_dtype=out_dtype, config=config, engine=engine)
    return multiply_groups(Request(out_dtype, config=config, engine=engine), library, arrays)


def launched_groups(a: Any, b: Any, offsets: Any, out: Any, out_dtype: Any) -> Any:
    """The product by the compiled launcher; None where that does not know the call, or somebody records it."""
    if on_gpu.fast is None:
        return None
    result = on_gpu.fast.call(a, b, None, out, offsets, 1.0, 0.0, (_GROUPED, out_dtype))
    return None if result is on_gpu.miss else result


def multiply_groups(request: Request, library: Library, arrays: Mapping[str, Any]) -> Any:
    """The grouped product of arrays that no library records, of the arguments of `Call.read`."""
    call = Call.read(request, library, arrays)
    launches = request.engine is request.config is None and not call.scales
    return _multiply(call, arrays, (_GROUPED, request.out_dtype), launches)


def prepare(b: Any, *, engine: str | Engine | None = None) -> Prepared:
    """A factor to pass to `matmul` and `plan` for b, many times: what kernels want of it first is then made once.

    Float32 products on tensor cores multiply 16-bit parts, into which each call splits both factors; other kernels copy
    factors whose rows are not aligned. Of a prepared b that copy is made by the first product, or the first `plan`,
    that needs it, and kept in memory of its own. Which copy that is follows from the kernel, and so from a as well: so
    nothing is copied here, and products of several shapes share a copy where their kernels want the same one. Where a
    kernel wants none, b is used as it is. What is picked takes into account that b need not be split.

    b is kept alive, and must not be written any more: a product may see what it held at first, or what it holds now.
    The copies take up to 6 bytes for each float32 element, and are freed with this object; a CUDA graph that captured a
    product needs it as long as it is replayed. A product that would have to make a copy cannot be captured: multiply or
    call `plan` once before.

    Args:
        b: ... x k x n elements, a matrix or a batch, on a GPU, of PyTorch, CuPy or another library but JAX; of an
            element type that `matmul` takes. Its rows or columns are neighbours in memory.
        engine: 'cuda', 'emulator' or an Engine, as `matmul` takes it; for the emulator, b lies on the host.

    Raises:
        ArrayError: b is a vector, does not lie where the engine's kernels read it, wants a gradient, or has elements
            that no layout describes.
        DtypeError: an element type that is not supported.
        EngineUnavailableError: this machine lacks what the engine needs.
    """
    library = library_of("b", b)
    if library.records({"b": b}):
        if getattr(b, "is_meta", False):
            raise ArrayError("b must have elements to be prepared, and is a meta tensor")
        raise ArrayError(
            "b wants a gradient, is traced, or is run by XLA, and what is kept of it would not follow: pass an array "
            "that is not recorded, as b.detach() of a tensor that wants a gradient"
        )
    operand = library.read("b", b, library.stream(b) or LEGACY_STREAM)
    if operand.dtype == COMPLEX:
        raise DtypeError(f"b has element type {COMPLEX}, and each product writes what its kernel reads: pass b itself")
    if len(operand.shape) < 2:
        raise ArrayError(f"b must be a matrix or a batch of matrices to be prepared, got {size(operand.shape)}")
    if not described(operand.view):
        raise ArrayError(
            "b must have rows or columns whose elements are neighbours, and matrices of a batch at one distance, to be "
            f"prepared; got strides of {operand.strides} bytes"
        )
    if operand.device != HOST:
        return Prepared(b, gpu_engine(engine, operand.device))
    where = None if engine is None else resolve_engine(engine)
    if where is None or where.capability is not None:
        raise ArrayError("b must lie on a GPU to be prepared, or be for engine='emulator': it lies on the host")
    return Prepared(b, where)


def _takes_arguments_of(other: Callable[_P, Any]) -> Callable[[Callable[..., _R]], Callable[_P, _R]]:
    """Give a function the signature of another, without the arguments that divide a product."""
    parameters = inspect.signature(other).parameters.values()
    kept = [one for one in parameters if one.name not in ("devices", "memory_limit")]

    def given(function: Callable[..., _R]) -> Callable[_P, _R]:
        vars(function)["__signature__"] = inspect.Signature(kept)
        return function

    return given


@_takes_arguments_of(matmul)
def plan(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    scale_a: Any = None,
    scale_b: Any = None,
    **asked: Any,
) -> "ProductPlan":
    """Decide and compile the product that `matmul` would run for these arrays: to look at, and to call again.

    Takes the arguments of `matmul` but devices and memory_limit, and raises what it raises. No element of an array is
    read or written, and the plan keeps no array. Of a prepared b on a GPU the copy is made that the product needs, if
    no product has needed it yet.
    """
    request = Request.of("plan", asked)
    prepared, b = _prepared(b)
    arrays = {"a": a, "b": b, "c": c, "out": out, "bias": bias, "scale_a": scale_a, "scale_b": scale_b}
    call = _read_unrecorded(request, arrays, alpha, beta, prepared)
    planned = on_gpu.planned_call_of(call) if call.engine else None
    if planned is not None and call.a.device != HOST:
        planned.cached(call)
    return ProductPlan(request, call.signature, planned)


def multiply(
    request: Request,
    library: Library,
    arrays: Mapping[str, Any],
    alpha: Any,
    beta: Any,
    key: Hashable | None,
    prepared: Prepared | None = None,
) -> Any:
    """The product of arrays that the compiled launcher did not know, and that no library records.

    Args:
        request, library, arrays, alpha, beta, prepared: as `Call.read` takes them.
        key: what the compiled launcher is to know calls like this one by, besides the arrays.
    """
    call = Call.read(request, library, arrays, alpha, beta, prepared)
    return _multiply(call, arrays, key, launches=request.engine is None, other_sizes=True)


def _beyond(call: Call, arrays: dict[str, Any], devices: str | Sequence[int] | None, memory_limit: int | None) -> Any:
    """The product of a call that was read, on several GPUs or with limited memory."""
    if memory_limit is not None and (type(memory_limit) is not int or memory_limit <= 0):
        raise ProblemError(f"memory_limit must be a number of bytes, got {memory_limit!r}")
    if memory_limit is not None and call.a.device != HOST:
        raise ArrayError("memory_limit is for arrays on the host, and a lies on a GPU")
    if devices is None:
        return on_host.multiply(call, memory_limit=memory_limit)
    if call.prepared is not None:
        raise ArrayError("b is prepared for one GPU, and devices divides a product: pass the array that was prepared")
    if call.request.batch_invariant:
        raise ProblemError("batch_invariant holds for one GPU: leave devices out, which divides a product by its sizes")
    if call.request.engine not in (None, "auto", "cuda"):
        raise ArrayError("devices divides a product among GPUs: leave engine out")
    numbers = gpus_named(devices)
    if call.a.device == HOST:
        engines = [gpu_engine(None, number) for number in numbers]
        return on_host.multiply(call, engines=engines, memory_limit=memory_limit)
    return call.library.divide(call, arrays, numbers)


def _prepared(b: Any) -> tuple[Prepared | None, Any]:
    """Prepared b, whose copies are cached, or None where b is not prepared; and its array."""
    return (b, b.array) if type(b) is Prepared else (None, b)


def prepared_and_recorded() -> ArrayError:
    return ArrayError(
        "b is prepared, and a product with it cannot be recorded for a gradient, traced, or run by XLA: "
        "pass arrays that are not recorded, or the array that was prepared"
    )


def scaled_and_recorded() -> ArrayError:
    return ArrayError(
        "scale_a, scale_b and fast_accumulate are for products that are not recorded for a gradient, traced, or run by "
        "XLA: pass arrays that are not recorded, tensors under torch.no_grad() outside of what is compiled"
    )


def scaled_groups_recorded() -> ArrayError:
    return ArrayError(
        "scale_a and scale_b are for products that PyTorch does not record for a gradient or compile: "
        "call grouped_matmul under torch.no_grad() outside of what is compiled"
    )


def _read_unrecorded(
    request: Request, arrays: Mapping[str, Any], alpha: Any, beta: Any, prepared: Prepared | None, what: str = "a plan"
) -> Call:
    """A call that no library records, read and checked; what: words for what cannot be recorded."""
    library, arrays, records = read_library(arrays)
    if records:
        raise ArrayError(
            f"{what} cannot be recorded for a gradient, traced, or run by XLA: "
            f"pass arrays that are not recorded, or {'call matmul instead' if what == 'a plan' else 'leave them out'}"
        )
    call = Call.read(request, library, arrays, alpha, beta, prepared)
    call.check()
    return call


def _multiply(
    call: Call, arrays: Mapping[str, Any], key: Hashable | None, launches: bool, other_sizes: bool = False
) -> Any:
    """The product of a call that was read and not checked yet; see `gpu.multiply`."""
    if call.a.device == HOST:
        call.check()
        return on_host.multiply(call)
    return on_gpu.multiply(call, arrays, key, launches, other_sizes)


class ProductPlan:
    """A product of arrays of one kind: call it with arrays of the same shapes, strides, types and device."""

    def __init__(self, request: "Request", signature: tuple[Any, ...], planned: "PlannedCall | None") -> None:
        self._request = request
        self._signature = signature
        self._planned = planned
        self._key = object()
        """Key by which the compiled launcher knows this plan, so that it answers arrays of this kind alone."""

    def __call__(
        self,
        a: Any,
        b: Any,
        *,
        out: Any = None,
        c: Any = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        bias: Any = None,
        scale_a: Any = None,
        scale_b: Any = None,
    ) -> Any:
        """The product of other arrays of the same kind; returns what `matmul` returns.

        Raises:
            ArrayError: an array is of another kind; the message says what differs.
        """
        if type(alpha) is not float or type(beta) is not float:
            numbers = scalars_of(alpha, beta)  # the launcher takes real ones
            alpha, beta = alpha if numbers.factor_b != 1 else numbers.alpha, numbers.beta
        prepared, b = _prepared(b)
        key = self._key if prepared is None else (self._key, prepared.key)
        launches = self._request.engine is None and alpha != 0  # alpha = 0 is a kind of its own
        if launches and on_gpu.fast is not None:
            scales = () if scale_a is scale_b is None else (scale_a, scale_b)
            result = on_gpu.fast.call(a, b, c, out, bias, alpha, beta, key, *scales)
            if result is not on_gpu.miss:
                return result
        arrays = {"a": a, "b": b, "c": c, "out": out, "bias": bias}
        if scale_a is not None or scale_b is not None:
            arrays |= {"scale_a": scale_a, "scale_b": scale_b}
        call = _read_unrecorded(self._request, arrays, alpha, beta, prepared)
        if call.signature != self._signature:
            raise ArrayError(f"the plan is for arrays of another kind: {difference(self._signature, call.signature)}")
        if call.a.device == HOST:
            return on_host.multiply(call)
        return on_gpu.multiply(call, arrays, key, launches, planned=self._planned)

    @property
    def problem(self) -> Problem | None:
        """The problem that is launched; None where NumPy multiplies."""
        return self._planned.plan.problem if self._planned else None

    def describe(self) -> str:
        """Text on what will run and why, a fact a line."""
        if self._planned is None:
            return "NumPy's BLAS multiplies: the arrays lie on the host, and this machine has no GPU"
        return self._planned.describe()

    def __repr__(self) -> str:
        return f"<ProductPlan: {self.describe().splitlines()[0]}>"
