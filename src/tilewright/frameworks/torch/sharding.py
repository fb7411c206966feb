"""tilewright::matmul of DTensors: which sharded operands are multiplied where they lie, and how the result is sharded.

    a                   b                   result
    rows                whole               rows
    whole               columns             columns
    columns (k)         rows (k)            a partial sum on every rank, where no activation follows
    batch               batch, or whole     batch

Of operands sharded otherwise, DTensor picks the rule that moves the fewest bytes, and redistributes. A bias and c are
sharded as the result is; where that is a partial sum, one rank adds them.
"""

import sys
from collections.abc import Sequence
from typing import Any

import torch

from tilewright.core.errors import LibraryError
from tilewright.frameworks.torch.library import Arguments, matmul_op

_registered = False

_STATIC = Arguments._fields.index("alpha")
"""Arguments from this one on are no tensors; which rules hold depends on them."""


def register() -> None:
    """Give DTensor the rules, once, where the process has loaded it.

    Raises:
        LibraryError: this PyTorch's DTensor takes no rules.
    """
    global _registered
    if _registered or "torch.distributed.tensor" not in sys.modules:
        return
    try:
        from torch.distributed.tensor import DTensor  # noqa: PLC0415 - takes a second to load
        from torch.distributed.tensor._op_schema import RuntimeSchemaInfo  # noqa: PLC0415

        propagator = DTensor._op_dispatcher.sharding_propagator
        # The public register_sharding would have DTensor reuse a rule for another activation.
        info = RuntimeSchemaInfo(_STATIC, static_kwargkey=list(Arguments._fields[_STATIC:]))
        propagator.register_op_strategy(matmul_op, _strategy, info)
    except (ImportError, AttributeError) as error:
        raise LibraryError(
            f"tilewright has no sharding rules for the DTensor of PyTorch {torch.__version__}"
        ) from error
    _registered = True


def _strategy(schema: Any) -> Any:
    """Shardings that DTensor may choose from: the rules, in every combination over the dimensions of the mesh."""
    from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy  # noqa: PLC0415

    call = Arguments(*schema.args_schema, **schema.kwargs_schema)
    bias, c = (None if one is None else one.shape for one in (call.bias, call.c))
    found = rules(call.a.shape, call.b.shape, bias, c, sums=call.activation is None)
    return expand_to_full_mesh_op_strategy(schema.get_mesh_from_args(), schema, found)


def rules(
    a: Sequence[int], b: Sequence[int], bias: Sequence[int] | None, c: Sequence[int] | None, *, sums: bool
) -> list[list[Any]]:
    """Placements over one dimension of a mesh: of the result, of a and of b, and of the bias and c where there are any.

    Args:
        a, b, bias, c: shapes, as `tilewright.matmul` takes them.
        sums: whether the result may be a partial sum.
    """
    from torch.distributed.tensor import Partial, Replicate, Shard  # noqa: PLC0415

    vectors = len(a) == 1, len(b) == 1
    batch = max(len(a), len(b), 2) - 2
    rows, columns = (None if vectors[0] else batch), (None if vectors[1] else batch + (not vectors[0]))
    found: list[list[Any]] = []

    def rule(result: Any, of_a: Any, of_b: Any, of_bias: Any) -> None:
        found.append([result, of_a, of_b, *([] if bias is None else [of_bias]), *([] if c is None else [result])])

    def of_batch(shape: Sequence[int], dimension: int) -> Any:
        """Sharding of a factor where a dimension of the result's batch is sharded."""
        own = dimension - batch + len(shape) - 2
        return Shard(own) if own >= 0 and shape[own] > 1 else Replicate()

    tall = bias is not None and rows is not None and tuple(bias) == (a[-2], 1)
    rule(Replicate(), Replicate(), Replicate(), Replicate())
    if rows is not None:
        rule(Shard(rows), Shard(len(a) - 2), Replicate(), Shard(0) if tall else Replicate())
    if columns is not None:
        along = Replicate() if tall or bias is None else Shard(len(bias) - 1)
        rule(Shard(columns), Replicate(), Shard(len(b) - 1), along)
    if sums:
        rule(Partial(), Shard(len(a) - 1), Shard(0 if vectors[1] else len(b) - 2), Partial())
    for dimension in range(batch):
        factors = of_batch(a, dimension), of_batch(b, dimension)
        if factors != (Replicate(), Replicate()):
            rule(Shard(dimension), *factors, Replicate())
    return found
