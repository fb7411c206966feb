"""Products of arrays that lie on the host: by NumPy's BLAS, or through an engine's memory."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.api.arrays.operand import HOST, Operand, engine_operand
from tilewright.api.call import Call
from tilewright.api.formulate import result_shape
from tilewright.api.gpu import planned_call_of, pointers_of
from tilewright.api.out_of_core import streamed
from tilewright.api.out_of_core.streamed import Matrices, Progress, operand_of
from tilewright.api.out_of_core.tiles import SMALL_BYTES
from tilewright.core.dtypes import INT8, ITEM_BYTES, RESULTS
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import SCALED_BLOCK, Scalars
from tilewright.runtime.base import Engine

_FREE = 0.9
"""Share of the free memory that a product takes at most."""

_ROOM = 3
"""A batch is small if this many times as much memory is free: products need some besides."""

_UNIT = 128
"""Rows of a GPU's part of a result are a multiple of this."""


@np.errstate(all="ignore")  # results follow IEEE 754 without a word, as those of a GPU do
def multiply(call: Call, engines: Sequence[Engine] = (), memory_limit: int | None = None) -> Any:
    """The product of a call whose arrays lie on the host; returns what `matmul` returns.

    Args:
        call: its arrays, checked.
        engines: which divide the result among them; that of the call where there are none.
        memory_limit: bytes of each engine that may be allocated; None for what is free.

    Raises:
        ProblemError: the limit is too small for any tile of the product.
    """
    target = call.out
    if target is None:
        target = call.library.new(call.a, call.shape, call.result)
    whole = call.offsets is not None or call.prepared is not None or call.a.dtype not in RESULTS
    if call.engine is None:
        _by_numpy(call, target) if call.offsets is None else _groups_by_numpy(call, target)
    elif whole or _is_small_batch(call, target, memory_limit):
        _through_engine(call, call.engine, target)
    else:
        _in_tiles(call, engines or [call.engine], memory_limit, target)
    if isinstance(target.array, np.memmap):
        target.array.flush()
    return target.array if call.out is not None else call.library.finish(target, call.a)


def _is_small_batch(call: Call, target: Operand, limit: int | None) -> bool:
    """Whether it is a batch of many small matrices, which fit into the engine's memory together."""
    batch, _ = result_shape(call.a.shape, call.b.shape)
    count = math.prod(batch)
    if count < 2:
        return False
    assert call.engine is not None
    arrays = [one for one in (call.a, call.b, target) if one.host is not None]
    moved = sum(math.prod(one.shape) * ITEM_BYTES[one.dtype] for one in arrays)
    return moved <= count * SMALL_BYTES and _ROOM * moved <= _limit(call.engine, limit)


def _in_tiles(call: Call, engines: Sequence[Engine], limit: int | None, target: Operand) -> None:
    """Multiply through the engines' memory, one matrix of a batch after the other."""
    products = list(_products(call, target))
    progress = Progress(len(products))
    try:
        for one in products:
            if 0 not in one.out.shape:
                _divided(one, engines, limit, progress)
            progress.end()
    except BaseException as error:
        with contextlib.suppress(AttributeError):  # Python 3.10 has no notes
            error.add_note(progress.words())
        if isinstance(target.array, np.memmap):
            target.array.flush()
        raise


def _divided(one: Matrices, engines: Sequence[Engine], limit: int | None, progress: Progress) -> None:
    """A product of matrices on several engines, each with some rows of the result."""
    each = ceil_div(one.out.shape[0], _UNIT * len(engines)) * _UNIT
    parts = [slice(begin, begin + each) for begin in range(0, one.out.shape[0], each)]
    if len(parts) == 1:
        streamed.multiply(one, engines[0], _limit(engines[0], limit), progress)
        return
    with ThreadPoolExecutor(len(parts), thread_name_prefix="tilewright-device") as threads:
        running = [
            threads.submit(streamed.multiply, one.rows(part), engine, _limit(engine, limit), progress, part.start)
            for part, engine in zip(parts, engines, strict=False)
        ]
        try:
            for each_part in running:
                each_part.result()
        except BaseException:
            progress.stopped = True  # the others end with the tiles that they have begun
            raise


