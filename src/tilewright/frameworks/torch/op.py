"""The operator tilewright::matmul: matmul() as PyTorch records it for gradients, compiles and exports it.

    matmul(...)             matmul's arguments, checked; writes `out`
        tilewright::matmul      one functional operator
            Autocast            casts, as for torch.mm
            vmap                one product of a batch
            Autograd            gradients.py
            CPU, CUDA           multiplies
            Meta                the result's shape and type
            DTensor             sharding.py; each rank's part of the product is this operator again

It is defined by `Library.define` and `impl`: `torch.library.custom_op` costs the host more in every call.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tilewright.api import front
from tilewright.api.arrays.libraries import library_of
from tilewright.api.call import check_complex, missing_c
from tilewright.api.formulate import check_shapes, side_of
from tilewright.api.request import Request, check_activation, check_batch_invariant, dtype_name, promise_of, scalars_of
from tilewright.core.dtypes import COMPLEX, INT8, RESULTS, default_result, multiplied, results_of
from tilewright.core.errors import ArrayError, DtypeError, ProblemError
from tilewright.core.problem import Arithmetic
from tilewright.frameworks.torch import gradients, library, sharding
from tilewright.frameworks.torch.arrays import numpy_name
from tilewright.frameworks.torch.library import LIBRARY, NAME, Arguments, launched, matmul_op


def matmul(
    arrays: Mapping[str, Any], request: Request, alpha: Any, beta: Any, devices: Any = None, memory_limit: Any = None
) -> Any:
    """`tilewright.matmul` through the operator.

    Args:
        arrays: a, b, c, out and bias.
        request: what is asked, as given; no fast_accumulate.
        alpha, beta, devices, memory_limit: as `tilewright.matmul` takes them.

    Raises:
        ArrayError: a kernel, config or engine is named, a gradient is wanted of what is written to `out`, or arrays do
            not fit.
        DtypeError, ProblemError: as `tilewright.matmul`.
    """
    a, b, bias, c, out = (arrays[name] for name in ("a", "b", "bias", "c", "out"))
    library.check_tensors(a, b=b, bias=bias, c=c, out=out)
    if not (request.kernel is request.config is request.engine is devices is memory_limit is None):
        raise ArrayError(
            "kernel, config, engine, devices and memory_limit cannot be named where PyTorch records a gradient or "
            "compiles, casts (autocast) or maps: leave them out, or call matmul outside of that, under torch.no_grad()"
        )
    scalars, promise = scalars_of(alpha, beta), promise_of(request.precision)
    sharding.register()
    check_batch_invariant(request.batch_invariant)
    dtype = dtype_name(request.out_dtype) or (None if out is None else dtype_name(out.dtype))
    typed = None if dtype is None else getattr(torch, dtype)
    wants = torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in (out, a, b, bias, c))
    if wants and out is not None:
        raise ArrayError("out cannot be given where a gradient is recorded: leave it out, or use torch.no_grad()")
    if scalars.factor_b != 1:
        if not b.is_complex():
            raise ProblemError(f"alpha must be a number, got {scalars.factor_b!r}: it may be complex where a is")
        b = b * scalars.factor_b
    settings = (scalars.alpha, scalars.beta, request.activation, typed, promise, request.batch_invariant)
    result = library.call_operator(matmul_op, {"a": a, "b": b, "bias": bias, "c": c}, a, b, bias, c, *settings)
    if out is None:
        return result
    _check_out(out, result)
    return library.call_operator(out.copy_, {"out": out}, result)


def _check_out(out: Any, result: Any) -> None:
    if out.dtype != result.dtype:
        raise DtypeError(f"out must have the result's element type {result.dtype}: got {out.dtype}")
    if out.shape != result.shape:
        raise ArrayError(f"out must have the result's shape {tuple(result.shape)}, got {tuple(out.shape)}")


def _multiply(*arguments: Any) -> Any:
    if (result := launched(*arguments)) is not None:
        return result
    call = Arguments(*arguments)
    arrays = {"a": call.a, "b": call.b, "c": call.c, "out": None, "bias": call.bias}
    request = call.request
    return front.multiply(request, library_of("a", call.a), arrays, call.alpha, call.beta, request.key)


def _shape_of(*arguments: Any) -> Any:
    """A new tensor as the result is, whose elements nobody knows."""
    call = Arguments(*arguments)
    a, b, bias, c, *_ = call
    library.check_devices(a, b=b, bias=bias, c=c)
    of_a, of_b = numpy_name(a.dtype), numpy_name(b.dtype)
    result = getattr(torch, default_result(of_a)) if call.out_dtype is None else call.out_dtype
    factors = "a", "b"
    second = b.dtype if multiplied(of_a, of_b) else a.dtype
    for name, array, dtype in (("a", a, a.dtype), ("b", b, second), ("bias", bias, result), ("c", c, result)):
        known = (*RESULTS, COMPLEX, *INT8) if name in factors else (COMPLEX,) if a.is_complex() else results_of(of_a)
        if array is not None and (array.dtype != dtype or numpy_name(dtype) not in known):
            raise DtypeError(
                f"{name} must have element type {numpy_name(dtype)}, one of {', '.join(known)}: "
                f"got {numpy_name(array.dtype)}"
            )
    check_activation(call.activation)
    if a.is_complex():
        promise_of(call.precision)
        side = None if bias is None else side_of(bias.shape, a.shape, b.shape)
        check_complex(call.activation, numpy_name(result), side)
    else:
        Arithmetic(of_a, numpy_name(result), call.precision, of_b=of_b)  # refuses what is unknown
    if call.beta != 0 and c is None:
        raise missing_c(call.beta)
    shape = check_shapes(a.shape, b.shape, None if bias is None else bias.shape, c=None if c is None else c.shape)
    return a.new_empty(shape, dtype=result)


def _cast(dtype: Any, *arguments: Any) -> Any:
    """A product under autocast: factors in autocast's type, as torch.mm casts them; bias and c in the result's.

    A precision is of float32 factors, so it has no say where they are cast to another type.
    """
    call = Arguments(*arguments)

    def cast(array: Any, to: Any) -> Any:
        return array.to(to) if array.is_floating_point() and array.dtype != torch.float64 else array

    result = call.out_dtype or (call.a.dtype if call.a.is_complex() else dtype)
    bias, c = (None if array is None else cast(array, result) for array in (call.bias, call.c))
    precision = call.precision if dtype == torch.float32 or call.a.is_complex() else None
    a, b = cast(call.a, dtype), cast(call.b, dtype)
    return matmul_op(*call._replace(a=a, b=b, bias=bias, c=c, precision=precision))


def _batched(info: Any, in_dims: Sequence[int | None], *arguments: Any) -> tuple[Any, int]:
    """The product of arguments of which some have a dimension that is mapped over: in_dims says which.

    A bias for every product of the map, and c, are added by PyTorch.

    Returns:
        the result, and where its mapped dimension is.
    """
    call = Arguments(*arguments)
    of_a, of_b, of_bias, of_c = (*in_dims, None, None)[:4]
    rank_a, rank_b = call.a.dim() - (of_a is not None), call.b.dim() - (of_b is not None)
    of_rows, of_cols, rank = rank_a == 1, rank_b == 1, max(rank_a, rank_b, 2)

    def lifted(array: Any, dim: int | None, row: bool, column: bool) -> Any:
        """The array as matrices; where it is mapped, that dimension comes first, before `rank` others."""
        array = array if dim is None else array.movedim(dim, 0)
        array = array.unsqueeze(-1) if column else array
        array = array.unsqueeze(-2) if row else array
        return array if dim is None else array[(slice(None), *[None] * (rank + 1 - array.dim()))]

    a, b = lifted(call.a, of_a, of_rows, False), lifted(call.b, of_b, False, of_cols)
    adds_c = call.c is not None and call.beta != 0
    if of_bias is None and not adds_c and (of_a, of_b) != (None, None):
        result = matmul_op(*call._replace(a=a, b=b, c=None))
    else:
        settings = {"out_dtype": call.out_dtype, "precision": call.precision, "batch_invariant": call.batch_invariant}
        result = matmul_op(a, b, alpha=call.alpha, **settings)
        if adds_c:
            beta = call.beta if result.is_floating_point() else int(call.beta)  # else PyTorch adds in float32
            result = result + beta * lifted(call.c, of_c, of_rows, of_cols)
        if call.bias is not None:
            result = result + lifted(call.bias, of_bias, call.bias.dim() - (of_bias is not None) == 1, False)
        if call.activation is not None:
            result = library.ACTIVATIONS[call.activation](result)
    result = result.squeeze(-2) if of_rows else result
    return (result.squeeze(-1) if of_cols else result), 0


library.register("matmul", _multiply, _cast)
LIBRARY.impl("matmul", gradients.matmul, "Autograd", with_keyset=True)
LIBRARY.impl("matmul", torch.library.fallthrough_kernel, "Conjugate")  # factors are conjugated as they are read
torch.library.register_fake(NAME, _shape_of, lib=LIBRARY)
torch.library.register_vmap(NAME, _batched, lib=LIBRARY)
sharding.register()
