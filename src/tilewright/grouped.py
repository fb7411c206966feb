"""grouped_matmul(): rows of each group against the group's own matrix, with groups that only the GPU knows."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tilewright import on_gpu, streamed
from tilewright.arrays.libraries import library_of
from tilewright.arrays.operand import HOST, Operand, engine_operand
from tilewright.core.errors import ArrayError
from tilewright.core.problem import Arithmetic, Scalars
from tilewright.engines.base import Engine
from tilewright.engines.plan import Plan, Pointers
from tilewright.grouped_calls import GroupedCall
from tilewright.kernels.library.grouped_sm90 import kernel_for
from tilewright.kernels.takes import VECTOR_BYTES, Addresses
from tilewright.on_host import uploaded
from tilewright.select.grouped import select_grouped
from tilewright.shapes import Formulation, formulate_groups

_KEY = "grouped"
"""What the compiled launcher knows these calls by, next to the element type of the result."""

_MOST_PLANS = 1024
"""Calls of different kinds whose plans are kept; all are dropped when there are more."""


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
    k.

    Rows from the last offset on belong to no group. They are not written: `out` keeps what it has there, and a new
    result has undefined elements there, as PyTorch's has.

    Takes arrays of NumPy, PyTorch and CuPy, all of one library and on one device: a GPU of compute capability 9.0, on
    the stream that is current there, or the host. Arrays on the host are copied to the GPU and back where there is one;
    where there is none, NumPy multiplies, or the emulator where it is named. Where PyTorch records a call, for a
    gradient or to compile it, it records the operator tilewright::grouped_matmul.

    Args:
        a: rows x k elements, float16, bfloat16, float8_e4m3fn or float8_e5m2; row-major, any distance from row to row.
            Other orders are copied.
        b: groups x k x n elements of the same type, or of either float8; each matrix row-major (k x n) or column-major
            (n x k transposed), in place where rows, or columns, and matrices start at multiples of 16 bytes; row-major
            float8 is copied.
        offsets: groups int32 numbers, the row of a where each group ends; they do not decrease, and are at most the
            rows of a. On a GPU this is not checked: rows of groups that overlap are undefined, but nothing outside of
            the arrays is read or written.
        scale_a, scale_b: float32 numbers that float8 factors are multiplied by: arrays of 1 element; of rows x 1, one
            for each row of a; of groups x n, one for each column of each matrix of b, or groups x 1. Not where
            PyTorch records the call.
        out: rows x n elements, with rows of neighbours, to write the result to; it shares no memory with the others.
        out_dtype: element type of the result: 'float32', 'float16' or 'bfloat16', of float8 factors 'float8_e4m3fn'
            too, or the library's own object. None for that of out, or else of a, of float8 factors float32. Sums are
            float32 in any case.
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
            of factors that are not float8.
        ConfigError: config has an unknown parameter or breaks a constraint; the GPU is not of compute capability 9.0.
        EngineUnavailableError: this machine lacks what the engine needs.
        CompileError, LaunchError: the kernel does not compile, or cannot be launched.
    """
    scales = {name: one for name, one in (("scale_a", scale_a), ("scale_b", scale_b)) if one is not None}
    plain = engine is None and config is None and not scales
    if plain and (result := launched(a, b, offsets, out, out_dtype)) is not None:
        return result
    arrays = {"a": a, "b": b, "offsets": offsets, "out": out} | scales
    if (recorded := library_of("a", a).recorder(arrays, grouped=True)) is not None:
        if scales:
            raise _scaled_and_recorded()
        return recorded(a, b, offsets, out=out, out_dtype=out_dtype, config=config, engine=engine)
    return multiply(arrays, out_dtype, config, engine)


def launched(a: Any, b: Any, offsets: Any, out: Any, out_dtype: Any) -> Any:
    """The product by the compiled launcher; None where that does not know the call, or somebody records it."""
    if on_gpu.fast is None:
        return None
    result = on_gpu.fast.call(a, b, None, out, offsets, 1.0, 0.0, (_KEY, out_dtype))
    return None if result is on_gpu.miss else result


@np.errstate(all="ignore")  # see on_host.py
def multiply(
    arrays: Mapping[str, Any],
    out_dtype: Any = None,
    config: str | Mapping[str, int] | None = None,
    engine: str | Engine | None = None,
) -> Any:
    """The grouped product of arrays that no library records; arguments, by name, and errors of `grouped_matmul`."""
    call = GroupedCall.read(arrays, out_dtype, config, engine)
    if call.a.device != HOST:
        launches = engine is None and config is None and not call.scales
        result = _remember(call, arrays, out_dtype) if launches else None
        return _on_gpu(call) if result is None else result
    target = call.library.new(call.a, call.shape, call.result) if call.out is None else call.out
    if call.engine is None:
        _by_numpy(call, target)
    else:
        _through_engine(call, call.engine, target)
    return target.array if call.out is not None else call.library.finish(target, call.a)


class _GroupedPlan(NamedTuple):
    """A plan, and how the arrays of a call become its operands."""

    plan: Plan
    form: Formulation


_plans: dict[tuple[Any, ...], _GroupedPlan] = {}


