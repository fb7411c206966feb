"""How the product runs: on a GPU as a call of the XLA handler with a plan, elsewhere as XLA's own product.

Plans are made when JAX lowers a program; addresses are not needed, since XLA's buffers begin at multiples of 16 bytes.
The program names a plan by text: kernel, problem and a digest, the same in every process, so that XLA may cache
programs on disk: a process that loads one from there has lowered it, and so has made the plan. Workspace, copies of
operands and counters are one more result of the call: XLA allocates it with everything else, so calls that run at the
same time share nothing.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.dispatch import prim_requires_devices_during_lowering
from jax.core import ShapedArray
from jax.interpreters import mlir

from tilewright.api.arrays.operand import Operand, gpu_operand
from tilewright.api.call import Call, gpu_engine
from tilewright.api.formulate import result_shape
from tilewright.api.gpu import planned_call_of
from tilewright.api.planned_call import PlannedCall
from tilewright.core.dtypes import INT8, ITEM_BYTES, SUMS_OF_INT8
from tilewright.core.errors import EngineUnavailableError
from tilewright.core.problem import Scalars
from tilewright.frameworks.jax.arrays import JAX
from tilewright.frameworks.jax.product import Kind, finished, local_p, product_p
from tilewright.frameworks.jax.sharding import ShardedProduct, divided
from tilewright.runtime import cache, xla_handler
from tilewright.runtime.xla_handler import XlaHandler

_Axes = tuple[int, ...]
"""Axes of an array, from the one whose neighbours lie farthest apart in memory to the one whose lie nearest."""


def by_xla(a: Any, b: Any, *bias: Any, kind: Kind) -> Any:
    """The product by XLA, in float32, or complex64, throughout; of integers sums are int32."""
    of_sums = SUMS_OF_INT8 if a.dtype in INT8 else kind.sums
    sums = jnp.matmul(a, b, precision="highest", preferred_element_type=of_sums).astype(kind.sums)
    return finished(sums if kind.alpha == 1 else kind.scalar(kind.alpha) * sums, bias[0] if bias else None, kind)


def _lower_to_xla(ctx: Any, *operands: Any, kind: Kind) -> Any:
    if kind.request.kernel is not None:
        raise EngineUnavailableError(
            "traced values are multiplied by a kernel on a GPU alone: "
            f"leave out kernel={kind.request.kernel.name!r}, or call matmul outside jit"
        )
    if kind.request.batch_invariant:
        raise EngineUnavailableError(
            "batch_invariant needs a GPU and the compiled handler: XLA's own products add up a row in an order that "
            "depends on the others"
        )
    return mlir.lower_fun(by_xla, multiple_results=False)(ctx.replace(avals_in=_plain(ctx)), *operands, kind=kind)


def _lower_to_handler(ctx: Any, *operands: Any, kind: Kind) -> Any:
    """On GPUs: XLA divides the product, unless it has done so, and what is left is a call of the handler."""
    if any(0 in aval.shape for aval in ctx.avals_in):
        return _lower_to_xla(ctx, *operands, kind=kind.asking(kernel=None, config=None, batch_invariant=False))
    try:
        _check_sizes(ctx)
        xla_handler.load()
    except EngineUnavailableError as error:
        if kind.request.kernel is not None or kind.request.batch_invariant:
            raise
        warnings.warn(f"XLA multiplies in place of tilewright: {error}", RuntimeWarning, stacklevel=2)
        return _lower_to_xla(ctx, *operands, kind=kind)
    if getattr(ctx.module_context.axis_context, "manual_axes", ()):
        return _lower_local(ctx, *operands, kind=kind)  # parts already, inside shard_map
    axes = tuple(_axes(value) for value in operands[:2])
    return _lower_as_they_lie(ctx, operands, axes, partial(divided, ShardedProduct(kind, axes)))


def _check_sizes(ctx: Any) -> None:
    """Raise EngineUnavailableError where sizes are symbols, as in a program that is exported for any of them."""
    symbols = [str(size) for aval in ctx.avals_in for size in aval.shape if not isinstance(size, int)]
    if symbols:
        raise EngineUnavailableError(
            f"plans are made for sizes, and this program is exported for any {', '.join(dict.fromkeys(symbols))}"
        )


def _lower_local(ctx: Any, *operands: Any, kind: Kind) -> Any:
    """One device's product as a call of the handler."""
    shapes, dtypes = [aval.shape for aval in ctx.avals_in], [str(aval.dtype) for aval in ctx.avals_in]
    call = planned(xla_handler.load(), shapes, dtypes, [_axes(value) for value in operands[:2]], kind)
    return _lower_as_they_lie(ctx, operands, call.axes, call.run)


def _lower_as_they_lie(ctx: Any, operands: Sequence[Any], orders: Sequence[_Axes], function: Callable[..., Any]) -> Any:
    """A function of operands of which the first are given with their axes in these orders: what was transposed."""
    values, avals = list(operands), _plain(ctx)
    for i, axes in enumerate(orders):
        if axes != _row_major(axes):
            values[i] = _transpose(operands[i]).operands[0]
            avals[i] = avals[i].update(shape=tuple(avals[i].shape[axis] for axis in axes))
    return mlir.lower_fun(function, multiple_results=False)(ctx.replace(avals_in=avals), *values)


