"""A call of `matmul` with arrays of JAX that XLA multiplies: checked as any other call, then the primitive."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from tilewright.api.arrays.libraries import library_of
from tilewright.api.call import Call, check_library
from tilewright.api.formulate import result_shape
from tilewright.api.request import Request, scalars_of
from tilewright.core.errors import ArrayError
from tilewright.frameworks.jax import lowering  # noqa: F401 - says how the primitive runs
from tilewright.frameworks.jax.arrays import JAX
from tilewright.frameworks.jax.product import Kind, finished, product


def matmul(arrays: Mapping[str, Any], request: Request, alpha: Any, beta: Any) -> Any:
    """`tilewright.matmul` of arrays that are traced or lie on a GPU.

    alpha and beta are numbers, not traced values. A kernel that is named computes the product, and the best ones known
    its derivatives. c is added by XLA, after the product and in the type of sums.

    Args:
        arrays: a, b, c, out and bias.
        request: what is asked, as given; no fast_accumulate.
        alpha, beta: as `tilewright.matmul` takes them.

    Raises:
        ArrayError: an engine is named, the arrays do not fit each other, or are of another library.
        DtypeError, ProblemError, ConfigError, KernelNotFoundError: as `tilewright.matmul`.
    """
    if request.engine is not None:
        raise ArrayError(
            "engine must be left out for arrays of JAX that are traced or lie on a GPU: XLA runs the product"
        )
    request, a = request.checked(), arrays["a"]
    library = library_of("a", a)
    operands: dict[str, Any] = {}
    for name, array in arrays.items():
        given = array is not None or name in ("a", "b")
        if given:
            check_library(name, array, library, a)
        operands[name] = JAX.shown(name, array) if given else None
    call = Call(request, JAX, None, 0, **operands, scalars=scalars_of(alpha, beta))
    call.check()
    kind = Kind(request._replace(out_dtype=call.result), call.scalars.alpha, call.side)
    c = arrays["c"] if call.scalars.beta else None
    b = arrays["b"] if call.scalars.factor_b == 1 else jnp.complex64(call.scalars.factor_b) * arrays["b"]
    return _multiply(a, b, c, arrays["bias"], kind, call.scalars.beta)


def _multiply(a: Any, b: Any, c: Any, bias: Any, kind: Kind, beta: float) -> Any:
    first, second = a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    bias = None if bias is None else bias.reshape(-1)
    if kind.alpha != 0 and c is None:
        return _shaped(product(first, second, bias, kind), a, b)
    if kind.alpha != 0:
        sums = product(first, second, None, kind.of_sums)
    else:
        sums = jnp.zeros(result_shape(first.shape, second.shape)[1], kind.sums)
    if c is not None:
        sums = sums + kind.scalar(beta) * c.astype(kind.sums).reshape(sums.shape)
    return _shaped(finished(sums, bias, kind), a, b)


def _shaped(result: Any, a: Any, b: Any) -> Any:
    """A result without the dimensions that vectors were given."""
    axes = [axis for axis, factor in ((-2, a), (-1, b)) if factor.ndim == 1]
    return jnp.squeeze(result, axes) if axes else result