def _bound_of(call: GroupedCall, engine: Engine) -> _GroupedPlan:
    """The plan of a call, made once for arrays of a kind."""
    key = (engine, call.signature)
    found = _plans.get(key)
    if found is None:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        a, b, out = call.a, call.b, call.out
        arithmetic = Arithmetic(a.dtype, call.result, of_b=b.dtype)
        form = formulate_groups(a.view, b.view, out and out.view, arithmetic, call.scaling)
        problem = form.problem
        config = call.config or select_grouped(problem, engine.capability, engine.device_name)
        left = [0 if one is None or one.argument in form.copied else one.pointer % VECTOR_BYTES for one in (a, b, out)]
        capturing = None if a.device == HOST else partial(engine.capturing, call.stream)
        plan = engine.plan(kernel_for(a.dtype), config, problem, Addresses(*left), capturing=capturing)
        found = _plans[key] = _GroupedPlan(plan, form)
    return found


def _remember(call: GroupedCall, arrays: Mapping[str, Any], out_dtype: Any) -> Any:
    """Have the compiled launcher answer this call and those of arrays alike; None, with nothing launched, where it
    cannot. See `on_gpu.remember`."""
    engine: Any = call.engine  # a CudaEngine, below
    plan, form = _bound_of(call, engine)
    if engine.name != "cuda" or form.copied or (known := on_gpu.opened()) is None:
        return None
    maker = call.library.maker(call.a, call.result) if call.out is None else None
    if maker is None and call.out is None:
        return None
    a, b, offsets, out = (arrays[name] for name in ("a", "b", "offsets", "out"))
    new = maker and maker(call.shape)
    if not on_gpu.tell(known, (a, b, None, out, offsets), (_KEY, out_dtype), plan, engine, new=new, scaled=False):
        return None
    return launched(a, b, offsets, out, out_dtype)


def _on_gpu(call: GroupedCall) -> Any:
    """Launch the product on the caller's stream."""
    library, engine = call.library, call.engine
    assert engine is not None
    plan, form = _bound_of(call, engine)
    a, b = (library.row_major(one, one.shape) if one.argument in form.copied else one for one in (call.a, call.b))
    target = library.new(call.a, call.shape, call.result) if call.out is None else call.out
    lent = on_gpu.lent_memory(plan, engine, library, call.a, call.stream)
    pointers = Pointers(
        a.pointer,
        b.pointer,
        target.pointer,
        scratch=lent[0] if lent else 0,
        offsets=call.offsets.pointer,
        **_scale_pointers(call),
    )
    engine.start(plan, pointers, stream=call.stream)
    if call.out is not None:
        library.written(call.out.array)
    if library.waits(call.a.array):
        engine.synchronize()
    return call.out.array if call.out is not None else library.finish(target, call.a)


def _scale_pointers(call: GroupedCall) -> dict[str, int]:
    """Addresses of the scales, by their names in `Pointers`."""
    return {one.argument: one.pointer for one in call.scales}


def _by_numpy(call: GroupedCall, target: Operand) -> None:
    """Group by group with NumPy's BLAS in float32."""
    a, b, out = call.a.host, call.b.host, target.host
    assert a is not None and b is not None and out is not None
    of_rows, of_columns = (None if one is None else one.host for one in (call.scale_a, call.scale_b))
    begin = 0
    for number, (matrix, end) in enumerate(zip(b, call.ends.tolist(), strict=True)):
        product = np.matmul(a[begin:end].astype(np.float32), matrix.astype(np.float32))
        if of_rows is not None:
            product *= of_rows.reshape(-1, 1)[begin:end] if of_rows.size > 1 else of_rows.reshape(())
        if of_columns is not None:
            product *= of_columns[number] if of_columns.size > 1 else of_columns.reshape(())
        streamed.finish(product, None, None, None, Scalars(), out[begin:end])
        begin = end


def _through_engine(call: GroupedCall, engine: Engine, target: Operand) -> None:
    """Copy host arrays to the engine's memory, multiply there, and copy the rows of groups back."""
    end = int(call.ends[-1]) if len(call.ends) else 0
    if not end or 0 in call.shape:
        return
    a, b = uploaded(engine, call.a, (), columns=False), uploaded(engine, call.b, call.b.shape[:1], columns=True)
    ends = engine.upload(call.ends.reshape(1, -1))
    memory = engine.empty(1, call.shape[0] * call.shape[1], call.result)
    out = engine_operand("out", memory, call.shape, HOST)
    scale_a, scale_b = (one and uploaded(engine, one, ()) for one in (call.scale_a, call.scale_b))
    there = call._replace(a=a, b=b, out=out, scale_a=scale_a, scale_b=scale_b)
    plan, _ = _bound_of(there, engine)
    engine.start(plan, Pointers(a.pointer, b.pointer, out.pointer, offsets=ends.pointer, **_scale_pointers(there)))
    found = engine.download(memory).reshape(call.shape)
    assert target.host is not None
    np.copyto(target.host[:end], found[:end])


def _scaled_and_recorded() -> ArrayError:
    return ArrayError(
        "scale_a and scale_b are for products that PyTorch does not record for a gradient or compile: "
        "call grouped_matmul under torch.no_grad() outside of what is compiled"
    )


def _recorded(*operands: Any, **arguments: Any) -> Any:
    """grouped_matmul, as torch.compile traces it."""
    if any(arguments.pop(name, None) is not None for name in ("scale_a", "scale_b")):
        raise _scaled_and_recorded()
    from tilewright.torch.grouped import grouped_matmul as recorded  # noqa: PLC0415 - imports PyTorch, which is there

    return recorded(*operands, **arguments)


# To torch.compile, grouped_matmul is a wrapper of _recorded, which it traces instead: see front.py.
vars(grouped_matmul).update(
    _torchdynamo_inline=_recorded,
    _torchdynamo_orig_callable=_recorded,
    _torchdynamo_wrapper_id=id(grouped_matmul),
)