def _limit(engine: Engine, limit: int | None) -> int:
    return int(engine.free_bytes() * _FREE) if limit is None else limit


def _products(call: Call, target: Operand) -> Iterator[Matrices]:
    """The products of matrices that a call is: of a batch, one after the other."""
    batch, _ = result_shape(call.a.shape, call.b.shape)
    a, b, c, out = (None if one is None else one.host for one in (call.a, call.b, call.c, target))
    assert a is not None and b is not None and out is not None
    missing = tuple(axis for axis, factor in ((-2, a), (-1, b)) if factor.ndim == 1)
    a, b = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    out, c = np.expand_dims(out, missing), (None if c is None else np.expand_dims(c, missing))
    bias = call.bias.host if call.bias else None
    if call.scalars.alpha == 0:
        a, b = a[..., :0], b[..., :0, :]
    if math.prod(b.shape[:-2]) == 1 and a.shape[:-2] == batch and not (batch and call.side == "column"):
        # All of a batch meets the same b: one product of all rows, where they have one distance.
        rows_a, rows_out, rows_c = (None if one is None else _tall(one) for one in (a, out, c))
        if rows_a is not None and rows_out is not None and (rows_c is None) == (c is None):
            yield Matrices(call, rows_a, b.reshape(b.shape[-2:]), rows_c, bias, rows_out)
            return
    a, b = (np.broadcast_to(one, (*batch, *one.shape[-2:])) for one in (a, b))
    for index in np.ndindex(*batch):
        yield Matrices(call, a[index], b[index], None if c is None else c[index], bias, out[index])


def _tall(array: NDArray[Any]) -> NDArray[Any] | None:
    """A batch of matrices as one with all their rows, in place; None where that would be a copy."""
    if array.ndim == 2:
        return array
    sizes, strides = array.shape[:-1], array.strides[:-1]
    inner = zip(strides[:-1], sizes[1:], strides[1:], strict=True)
    if 0 not in sizes and any(far != size * near for far, size, near in inner):
        return None
    return array.reshape(math.prod(sizes), array.shape[-1])


def _by_numpy(call: Call, target: Operand) -> None:
    """Multiply with NumPy's BLAS in float32, or complex64, and write the result, rounded to its type, to target;
    products of integers, but for those whose blocks have scales, as `_exact` does."""
    a, b, c, bias = (None if one is None else one.host for one in (call.a, call.b, call.c, call.bias))
    assert a is not None and b is not None and target.host is not None
    out, scalars = target.host, call.scalars
    wide = np.complex64 if a.dtype == np.complex64 else np.float32
    a, b = a.conj() if call.a.conjugated else a, b.conj() if call.b.conjugated else b
    plain = out.dtype == wide and scalars == Scalars() and bias is None and call.request.activation is None
    if plain and a.dtype == wide:
        np.matmul(a, b, out=out)
        return
    integers = call.a.dtype in INT8 and not call.scaling.of_blocks
    if scalars.alpha:
        factors = [_exact(a, b)] if integers else [factor.astype(wide, copy=False) for factor in (a, b)]
        for index, scale in enumerate((call.scale_a, call.scale_b)):
            if scale is not None and scale.host is not None:
                at = 0 if integers else index
                factors[at] = factors[at].astype(np.float32) * _spread(scale.host, factors[at].shape, index)
        sums = factors[0] if integers else np.asarray(np.matmul(*factors))
    else:
        sums = np.zeros(out.shape, wide)
    if bias is not None:
        bias = bias.reshape((-1, 1) if call.side == "column" and a.ndim > 1 and b.ndim > 1 else -1)
    streamed.finish(call, sums, c, bias, out)


