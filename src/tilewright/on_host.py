"""Products of arrays that lie on the host: by NumPy's BLAS, or through an engine's memory."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import activations
from tilewright.arrays.operand import HOST, Operand, engine_operand
from tilewright.bound import bound_of
from tilewright.calls import Call
from tilewright.engines.base import Engine
from tilewright.engines.plan import Pointers
from tilewright.problem import FLOAT8, ITEM_BYTES, LARGEST_FLOAT8, SCALED_BLOCK, Scalars, Side
from tilewright.shapes import result_shape

PANEL_BYTES = 32 * 2**20
"""Of a large product, this much of a and of the result is multiplied while the next such panel is copied."""


def multiply(call: Call) -> Any:
    """The product of a call whose arrays lie on the host; returns what `matmul` returns."""
    target = call.out
    if target is None:
        _, shape = result_shape(call.a.shape, call.b.shape)
        target = call.library.new(call.a, shape, call.arithmetic.result)
    if call.engine is None:
        by_numpy(call.operands, call.side, call.request.activation, call.scalars, target, (call.scale_a, call.scale_b))
    else:
        _through_engine(call, call.engine, target)
    return target.array if call.out is not None else call.library.finish(target, call.a)


def by_numpy(
    operands: Sequence[Operand | None],
    side: Side | None,
    activation: str | None,
    scalars: Scalars,
    target: Operand,
    scales: Sequence[Operand | None] = (),
) -> None:
    """Multiply with NumPy's BLAS in float32, and write the result, rounded to its type, to target.

    Args:
        operands: a, b, c, out and bias, None where there is none.
        side: of the result, that the bias belongs to.
        activation: as in `Epilogue`.
        scalars: alpha and beta.
        target: where the result goes; its array is on the host.
        scales: of a and b, None where there is none.
    """
    a, b, c, _, bias = (None if operand is None else operand.host for operand in operands)
    assert a is not None and b is not None and target.host is not None
    out = target.host
    plain = out.dtype == np.float32 and scalars == Scalars() and bias is None and activation is None
    if plain and a.dtype == np.float32:
        np.matmul(a, b, out=out)
        return
    if scalars.alpha:
        factors = [factor.astype(np.float32, copy=False) for factor in (a, b)]
        for index, scale in enumerate(scales):
            if scale is not None and scale.host is not None:
                factors[index] = factors[index] * _spread(scale.host, factors[index].shape, index)
        result = np.asarray(np.matmul(*factors))
        if scalars.alpha != 1:
            result = np.multiply(result, np.float32(scalars.alpha))
    else:
        result = np.zeros(out.shape, np.float32)
    if scalars.beta and c is not None:
        result = result + np.float32(scalars.beta) * c.astype(np.float32, copy=False)
    if bias is not None:
        values = bias.astype(np.float32).reshape(-1)
        result = result + (values.reshape(_column(a, b, len(values))) if side == "column" else values)
    result = activations.apply(activation, result)
    if target.dtype in FLOAT8:
        result = np.clip(result, -LARGEST_FLOAT8, LARGEST_FLOAT8)
    np.copyto(out, result, casting="same_kind")


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


def _column(a: NDArray[Any], b: NDArray[Any], m: int) -> tuple[int, ...]:
    return (m, 1) if b.ndim > 1 and a.ndim > 1 else (m,)


def _uploaded(engine: Engine, operand: Operand, batch: tuple[int, ...], columns: bool) -> Operand:
    """A copy of a host array in an engine's memory, without gaps.

    Args:
        engine: where to.
        operand: the array.
        batch: dimensions of the whole batch, to which an array is broadcast that has some of them.
        columns: whether columns whose elements are neighbours may stay so, else rows are made.
    """
    view = operand.host
    assert view is not None
    if math.prod(view.shape[:-2]) not in (1, math.prod(batch)):
        view = np.broadcast_to(view, (*batch, *view.shape[-2:]))
    as_columns = columns and view.ndim > 1 and not view.flags.c_contiguous and view.swapaxes(-1, -2).flags.c_contiguous
    dense = np.ascontiguousarray(view.swapaxes(-1, -2) if as_columns else view)
    memory = engine.upload(dense.reshape(1, -1))
    found = engine_operand(operand.argument, memory, dense.shape, operand.device)
    if not as_columns:
        return found
    (*batch_sizes, lines, length), (*batch_strides, far, near) = found.shape, found.strides
    return found._replace(shape=(*batch_sizes, length, lines), strides=(*batch_strides, near, far))


def _through_engine(call: Call, engine: Engine, target: Operand) -> None:
    """Copy host arrays to the engine's memory, multiply there, and copy the result back.

    A large product is made in panels of rows, so that copies in both directions and the multiplication overlap.
    """
    batch, shape = result_shape(call.a.shape, call.b.shape)
    if 0 in shape:
        return
    rung = call.request.rung
    columns = rung is None or "T" in "".join(rung[0].takes.layouts)
    b = _uploaded(engine, call.b, batch, columns)
    pending = []
    for panel, result in _panels(call, target):
        there = panel._replace(
            a=_uploaded(engine, panel.a, batch, columns),
            b=b,
            bias=panel.bias and _uploaded(engine, panel.bias, (), columns=False),
            scale_a=panel.scale_a and _uploaded(engine, panel.scale_a, (), columns=False),
            scale_b=panel.scale_b and _uploaded(engine, panel.scale_b, (), columns=False),
        )
        out = _result(engine, panel, result, batch)
        there = there._replace(c=out if call.reads_c else None, out=out)
        bound = bound_of(there)
        first, second = (b, there.a) if bound.form.swapped else (there.a, b)
        bias = there.bias.pointer if there.bias else 0
        pointers = Pointers(
            first.pointer,
            second.pointer,
            out.pointer,
            out.pointer,
            bias,
            bound.kept(there),
            **bound.scales(there.scale_a, there.scale_b),
        )
        engine.start(bound.plan, pointers, call.scalars)
        assert result.host is not None
        into = result.host if result.host.flags.c_contiguous else np.empty_like(result.host, order="C")
        fetched = engine.fetch(out.array, into)
        pending.append((fetched, into, result.host, there))  # whose memory lives until all has ended
    for fetched, into, host, _ in pending:
        fetched()
        if into is not host:
            np.copyto(host, into)


def _result(engine: Engine, call: Call, target: Operand, batch: tuple[int, ...]) -> Operand:
    """Memory for a result on the engine, holding c where that is added."""
    if call.c is not None and call.reads_c:
        return _uploaded(engine, call.c, batch, columns=False)
    memory = engine.empty(1, math.prod(target.shape), target.dtype)
    return engine_operand("out", memory, target.shape, HOST)


def _panels(call: Call, target: Operand) -> Iterator[tuple[Call, Operand]]:
    """The call, or where its matrices are large, calls of panels of their rows; each with its result."""
    rows = call.a.shape[0]
    moved = sum(math.prod(one.shape) * ITEM_BYTES[one.dtype] for one in (call.a, target))
    if len(call.a.shape) != 2 or len(call.b.shape) != 2 or moved <= 2 * PANEL_BYTES:
        yield call, target
        return
    height = max(rows * PANEL_BYTES // moved // 128, 1) * 128
    for start in range(0, rows, height):
        part = slice(start, start + height)
        column = call.side == "column"
        yield (
            call._replace(
                a=_rows(call.a, part),
                c=call.c and _rows(call.c, part),
                bias=_rows(call.bias, part) if call.bias and column else call.bias,
                scale_a=_scale_rows(call, part),
            ),
            _rows(target, part),
        )


def _scale_rows(call: Call, part: slice) -> Operand | None:
    """Scales of these rows of a, which begin at a multiple of 128."""
    scale = call.scaling.a
    if call.scale_a is None or scale is None or scale.kind == "tensor":
        return call.scale_a
    return _rows(call.scale_a, slice(part.start // scale.sides, -(-part.stop // scale.sides)))


def _rows(operand: Operand | None, part: slice) -> Operand:
    assert operand is not None
    view = operand.host
    assert view is not None
    return operand._replace(host=view[part], shape=view[part].shape)
