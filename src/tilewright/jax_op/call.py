"""A call of `matmul` with arrays of JAX: checked as any other call, then the primitive."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from tilewright.arrays.jax import is_traced
from tilewright.arrays.libraries import JAX
from tilewright.calls import Call, Request, check_library
from tilewright.errors import ArrayError
from tilewright.jax_op import lowering  # noqa: F401 - says how the primitive runs
from tilewright.jax_op.product import Kind, finished, product
from tilewright.problem import Scalars
from tilewright.shapes import result_shape


def multiply(request: Request, arrays: Mapping[str, Any], scalars: Scalars) -> Any:
    """activation(alpha * a @ b + beta * c + bias) of arrays, traced or not; see `matmul`.

    Raises:
        ArrayError, DtypeError, ProblemError: they do not fit each other, or are of another library.
    """
    a = arrays["a"]
    operands: dict[str, Any] = dict.fromkeys(arrays)
    for name, array in arrays.items():
        if array is not None or name in ("a", "b"):
            check_library(name, array, a)
            operands[name] = JAX.shown(name, array)
    if request.engine is not None and any(map(is_traced, arrays.values())):
        raise ArrayError("engine must be left out where values are traced: XLA multiplies where it runs the program")
    call = Call(request, JAX, None, 0, **operands, scalars=scalars)
    call.check()
    kind = Kind(call.arithmetic.result, scalars.alpha, call.side, request.activation, request.rung)
    c = arrays["c"] if call.reads_c else None
    return _multiply(a, arrays["b"], c, arrays["bias"], kind, scalars.beta)


def _multiply(a: Any, b: Any, c: Any, bias: Any, kind: Kind, beta: float) -> Any:
    first, second = a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b
    bias = None if bias is None else bias.reshape(-1)
    if kind.alpha != 0 and c is None:
        return _shaped(product(first, second, bias, kind), a, b)
    if kind.alpha != 0:
        sums = product(first, second, None, kind.of_sums)
    else:
        sums = jnp.zeros(result_shape(first.shape, second.shape)[1], "float32")
    if c is not None:
        sums = sums + jnp.float32(beta) * c.astype("float32").reshape(sums.shape)
    return _shaped(finished(sums, bias, kind), a, b)


def _shaped(result: Any, a: Any, b: Any) -> Any:
    """A result without the dimensions that vectors were given."""
    axes = [axis for axis, factor in ((-2, a), (-1, b)) if factor.ndim == 1]
    return jnp.squeeze(result, axes) if axes else result
