"""The operator tilewright::grouped_matmul: grouped_matmul() as PyTorch records it for gradients and compiles it.

    y[g] = a[g] @ b[g]      da[g] = dy[g] @ b[g]^T      db[g] = a[g]^T @ dy[g]      x[g]: rows of group g

da is a product of the same operator, db one of tilewright::grouped_outer. The latter is made group by group, and the
host waits for their sizes, so a CUDA graph cannot capture it. Rows that belong to no group have gradients of 0.
"""

from typing import Any

import torch

from tilewright.api import front
from tilewright.api.arrays.libraries import library_of
from tilewright.api.call import check_grouped, check_types
from tilewright.api.request import Request, dtype_name
from tilewright.core.dtypes import default_result
from tilewright.core.errors import ArrayError, DtypeError
from tilewright.frameworks.torch.arrays import numpy_name
from tilewright.frameworks.torch.library import LIBRARY, call_operator, check_devices, check_tensors, register

_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout)
_NAME, _OUTER_NAME = "tilewright::grouped_matmul", "tilewright::grouped_outer"

LIBRARY.define(
    "grouped_matmul(Tensor a, Tensor b, Tensor offsets, ScalarType? out_dtype=None, bool zero_rest=False) -> Tensor",
    tags=_TAGS,
)
LIBRARY.define("grouped_outer(Tensor a, Tensor dy, Tensor offsets) -> Tensor", tags=_TAGS)

grouped_op: Any = torch.ops.tilewright.grouped_matmul.default
"""Rows of each group of a with the group's matrix of b, as a new row-major tensor. zero_rest: rows that belong to no
group are zeros; else they are undefined."""

outer_op: Any = torch.ops.tilewright.grouped_outer.default
"""a[g]^T @ dy[g] of each group g, groups x k x n elements of a's type; zeros where a group has no rows."""


def grouped_matmul(
    a: Any, b: Any, offsets: Any, *, out: Any = None, out_dtype: Any = None, config: Any = None, engine: Any = None
) -> Any:
    """`tilewright.grouped_matmul` through the operator.

    Raises:
        ArrayError: an out, a config or an engine is named, or arrays do not fit.
        DtypeError: as `tilewright.grouped_matmul`.
    """
    check_tensors(a, b=b, offsets=offsets, out=out)
    if not (out is None and config is None and engine is None):
        raise ArrayError(
            "out, config and engine cannot be named where PyTorch records a gradient or compiles, casts (autocast) "
            "or maps: leave them out, or call grouped_matmul outside of that, under torch.no_grad()"
        )
    dtype = dtype_name(out_dtype)
    typed = None if dtype is None else getattr(torch, dtype)
    return call_operator(grouped_op, {"a": a, "b": b, "offsets": offsets}, a, b, offsets, typed)


def _result(a: Any, out_dtype: Any) -> Any:
    """Element type of a result."""
    return getattr(torch, default_result(numpy_name(a.dtype))) if out_dtype is None else out_dtype


def _multiply(a: Any, b: Any, offsets: Any, out_dtype: Any = None, zero_rest: bool = False) -> Any:
    result = _result(a, out_dtype)
    out = a.new_zeros(a.shape[0], b.shape[-1], dtype=result) if zero_rest else None
    if (found := front.launched_groups(a, b, offsets, out, result)) is not None:
        return found
    arrays = {"a": a, "b": b, "c": None, "out": out, "bias": None, "offsets": offsets}
    return front.multiply_groups(Request(result), library_of("a", a), arrays)


def _shape_of(a: Any, b: Any, offsets: Any, out_dtype: Any = None, zero_rest: bool = False) -> Any:
    """A new tensor as the result is, whose elements nobody knows."""
    check_devices(a, b=b, offsets=offsets)
    check_grouped(a.shape, b.shape, offsets.shape)
    check_types(numpy_name(a.dtype), numpy_name(b.dtype), grouped=True)
    if offsets.dtype != torch.int32:
        raise DtypeError(f"offsets must have element type int32, got {numpy_name(offsets.dtype)}")
    return a.new_empty((a.shape[0], b.shape[2]), dtype=_result(a, out_dtype))


def _multiply_outer(a: Any, dy: Any, offsets: Any) -> Any:
    result = a.new_empty(offsets.shape[0], a.shape[1], dy.shape[1])
    begin = 0
    for matrix, end in zip(result, offsets.tolist(), strict=True):
        torch.mm(a[begin:end].mT, dy[begin:end], out=matrix)
        begin = end
    return result


def _shape_of_outer(a: Any, dy: Any, offsets: Any) -> Any:
    check_devices(a, dy=dy, offsets=offsets)
    return a.new_empty((offsets.shape[0], a.shape[1], dy.shape[1]))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    first, second, offsets, *_ = inputs
    ctx.save_for_backward(
        first if ctx.needs_input_grad[1] else None, second if ctx.needs_input_grad[0] else None, offsets
    )
    ctx.dtype = first.dtype


def _backward(ctx: Any, dy: Any) -> tuple[Any, ...]:
    a, b, offsets = ctx.saved_tensors
    dy = dy.to(ctx.dtype)
    da = None if b is None else grouped_op(dy, b.mT, offsets, None, True)
    db = None if a is None else outer_op(a, dy, offsets)
    return da, db, None, None, None


def _backward_of_outer(ctx: Any, d: Any) -> tuple[Any, ...]:
    a, dy, offsets = ctx.saved_tensors
    da = None if dy is None else grouped_op(dy, d.mT, offsets, None, True)
    return da, None if a is None else grouped_op(a, d, offsets, None, True), None


def _cast(dtype: Any, a: Any, b: Any, *others: Any) -> Any:
    """A product under autocast: factors in autocast's type."""
    a, b = (one.to(dtype) if one.is_floating_point() else one for one in (a, b))
    return grouped_op(a, b, *others)


register("grouped_matmul", _multiply, _cast)
for _key in ("CPU", "CUDA"):
    LIBRARY.impl("grouped_outer", _multiply_outer, _key)
torch.library.register_fake(_NAME, _shape_of, lib=LIBRARY)
torch.library.register_fake(_OUTER_NAME, _shape_of_outer, lib=LIBRARY)
torch.library.register_autograd(_NAME, _backward, setup_context=_save, lib=LIBRARY)
torch.library.register_autograd(_OUTER_NAME, _backward_of_outer, setup_context=_save, lib=LIBRARY)
