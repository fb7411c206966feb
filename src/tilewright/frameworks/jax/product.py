"""The product as a primitive of JAX: its shape, its derivatives, its batches.

    product(a, b, bias) = activation(alpha * a @ b + bias)          a is ... x m x k, b is ... x k x n

It is linear in a and in b, so derivatives are products too, of factors that are transposed without a copy: lowering.py
reads a transposed operand where it lies.
"""

import math
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching
from jax.sharding import NamedSharding, PartitionSpec

from tilewright.api.formulate import result_shape
from tilewright.api.request import Request
from tilewright.core.dtypes import COMPLEX, SUMS_OF_INT8
from tilewright.core.errors import ArrayError
from tilewright.core.problem import Side


class Kind(NamedTuple):
    """Parameters of the primitive: the product that it computes, besides shapes."""

    request: Request
    """Checked. Its out_dtype is that of the result and of the bias; derivatives promise what it does, each batch
    invariance for its own rows, and take the best kernel."""
    alpha: float = 1.0
    """Not 0."""
    side: Side | None = None
    """Side of the result that the bias belongs to; None where there is no bias."""

    def asking(self, **changed: Any) -> "Kind":
        """This kind with a request that differs."""
        return self._replace(request=self.request._replace(**changed))

    @property
    def sums(self) -> str:
        """Element type that the epilogue is computed in: float32, or of complex64 and int32 results theirs."""
        named = self.request.out_dtype
        return named if named in (COMPLEX, SUMS_OF_INT8) else "float32"

    def scalar(self, value: float) -> Any:
        """alpha or beta, of a type that leaves sums theirs."""
        return np.int32(value) if self.sums == SUMS_OF_INT8 else np.float32(value)

    @property
    def of_sums(self) -> "Kind":
        """This kind without its epilogue: sums as it computes with them."""
        return self.asking(out_dtype=self.sums, activation=None)._replace(side=None)


def product(a: Any, b: Any, bias: Any, kind: Kind) -> Any:
    """activation(alpha * a @ b + bias).

    Args:
        a, b: arrays of at least two dimensions and one element type; their batches broadcast.
        bias: as many elements as the result has columns or rows, as kind.side says; None for none.
        kind: what is computed.
    """
    return product_p.bind(*_varying_alike(a, b, *(() if bias is None else (bias,))), kind=kind)


def _varying_alike(*operands: Any) -> list[Any]:
    """Operands that differ along the same axes of a mesh: inside `jax.shard_map`, the gradient of one that is the same
    on all devices is a sum over them, which is the derivative of this.
    """
    varying = [jax.typeof(operand).manual_axis_type.varying for operand in operands]
    together = frozenset().union(*varying)
    return [
        jax.lax.pcast(operand, tuple(together - own), to="varying") if together - own else operand
        for operand, own in zip(operands, varying, strict=True)
    ]


def finished(sums: Any, bias: Any, kind: Kind) -> Any:
    """The epilogue of sums, by XLA. A bias may have dimensions of a batch, which broadcast."""
    if bias is not None:
        sums = sums + _along(bias, kind.side).astype(sums.dtype)
    if kind.request.activation is not None:
        sums = _ACTIVATIONS[kind.request.activation](sums)
    return sums.astype(kind.request.out_dtype)


_ACTIVATIONS = {
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "silu": jax.nn.silu,
}


def _along(bias: Any, side: Side | None) -> Any:
    return jnp.expand_dims(bias, -1 if side == "column" else -2)


def _shape(a: Any, b: Any, *bias: Any, kind: Kind) -> Any:
    _, shape = result_shape(a.shape, b.shape)
    return a.update(shape=shape, dtype=jnp.dtype(kind.request.out_dtype), weak_type=False, sharding=_sharding(a, b))


def _sharding(a: Any, b: Any) -> NamedSharding:
    """Sharding of the result, as far as the types of arrays have one: along axes of a mesh that are explicit.

    Raises:
        ArrayError: no result follows from how the factors are sharded.
    """
    batch, _ = result_shape(a.shape, b.shape)
    of_a, of_b = ((*(None,) * (len(batch) + 2 - one.ndim), *one.sharding.spec) for one in (a, b))
    of_k = {of_a[-1], of_b[-2]} - {None}
    of_batch = [{*pair} - {None} for pair in zip(of_a[:-2], of_b[:-2], strict=True)]
    spec = [*(next(iter(one), None) for one in of_batch), of_a[-2], of_b[-1]]
    axes = [axis for one in (*spec, *of_k) for axis in (one if isinstance(one, tuple) else (one,)) if axis is not None]
    if max(map(len, (*of_batch, of_k))) > 1 or len(axes) > len(set(axes)):
        raise ArrayError(
            "the sharding of a product must follow from those of its factors: a is sharded as "
            f"{a.sharding.spec} and b as {b.sharding.spec}: jax.reshard one of them"
        )
    return NamedSharding((b if a.sharding.mesh.empty else a).sharding.mesh, PartitionSpec(*spec))


