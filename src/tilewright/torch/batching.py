"""tilewright::matmul under torch.vmap: one product of a batch."""

from collections.abc import Sequence
from typing import Any

from tilewright.torch.library import ACTIVATIONS, Arguments, matmul_op


def matmul(info: Any, in_dims: Sequence[int | None], *arguments: Any) -> tuple[Any, int]:
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
            result = result + call.beta * lifted(call.c, of_c, of_rows, of_cols)
        if call.bias is not None:
            result = result + lifted(call.bias, of_bias, call.bias.dim() - (of_bias is not None) == 1, False)
        if call.activation is not None:
            result = ACTIVATIONS[call.activation](result)
    result = result.squeeze(-2) if of_rows else result
    return (result.squeeze(-1) if of_cols else result), 0
