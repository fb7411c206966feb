"""Products of arrays in the host's memory: by NumPy's BLAS, or through an engine's memory."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import activations
from tilewright.arrays.operand import Operand, gpu_operand
from tilewright.engines.base import Engine
from tilewright.problem import Scalars, Side
from tilewright.shapes import View


def multiply(
    operands: Sequence[Operand | None],
    side: Side | None,
    activation: str | None,
    scalars: Scalars,
    target: Operand,
) -> None:
    """Multiply with NumPy's BLAS in float32, and write the result, rounded to its type, to target.

    Args:
        operands: a, b, c, out and bias, None where there is none.
        side: of the result, that the bias belongs to.
        activation: as in `Epilogue`.
        scalars: alpha and beta.
        target: where the result goes; its array is on the host.
    """
    a, b, c, _, bias = (None if operand is None else operand.host for operand in operands)
    assert a is not None and b is not None and target.host is not None
    out = target.host
    plain = out.dtype == np.float32 and scalars == Scalars() and bias is None and activation is None
    if plain and a.dtype == np.float32:
        np.matmul(a, b, out=out)
        return
    if scalars.alpha:
        result = np.asarray(np.matmul(*(factor.astype(np.float32, copy=False) for factor in (a, b))))
        if scalars.alpha != 1:
            result = np.multiply(result, np.float32(scalars.alpha))
    else:
        result = np.zeros(out.shape, np.float32)
    if scalars.beta and c is not None:
        result = result + np.float32(scalars.beta) * c.astype(np.float32, copy=False)
    if bias is not None:
        values = bias.astype(np.float32).reshape(-1)
        result = result + (values.reshape(_column(a, b, len(values))) if side == "column" else values)
    np.copyto(out, activations.apply(activation, result), casting="same_kind")


def _column(a: NDArray[Any], b: NDArray[Any], m: int) -> tuple[int, ...]:
    return (m, 1) if b.ndim > 1 and a.ndim > 1 else (m,)


def uploaded(engine: Engine, operand: Operand, batch: tuple[int, ...], columns: bool) -> Operand:
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
    strides = [stride * dense.itemsize for stride in View.tight(dense.shape).strides or ()]
    shape = list(dense.shape)
    if as_columns:
        shape[-2:], strides[-2:] = reversed(shape[-2:]), reversed(strides[-2:])
    return gpu_operand(operand.argument, memory, memory.pointer, shape, strides, operand.dtype, operand.device)
