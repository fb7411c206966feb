"""Derivatives of tilewright::matmul, backward and forward, of any order: products of the same operator.

    y = f(z)    z = alpha * a @ b + beta * c + bias

    backward    dz = f'(z) dy    da = alpha * dz @ b^H    db = alpha * a^H @ dz    dc = beta * dz    dbias = sums of dz
    forward     y' = f'(z) (alpha * (a' @ b + a @ b') + beta * c' + bias')

All of them promise what the call does: its precision and, each for its own rows, batch invariance. Transposed factors
are used in place. A factor that serves a batch gets the sum over the batch; for a batch of a against one b this is one
product, whose k runs over all rows of the batch.

relu is fused, since its derivative follows from y. The others' follow from z: there the activation is PyTorch's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from tilewright.api.request import check_activation
from tilewright.frameworks.torch.library import ACTIVATIONS, Arguments, launched, matmul_op, next_to_result

_Modes = tuple[bool, bool]
"""Whether backward and forward derivatives are recorded."""


def matmul(keys: Any, *arguments: Any) -> Any:
    """The operator, recorded where a derivative is wanted.

    Else the compiled launcher answers first: it misses what is recorded, and saves the dispatcher's way to the kernel.
    """
    wanted = torch.is_grad_enabled() and _wants_gradient(*arguments)
    if not wanted and (result := launched(*arguments)) is not None:
        return result
    call = Arguments(*arguments)
    if torch._C._are_functorch_transforms_active():
        modes = torch.is_grad_enabled(), torch._C._is_fwd_grad_enabled()
        with enable_single_level_autograd_function():
            return _recorded(call, modes)
    if wanted or forward_ad._current_level >= 0:
        return _recorded(call, None)
    return matmul_op.redispatch(keys & _BELOW, *arguments)


_BELOW = torch._C._after_autograd_keyset


def _wants_gradient(a: Any, b: Any, bias: Any = None, c: Any = None, *_: Any) -> bool:
    factors = a.requires_grad or b.requires_grad
    return bool(factors or (bias is not None and bias.requires_grad) or (c is not None and c.requires_grad))


def _recorded(call: Arguments, modes: _Modes | None) -> Any:
    if call.activation in (None, "relu"):
        return _MatmulFunction.apply(*call, modes)
    check_activation(call.activation)
    return ACTIVATIONS[call.activation](_MatmulFunction.apply(*call._replace(activation=None), modes))


class _MatmulFunction(_SingleLevelFunction):
    """The operator with its derivatives, at one level of torch.func's transforms; the levels below record their own."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *given, modes = arguments
        call = Arguments(*given)
        a, b, bias, *_ = call
        if modes is None:
            result = launched(*given)
            if result is None:
                with torch._C._AutoDispatchBelowAutograd():
                    result = matmul_op(*call)
        else:
            with torch._C._AutoDispatchBelowAutograd(), _recording(modes):
                result = matmul_op(*call)
        y = None if call.activation is None else result
        ctx.save_for_backward(a if ctx.needs_input_grad[1] else None, b if ctx.needs_input_grad[0] else None, y)
        if modes is not None or forward_ad._current_level >= 0:
            ctx.save_for_forward(a, b, y)
        ctx.shapes = a.shape, b.shape, None if bias is None else bias.shape, result.shape
        ctx.dtype, ctx.alpha, ctx.beta, ctx.out_dtype, ctx.modes = a.dtype, call.alpha, call.beta, call.out_dtype, modes
        ctx.promised = {"precision": call.precision, "batch_invariant": call.batch_invariant}
        return result

    @staticmethod
    def backward(ctx: Any, dy: Any) -> tuple[Any, ...]:
        a, b, y = ctx.saved_tensors
        shape_a, shape_b, shape_bias, _ = ctx.shapes
        for_a, for_b, for_bias, for_c, *_ = ctx.needs_input_grad
        dz = dy if y is None else _through_relu(dy, y)
        matrix = dz.unsqueeze(-1) if len(shape_b) == 1 else dz
        matrix = matrix.unsqueeze(-2) if len(shape_a) == 1 else matrix
        factor = matrix if matrix.dtype == ctx.dtype else matrix.to(ctx.dtype)
        da = db = dbias = dc = None
        if for_a:
            b = b.unsqueeze(-1) if len(shape_b) == 1 else b
            da = _summed(matmul_op(factor, b.mH, alpha=ctx.alpha, **ctx.promised), shape_a)
        if for_b:
            a = a.unsqueeze(0) if len(shape_a) == 1 else a
            if len(shape_b) < 3 and a.dim() > 2:
                a, factor = a.flatten(0, -2), factor.flatten(0, -2)
            db = matmul_op(a.mH, factor, alpha=ctx.alpha, **ctx.promised)
            db = _summed(db.squeeze(-1) if len(shape_b) == 1 else db, shape_b)
        if for_bias:
            dbias = _summed(matrix, shape_bias)
        if for_c and ctx.beta != 0:
            dc = dz * ctx.beta
        return da, db, dbias, dc, None, None, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, da: Any, db: Any, dbias: Any, dc: Any, *_: Any) -> Any:
        with _recording(ctx.modes):
            a, b, y = (None if one is None else torch._VF._unpack_dual(one, level=0)[0] for one in ctx.saved_tensors)
            settings = {"alpha": ctx.alpha, "out_dtype": ctx.out_dtype, **ctx.promised}
            parts = []
            if da is not None:
                parts.append(matmul_op(da, b, **settings))
            if db is not None:
                parts.append(matmul_op(a, db, **settings))
            if dc is not None and ctx.beta != 0:
                parts.append(dc * ctx.beta)
            if dbias is not None:
                parts.append(next_to_result(dbias, a, b))
            dz = sum(parts[1:], parts[0]) if parts else torch.zeros_like(dc)
            dz = dz.expand(ctx.shapes[-1])
            return dz if y is None else _through_relu(dz, y)


def _summed(gradient: Any, shape: Any) -> Any:
    """A gradient summed over what was broadcast from a shape."""
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)


@contextmanager
def _recording(modes: _Modes | None) -> Iterator[None]:
    """Record derivatives as the caller did, for levels below; a custom function is called with none recorded."""
    if modes is None:
        yield
        return
    backward, forward = modes
    with torch.set_grad_enabled(backward), forward_ad._set_fwd_grad_enabled(forward):
        yield


def _through_relu(d: Any, y: Any) -> Any:
    return torch.ops.aten.threshold_backward(d, y, 0)
