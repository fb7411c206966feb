"""all_gather_matmul and matmul_reduce_scatter: their arguments, checked, and their gradients.

A_shard -> A = all ranks' shards -> A @ B              backward: dA_shard is a matmul_reduce_scatter of dy and B^T
A @ B -> its sum over ranks -> this rank's part        backward: dA is an all_gather_matmul of dy and B^T
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from tilewright.api.formulate import size
from tilewright.api.front import matmul
from tilewright.core.dtypes import RESULTS
from tilewright.core.errors import ArrayError, DtypeError, ProblemError
from tilewright.core.problem import precision_of
from tilewright.frameworks.torch.arrays import sees_operators
from tilewright.frameworks.torch.distributed import collectives, overlapped
from tilewright.frameworks.torch.distributed.exchange import Exchange, exchange_of

_MOVED = frozenset(getattr(torch, name) for name in RESULTS)
"""Element types of factors that overlapped products have."""

_PLAIN = torch.Tensor, torch.nn.Parameter

_Function = TypeVar("_Function", bound=Callable[..., Any])

_uncompiled: Callable[[_Function], _Function] = getattr(torch, "_disable_dynamo", lambda function: function)
"""torch.compile calls these functions as they are: streams and counters are nothing that it could trace."""


@_uncompiled
def all_gather_matmul(
    A_shard: Any,
    Bs: Sequence[Any],
    gather_dim: int,
    group_name: Any,
    *,
    return_A: bool = True,
    precision: str | None = None,
) -> tuple[Any, list[Any]]:
    """A @ B for each B, where A is what all ranks' shards are together, one behind the other along a dimension.

    The signature is that of torch.ops.symm_mem.fused_all_gather_matmul, and a precision. Every rank of the group calls
    it, with shards of one shape and type. On GPUs of one host that reach each other, shards move by the copy engines
    while others are multiplied; elsewhere, along the last dimension, and in a CUDA graph's capture, A is gathered
    first. Gradients are recorded where they are wanted. The work is ordered in the current stream.

    Args:
        A_shard: ... x m x k elements, of which this rank has a part along gather_dim.
        Bs: matrices of k x n elements, of A_shard's type; n may differ.
        gather_dim: the dimension of A_shard.
        group_name: the name of a process group, or the group itself.
        return_A: whether A is wanted.
        precision: what products of float32 factors promise, as `tilewright.matmul` takes it.

    Returns:
        A, or None where it is not wanted; and the products.

    Raises:
        ArrayError, DtypeError, ProblemError: an argument does not fit; nothing has been launched.
        LaunchError: a rank of the group did not come to an earlier call within the group's timeout.
    """
    group, precision = _group(group_name), precision_of(precision)
    dim = _dimension("gather_dim", gather_dim, A_shard)
    Bs = list(Bs)
    k = A_shard.shape[-1] * (group.size() if dim == A_shard.dim() - 1 else 1)
    for B in Bs:
        _check_factor(A_shard, B, k)
    if torch.is_grad_enabled() and any(one.requires_grad for one in (A_shard, *Bs)):
        whole, *results = _AllGather.apply(A_shard, dim, group, precision, *Bs)
    else:
        whole, results = _all_gather(A_shard, Bs, dim, group, precision, return_A)
    return (whole if return_A else None), list(results)


@_uncompiled
def matmul_reduce_scatter(
    A: Any, B: Any, reduce_op: str, scatter_dim: int, group_name: Any, *, precision: str | None = None
) -> Any:
    """This rank's part, along a dimension, of the sum over all ranks of A @ B.

    The signature is that of torch.ops.symm_mem.fused_matmul_reduce_scatter, and a precision. Every rank of the group
    calls it, with arrays of the same shapes and type. On GPUs of one host that reach each other, parts of the sum go
    from rank to rank by the copy engines while others are multiplied, and each product adds to what came: in the same
    order in every run, rounded to the element type at every rank. Elsewhere, and in a CUDA graph's capture, the product
    is made first. Gradients are recorded where they are wanted. The work is ordered in the current stream.

    Args:
        A: ... x m x k elements.
        B: a matrix of k x n elements, of A's type.
        reduce_op: 'sum', or 'avg' for the mean.
        scatter_dim: dimension of the result, of which each rank gets an equal part.
        group_name: the name of a process group, or the group itself.
        precision: what a product of float32 factors promises, as `tilewright.matmul` takes it.

    Raises:
        ArrayError, DtypeError, ProblemError: an argument does not fit; nothing has been launched.
        LaunchError: a rank of the group did not come to an earlier call within the group's timeout.
    """
    group, precision = _group(group_name), precision_of(precision)
    dim = _dimension("scatter_dim", scatter_dim, A)
    _check_factor(A, B, A.shape[-1])
    if reduce_op not in ("sum", "avg"):
        raise ProblemError(f"reduce_op must be 'sum' or 'avg', got {reduce_op!r}")
    length = (*A.shape[:-1], B.shape[1])[dim]
    if length % group.size():
        raise ArrayError(f"the result's dimension {dim} must divide into {group.size()} parts, got {length}")
    if torch.is_grad_enabled() and (A.requires_grad or B.requires_grad):
        return _ReduceScatter.apply(A, B, reduce_op, dim, group, precision)
    return _reduce_scatter(A, B, reduce_op, dim, group, precision)


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shard: Any, dim: int, group: Any, precision: str | None, *Bs: Any) -> Any:
        whole, results = _all_gather(shard, list(Bs), dim, group, precision, True)
        ctx.save_for_backward(whole, *Bs)
        ctx.set_materialize_grads(False)
        ctx.of = dim, group, precision
        return whole, *results

    @staticmethod
    def backward(ctx: Any, d_whole: Any, *dys: Any) -> Any:
        whole, *Bs = ctx.saved_tensors
        dim, group, precision = ctx.of
        d_shard = None
        if ctx.needs_input_grad[0]:
            given = [(dy, B.mH) for dy, B in zip(dys, Bs, strict=True) if dy is not None]
            parts = [_reduce_scatter(dy, factor, "sum", dim, group, precision) for dy, factor in given]
            parts += [] if d_whole is None else [collectives.scattered(d_whole, "sum", dim, group)]
            d_shard = sum(parts[1:], parts[0]) if parts else None
        wanted = zip(dys, ctx.needs_input_grad[4:], strict=True)
        d_Bs = [_outer(whole, dy, precision) if want and dy is not None else None for dy, want in wanted]
        return d_shard, None, None, None, *d_Bs


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Any, B: Any, op: str, dim: int, group: Any, precision: str | None) -> Any:
        ctx.save_for_backward(A, B)
        ctx.of = op, dim, group, precision
        return _reduce_scatter(A, B, op, dim, group, precision)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        A, B = ctx.saved_tensors
        op, dim, group, precision = ctx.of
        for_A, for_B, *_ = ctx.needs_input_grad
        dy = dy / group.size() if op == "avg" else dy
        whole, products = _all_gather(dy, [B.mH] if for_A else [], dim, group, precision, for_B)
        return products[0] if for_A else None, _outer(A, whole, precision) if for_B else None, None, None, None, None


def _all_gather(
    shard: Any, Bs: list[Any], dim: int, group: Any, precision: str | None, wanted: bool
) -> tuple[Any, list[Any]]:
    if (exchange := _exchange(group, "all_gather", dim, shard, *Bs)) is not None:
        return overlapped.all_gather_matmul(exchange, shard, Bs, dim, precision, wanted)
    with torch.no_grad():
        return collectives.all_gather_matmul(shard, Bs, dim, group, precision)


def _reduce_scatter(A: Any, B: Any, op: str, dim: int, group: Any, precision: str | None) -> Any:
    if (exchange := _exchange(group, "reduce_scatter", dim, A, B)) is not None:
        return overlapped.matmul_reduce_scatter(exchange, A, B, op, dim, precision)
    with torch.no_grad():
        return collectives.matmul_reduce_scatter(A, B, op, dim, group, precision)


def _exchange(group: Any, purpose: str, dim: int, A: Any, *Bs: Any) -> Exchange | None:
    """The exchange that moves shards while others are multiplied; None where collectives have to, and where PyTorch, or
    a type of its own, is to see the products or to cast their factors."""
    if dim == A.dim() - 1 or A.dtype not in _MOVED or sees_operators(torch) or _is_cast(A):
        return None
    if any(type(one) not in _PLAIN or one.is_neg() for one in (A, *Bs)):
        return None
    return exchange_of(group, A, purpose)


def _is_cast(A: Any) -> bool:
    """Whether autocast gives a factor another type."""
    kind = A.device.type
    return bool(torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) != A.dtype)


def _outer(A: Any, dy: Any, precision: str | None) -> Any:
    """The gradient of B, of A and the gradient of A @ B: one product over all rows."""
    return matmul(A.flatten(0, -2).mH, dy.flatten(0, -2), precision=precision)


def _group(named: Any) -> Any:
    """The process group of this name."""
    from torch.distributed import distributed_c10d as c10d  # noqa: PLC0415 - not in every build of PyTorch

    if not isinstance(named, str):
        return named
    try:
        return c10d._resolve_process_group(named)
    except (RuntimeError, ValueError) as error:
        raise ProblemError(f"group_name must be the name of a process group, got {named!r}: {error}") from error


def _dimension(argument: str, dim: int, A: Any) -> int:
    if not isinstance(A, torch.Tensor) or A.dim() < 2:
        raise ArrayError(f"A must be a tensor of 2 or more dimensions, got {getattr(A, 'shape', type(A).__name__)}")
    if not -A.dim() <= dim < A.dim():
        raise ArrayError(f"{argument} must be a dimension of {size(A.shape)}, got {dim}")
    return dim % len(A.shape)


def _check_factor(A: Any, B: Any, k: int) -> None:
    if not isinstance(B, torch.Tensor) or B.dim() != 2:
        raise ArrayError(f"B must be a matrix, got {getattr(B, 'shape', type(B).__name__)}")
    if B.shape[0] != k:
        raise ArrayError(f"B must have {k} rows, as A has columns: got {size(B.shape)}")
    if B.dtype != A.dtype:
        raise DtypeError(f"B must have the element type of A: got {B.dtype}, and {A.dtype} for A")
    if B.device != A.device:
        raise ArrayError(f"B must lie where A does: got {B.device}, and {A.device} for A")