def _jvp(primals: Any, tangents: Any, *, kind: Kind) -> Any:
    if kind.request.activation is not None:
        return _jvp_of(partial(_activated_separately, kind=kind), primals, tangents)
    a, b, *_ = primals
    result = product_p.bind(*primals, kind=kind)
    linear = kind.asking(kernel=None, config=None)._replace(side=None)
    terms = []
    for factors, tangent in (((tangents[0], b), tangents[0]), ((a, tangents[1]), tangents[1])):
        if type(tangent) is not ad.Zero:
            terms.append(product_p.bind(*factors, kind=linear))
    biases = [tangent for tangent in tangents[2:] if type(tangent) is not ad.Zero]
    terms += [jnp.broadcast_to(_along(tangent, kind.side), result.shape) for tangent in biases]
    return result, reduce(jnp.add, terms)


def _activated_separately(a: Any, b: Any, *bias: Any, kind: Kind) -> Any:
    """The product with its activation by XLA, which can differentiate it."""
    sums = kind.asking(out_dtype="float32", activation=None)
    values = product_p.bind(a, b, *(one.astype("float32") for one in bias), kind=sums)
    return finished(values, None, kind)


def _jvp_of(function: Any, primals: Any, tangents: Any) -> Any:
    """A function's derivative along those tangents that are not known to be 0."""
    moving = [i for i, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]

    def of_moving(*values: Any) -> Any:
        operands = list(primals)
        for i, value in zip(moving, values, strict=True):
            operands[i] = value
        return function(*operands)

    return jax.jvp(of_moving, [primals[i] for i in moving], [tangents[i] for i in moving])


def _transpose(cotangent: Any, a: Any, b: Any, *, kind: Kind) -> Any:
    of_a = ad.is_undefined_primal(a)
    if type(cotangent) is ad.Zero:
        return [ad.Zero(a.aval) if of_a else None, None if of_a else ad.Zero(b.aval)]
    if not of_a:
        return [None, _towards_b(cotangent, a, b.aval, kind)]
    cotangent, b = _alike(cotangent, b)
    return [_summed(cotangent, jnp.matrix_transpose(b), a.aval, kind), None]


def _towards_b(cotangent: Any, a: Any, b: Any, kind: Kind) -> Any:
    """The cotangent of b: a transposed @ cotangent; of one b for a whole batch, one product of all rows."""
    cotangent, a = _alike(cotangent, a)
    if math.prod(b.shape[:-2]) == 1 and a.shape[:-2] == cotangent.shape[:-2]:
        a, cotangent = (one.reshape(math.prod(one.shape[:-1]), one.shape[-1]) for one in (a, cotangent))
    return _summed(jnp.matrix_transpose(a), cotangent, b, kind)


def _summed(a: Any, b: Any, like: Any, kind: Kind) -> Any:
    """alpha * a @ b, added up over what `like` was broadcast along."""
    batch, shape = result_shape(a.shape, b.shape)
    whole = math.prod(batch) == math.prod(like.shape[:-2])
    result = str(like.dtype) if whole else kind.sums
    promised = kind.of_sums.asking(out_dtype=result, kernel=None, config=None)
    values = product_p.bind(a, b, kind=promised)
    if not whole:
        sizes = (1,) * (len(shape) - len(like.shape)) + tuple(like.shape)
        values = values.sum([i for i, (size, kept) in enumerate(zip(shape, sizes, strict=True)) if size != kept])
    values = values.reshape(like.shape).astype(like.dtype)
    return values if jax.typeof(values).sharding == like.sharding else jax.sharding.reshard(values, like.sharding)


def _alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Two factors of one element type; float32 where they have different ones."""
    return (x, y) if x.dtype == y.dtype else (x.astype("float32"), y.astype("float32"))


def _batched(operands: Any, axes: Any, *, kind: Kind) -> Any:
    a, b, *bias = operands
    rank = max(operand.ndim - (axis is not None) for operand, axis in zip((a, b), axes, strict=False))
    factors = [_batch_first(operand, axis, rank) for operand, axis in zip((a, b), axes, strict=False)]
    if not bias or axes[2] is None:
        return product_p.bind(*factors, *bias, kind=kind), 0
    sums = product_p.bind(*factors, kind=kind.of_sums)
    return finished(sums, _batch_first(bias[0], axes[2], rank - 1), kind), 0


def _batch_first(operand: Any, axis: int | None, rank: int) -> Any:
    """An operand with the dimension of a batch first, and then `rank` others; as it is where it has no batch."""
    if axis is None:
        return operand
    moved = jnp.moveaxis(operand, axis, 0)
    return jnp.expand_dims(moved, tuple(range(1, rank + 2 - moved.ndim)))


product_p = Primitive("tilewright_product")
local_p = Primitive("tilewright_local_product")
"""Primitive that product_p is lowered to: a product of one device's arrays, which XLA divides no further."""
for _primitive in (product_p, local_p):
    _primitive.def_abstract_eval(_shape)
product_p.def_impl(jax.jit(product_p.bind, static_argnames="kind"))
ad.primitive_jvps[product_p] = _jvp
ad.primitive_transposes[product_p] = _transpose
batching.primitive_batchers[product_p] = _batched