def _exact(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The product of integers, added up in float64, which holds each sum, and then wrapped to int32."""
    return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64))).astype(np.int64).astype(np.int32)


def _groups_by_numpy(call: Call, target: Operand) -> None:
    """Multiply group by group with NumPy's BLAS in float32, integers as `_exact` does."""
    a, b, out = call.a.host, call.b.host, target.host
    assert a is not None and b is not None and out is not None
    of_rows, of_columns = (None if one is None else one.host for one in (call.scale_a, call.scale_b))
    begin = 0
    for number, (matrix, end) in enumerate(zip(b, call.ends.tolist(), strict=True)):
        if call.a.dtype in INT8:
            product = _exact(a[begin:end], matrix)
            product = product if of_rows is of_columns is None else product.astype(np.float32)
        else:
            product = np.matmul(a[begin:end].astype(np.float32), matrix.astype(np.float32))
        if of_rows is not None:
            product *= of_rows.reshape(-1, 1)[begin:end] if of_rows.size > 1 else of_rows.reshape(())
        if of_columns is not None:
            product *= of_columns[number] if of_columns.size > 1 else of_columns.reshape(())
        streamed.finish(call, product, None, None, out[begin:end])
        begin = end


def _spread(scale: NDArray[Any], shape: tuple[int, ...], index: int) -> NDArray[Any]:
    """Scales of a (index 0) or b (1), which has this shape, as broadcast to its elements."""
    if scale.size == 1:
        return scale.reshape(())
    if scale.ndim == 1:
        return scale[:, np.newaxis] if index == 0 else scale
    for axis, length in enumerate(shape):
        if scale.shape[axis] not in (1, length):
            scale = np.repeat(scale, SCALED_BLOCK, axis)[(slice(None),) * axis + (slice(length),)]
    return scale


def _through_engine(call: Call, engine: Engine, target: Operand) -> None:
    """Copy host arrays to the engine's memory, multiply there with what is cached of b, and copy the result back, of a
    grouped product the rows of groups.
    """
    batch, _ = result_shape(call.a.shape, call.b.shape)
    rows = ... if call.offsets is None else slice(int(call.ends.max(initial=0)))
    assert target.host is not None
    if 0 in target.host[rows].shape:
        return
    rung = call.request.rung
    columns = rung is None or "T" in "".join(rung[0].support.layouts)
    a, b = (uploaded(engine, one, batch, columns) for one in (call.a, call.b))
    c = uploaded(engine, call.c, batch) if call.c is not None else None
    memory = engine.empty(1, math.prod(target.shape), target.dtype)
    out = c or engine_operand("out", memory, target.shape, HOST)
    bias, scale_a, scale_b = (one and uploaded(engine, one, ()) for one in (call.bias, call.scale_a, call.scale_b))
    there = call._replace(a=a, b=b, bias=bias, c=c, out=out, scale_a=scale_a, scale_b=scale_b)
    ends = None if call.offsets is None else engine.upload(call.ends.reshape(1, -1))
    planned = planned_call_of(there)
    pointers = pointers_of(there, planned, a, b, out, out, bias)
    engine.start(planned.plan, pointers._replace(offsets=ends.pointer if ends else 0), call.scalars)
    result = np.empty((1, math.prod(target.shape)), target.dtype)
    engine.store(result, out.pointer, engine.mark())()
    np.copyto(target.host[rows], result.reshape(target.shape)[rows])


def uploaded(engine: Engine, operand: Operand, batch: tuple[int, ...], columns: bool = False) -> Operand:
    """A copy of a host array in an engine's memory, without gaps.

    Args:
        engine, operand: where to, and the array.
        batch: dimensions of the whole batch, to which an array is broadcast that has some of them.
        columns: whether columns whose elements are neighbours may stay so, else rows are made.
    """
    view = operand.host
    assert view is not None
    if math.prod(view.shape[:-2]) not in (1, math.prod(batch)):
        view = np.broadcast_to(view, (*batch, *view.shape[-2:]))
    by_columns = columns and view.ndim > 1 and not view.flags.c_contiguous and view.swapaxes(-1, -2).flags.c_contiguous
    dense = np.ascontiguousarray(view.swapaxes(-1, -2) if by_columns else view)
    found = operand_of(operand.argument, engine.upload(dense.reshape(1, -1)), view.shape, by_columns)
    return found._replace(conjugated=operand.conjugated)