class HandlerCall(NamedTuple):
    """A product as a call of the handler, whose plan was made and kept."""

    plan: str
    """The name that the handler knows it by."""
    kind: Kind
    axes: tuple[_Axes, ...]
    """For a and b each, the axes in the order in which they are row-major, and are given so."""
    shapes: tuple[tuple[int, ...], ...]
    """Shapes that operands which are given as they are must be broadcast to."""
    shape: tuple[int, ...]
    """The result's."""
    scratch_bytes: int

    def run(self, *operands: Any) -> Any:
        """The result."""
        given = list(operands)
        for i, axes in enumerate(self.axes):
            if axes == _row_major(self.shapes[i]):
                given[i] = jnp.broadcast_to(given[i], self.shapes[i])
        results = [jax.ShapeDtypeStruct(self.shape, self.kind.request.out_dtype)]
        if self.scratch_bytes:
            results.append(jax.ShapeDtypeStruct((self.scratch_bytes,), "uint8"))
        call = jax.ffi.ffi_call(xla_handler.TARGET, results)
        return call(*given, plan=self.plan, alpha=np.float32(self.kind.alpha))[0]


def planned(
    handler: XlaHandler, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str], axes: Sequence[_Axes], kind: Kind
) -> HandlerCall:
    """The product of arrays of these shapes as a call of the handler.

    Args:
        handler: keeps the plan.
        shapes, dtypes: of a, b and, where there is one, the bias; no dimension is 0.
        axes: of a and b, as they lie in memory.
        kind: what is computed.
    """
    first, *others = _gpus()
    layouts, sizes = list(axes), list(shapes)
    batch, _ = result_shape(*shapes[:2])
    while (planned := _planned(first, sizes, dtypes, layouts, kind)).form.copied:
        for i in ("ab".index(name) for name in planned.form.copied):
            if layouts[i] == _row_major(sizes[i]):  # a batch that broadcasts along some of its dimensions only
                sizes[i] = (*batch, *sizes[i][-2:])
            layouts[i] = _row_major(sizes[i])
    name = _name(planned)
    scratch_bytes = _keep(handler, name, first, planned)
    for gpu in others:
        _keep(handler, name, gpu, planned)
    return HandlerCall(name, kind, tuple(layouts), tuple(sizes), planned.form.shape, scratch_bytes)


def _planned(
    gpu: int, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str], axes: Sequence[_Axes], kind: Kind
) -> PlannedCall:
    """The plan of arrays that lie in memory as their axes say."""
    a, b = (_operand(*one, gpu) for one in zip("ab", shapes, dtypes, axes, strict=False))
    bias = None
    if kind.side is not None:
        shape = shapes[2] if kind.side == "row" else (*shapes[2], 1)
        bias = _operand("bias", shape, dtypes[2], tuple(range(len(shape))), gpu)
    call = Call(kind.request, JAX, gpu_engine(None, gpu), 0, a, b, None, None, bias, Scalars(kind.alpha))
    return planned_call_of(call)


def _operand(name: str, shape: tuple[int, ...], dtype: str, axes: _Axes, gpu: int) -> Operand:
    """An array without gaps, at an address that is a multiple of 16, as XLA's are."""
    strides, step = [0] * len(shape), ITEM_BYTES[dtype]
    for axis in reversed(axes):
        strides[axis] = step
        step *= shape[axis]
    return gpu_operand(name, None, 0, shape, strides, dtype, gpu, read_only=True)


def _name(planned: PlannedCall) -> str:
    """A name of a plan that is the same in every process, as programs that XLA has cached on disk contain it."""
    plan = planned.plan
    problem = plan.problem
    digest = cache.key(problem, str(plan.config), plan.needs, planned.form.swapped, planned.factors)[:16]
    return f"{plan.kernel.name} {problem.shape} {problem.case} {digest}"


def _keep(handler: XlaHandler, name: str, gpu: int, planned: PlannedCall) -> int:
    """Have the handler keep a plan for a GPU; returns the bytes of scratch memory that its calls need."""
    engine: Any = gpu_engine(None, gpu)
    plan = planned.plan
    if engine is not planned.engine:
        plan = engine.plan(plan.kernel, plan.config, plan.problem, factors=planned.factors)
    return handler.keep(name, gpu, engine.context, plan.steps, plan.needs, planned.form.swapped)


def _gpus() -> list[int]:
    """Numbers of the GPUs that a program may run on."""
    return [device.local_hardware_id for device in jax.local_devices(backend="gpu")]


def _plain(ctx: Any) -> list[Any]:
    """Types of the operands that do not say how these are sharded: that is XLA's from here on."""
    return [ShapedArray(aval.shape, aval.dtype) for aval in ctx.avals_in]


def _axes(value: Any) -> _Axes:
    """The order of axes in which a value of a program lies in memory already, as that of which it is a transpose does:
    XLA lays every value out row-major where nothing asks for another order.
    """
    if (transpose := _transpose(value)) is None:
        return _row_major(value.type.shape)
    return tuple(int(axis) for axis in np.argsort(list(transpose.attributes["permutation"])))


def _transpose(value: Any) -> Any:
    """The operation that a value is a transpose by; None where it is none."""
    operation = value.owner
    if getattr(operation, "name", "") == "sdy.sharding_constraint":  # behind each value whose type has a sharding
        operation = operation.operands[0].owner
    return operation if getattr(operation, "name", "") == "stablehlo.transpose" else None


def _row_major(shape: Sequence[int]) -> _Axes:
    return tuple(range(len(shape)))


mlir.register_lowering(product_p, _lower_to_xla, cacheable=False)
mlir.register_lowering(product_p, _lower_to_handler, platform="cuda", cacheable=False)
mlir.register_lowering(local_p, _lower_local, platform="cuda", cacheable=False)
prim_requires_devices_during_lowering.add(product_p)  # as custom_partitioning, which only its lowering uses, does
