"""How XLA divides the product among the devices of a program.

    a       b       result
    i k     k j     i j         rows i, columns j and the batch stay where they are
                                k that is divided: each device has a partial sum, and these are added up in float32

Inside `jax.shard_map` arrays are parts already. Elsewhere XLA asks while it partitions a program, and moves what lies
otherwise first. A factor that is a transpose is given as it lies, so its dimensions may come in another order.

For several GPUs a program is lowered before it is known what each of them multiplies. So the primitive becomes a call
that XLA's partitioner asks about (`jax.experimental.custom_partitioning`): a rule in letters spreads shardings over the
program, and a function says what each device does, which is lowered then, for the sizes of one device, to a second
primitive.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from tilewright.api.formulate import result_shape
from tilewright.frameworks.jax.product import Kind, finished, local_p

_Names = tuple[str, ...]


class ShardedProduct(NamedTuple):
    """A product of which XLA divides axes."""

    kind: Kind
    axes: tuple[tuple[int, ...], ...]
    """For a and b each, the axes in the order in which they are given, row-major."""

    @property
    def of_k(self) -> bool:
        """Whether k may be divided. A named kernel makes the whole product; bits of a row are those of one sum."""
        return self.kind.request.kernel is None and not self.kind.request.batch_invariant

    def names(self, shapes: Sequence[Sequence[int]]) -> list[_Names]:
        """Names of the dimensions of each operand as it is given, and of the result: equal ones are divided alike.

        Args:
            shapes: of the operands as they are given.
        """
        factors = [
            [shape[order.index(axis)] for axis in range(len(order))]
            for shape, order in zip(shapes, self.axes, strict=False)
        ]
        batch, _ = result_shape(*factors)
        found: list[_Names] = []
        for operand, shape, order, last in zip("ab", factors, self.axes, (("i", "k"), ("k", "j")), strict=True):
            first = len(batch) - len(shape) + 2
            own = [  # a name of its own for what broadcasts
                f"batch{axis}" if shape[axis - first] == batch[axis] else f"{operand}{axis}"
                for axis in range(first, len(batch))
            ]
            found.append(tuple((*own, *last)[axis] for axis in order))
        found += [("i",) if self.kind.side == "column" else ("j",)] * (len(shapes) - 2)
        return [*found, (*(f"batch{axis}" for axis in range(len(batch))), "i", "j")]


@partial(custom_partitioning, static_argnums=(0,))
def divided(division: ShardedProduct, a: Any, b: Any, *bias: Any) -> Any:
    """The product of operands as `local_p` takes them, but for the order of axes."""
    return _on_one_device((), division, a, b, *bias)


def _on_one_device(over: _Names, division: ShardedProduct, a: Any, b: Any, *bias: Any) -> Any:
    """The product of one device's parts; over: the axes of the mesh along which k is divided."""
    a, b = (
        jax.lax.transpose(factor, [order.index(axis) for axis in range(len(order))])
        for factor, order in zip((a, b), division.axes, strict=True)
    )
    kind = division.kind
    if not over:
        return local_p.bind(a, b, *bias, kind=kind)
    return finished(jax.lax.psum(local_p.bind(a, b, kind=kind.of_sums), over), bias[0] if bias else None, kind)


def _rule(division: ShardedProduct, mesh: Any, operands: Sequence[Any], results: Any) -> Any:
    """Rule, in the notation of einsum, by which Shardy propagates shardings through a program."""
    *given, result = (" ".join(names) for names in division.names([operand.shape for operand in operands]))
    of_k = "reduction_factors" if division.of_k else "need_replication_factors"
    return f"{', '.join(given)} -> {result}", {of_k: ("k",)}


def _partition(division: ShardedProduct, mesh: Any, operands: Sequence[Any], result: Any) -> Any:
    """Work of each device, and the shardings of the result and of the operands for it.

    Args:
        division: the product.
        mesh: of the program; empty where it has none, or several: then every device multiplies all of it.
        operands, result: shapes and wanted shardings.
    """
    if mesh.empty:
        whole = SingleDeviceSharding(jax.devices()[0])
        return mesh, partial(_on_one_device, (), division), whole, tuple(whole for _ in operands)
    names = division.names([operand.shape for operand in operands])
    taken = _taken(division, mesh, names, [*operands, result])
    *given, of_result = (NamedSharding(mesh, PartitionSpec(*(taken.get(name) for name in one))) for one in names)
    return mesh, partial(_on_one_device, taken.get("k", ()), division), of_result, tuple(given)


def _sharding_of_result(division: ShardedProduct, mesh: Any, operands: Sequence[Any], result: Any) -> Any:
    """How a result is sharded that nobody wants otherwise; asked where the partitioner is not Shardy."""
    unknown = jax.ShapeDtypeStruct(result.shape, result.dtype)
    return _partition(division, mesh, operands, unknown)[2]


def _taken(division: ShardedProduct, mesh: Any, names: list[_Names], arrays: Sequence[Any]) -> dict[str, _Names]:
    """The axes of a mesh along which each dimension is divided: each axis divides one.

    Where both factors have k divided alike, it stays so. Else the result decides, then a, then b.
    """
    *operands, result = (dict(_specs(one, array)) for one, array in zip(names, arrays, strict=True))
    k = arrays[0].shape[names[0].index("k")]
    wanted = [result, *operands]
    if operands[0]["k"] == operands[1]["k"]:
        wanted = [{"k": operands[0]["k"]}, *wanted]
    found: dict[str, _Names] = {}
    free = set(mesh.axis_names)
    for name, axes in (pair for one in wanted for pair in one.items()):
        if name == "k":
            fits = division.of_k and k % math.prod(mesh.shape[axis] for axis in axes) == 0
        else:
            fits = name in names[-1]
        if fits and axes and name not in found and free.issuperset(axes):
            found[name] = axes
            free -= set(axes)
    return found


def _specs(names: _Names, array: Any) -> Iterator[tuple[str, _Names]]:
    """The axes of the mesh along which each dimension of an array is divided."""
    spec = array.sharding.spec if array.sharding is not None else ()
    for name, axes in zip(names, (*spec, *(None,) * (len(names) - len(spec))), strict=True):
        yield name, (axes,) if isinstance(axes, str) else tuple(axes or ())


divided.def_partition(_partition, infer_sharding_from_operands=_sharding_of_result, sharding_rule=_rule)
