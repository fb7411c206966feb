"""The collective, and then the product (or the other way round): right for every group, device and dimension.

It is used where GPUs do not reach each other, in a graph's capture, along the last dimension, and where PyTorch or a
type of its own must see the products or cast operands (modes, autocast).
"""

from typing import Any

import torch

from tilewright.api.front import matmul


def all_gather_matmul(shard: Any, Bs: list[Any], dim: int, group: Any, precision: str | None) -> tuple[Any, list[Any]]:
    """A, gathered along a dimension, and A @ B for each B."""
    last = dim == shard.dim() - 1
    lines = (shard if last else shard.movedim(dim, 0)).contiguous()
    whole = torch.ops._c10d_functional.all_gather_into_tensor(lines, group.size(), group.group_name)
    whole = torch.ops._c10d_functional.wait_tensor(whole)
    if last:
        whole = torch.cat(whole.chunk(group.size()), dim=-1)
        return whole, [matmul(whole, B, precision=precision) for B in Bs]
    return whole.movedim(0, dim), [matmul(whole, B, precision=precision).movedim(0, dim) for B in Bs]


def matmul_reduce_scatter(A: Any, B: Any, op: str, dim: int, group: Any, precision: str | None) -> Any:
    """This rank's part, along a dimension, of the sum (or the mean) of all ranks' A @ B."""
    return scattered(matmul(A, B, precision=precision), op, dim, group)


def scattered(whole: Any, op: str, dim: int, group: Any) -> Any:
    """This rank's part, along a dimension, of the sum (or the mean) of all ranks' tensors."""
    lines = whole.movedim(dim, 0).contiguous()
    part = torch.ops._c10d_functional.reduce_scatter_tensor(lines, op, group.size(), group.group_name)
    return torch.ops._c10d_functional.wait_tensor(part).movedim(0, dim)
