"""A block of a Llama-like model, and the same under parallelize_module: columns of first layers, rows of last ones."""

from typing import Any, NamedTuple

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional


class BlockSizes(NamedTuple):
    """Sizes of Llama 3 with 8 billion parameters."""

    width: int = 4096
    hidden: int = 14336
    heads: int = 32
    kv_heads: int = 8
    tokens: int = 4096


class Block(nn.Module):
    """Attention and a gated MLP, each behind a norm, with residuals."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        width, head = sizes.width, sizes.width // sizes.heads
        self.head = head
        self.before_attention, self.before_mlp = nn.RMSNorm(width), nn.RMSNorm(width)
        self.queries, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.keys = nn.Linear(width, sizes.kv_heads * head, bias=False)
        self.values = nn.Linear(width, sizes.kv_heads * head, bias=False)
        self.gate, self.up = nn.Linear(width, sizes.hidden, bias=False), nn.Linear(width, sizes.hidden, bias=False)
        self.down = nn.Linear(sizes.hidden, width, bias=False)

    def forward(self, x: Any) -> Any:
        """The block's result; x is 1 x tokens x width."""
        y = self.before_attention(x)
        query, key, value = (
            layer(y).unflatten(-1, (-1, self.head)).transpose(1, 2) for layer in (self.queries, self.keys, self.values)
        )
        repeats = query.shape[1] // key.shape[1]
        key, value = (one.repeat_interleave(repeats, dim=1) for one in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        y = self.before_mlp(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def parallel(block: Block, device: str) -> nn.Module:
    """The block, divided among all ranks."""
    columns = ("queries", "keys", "values", "gate", "up")
    plan = {name: ColwiseParallel() for name in columns} | {name: RowwiseParallel() for name in ("out", "down")}
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    divided: nn.Module = parallelize_module(block, mesh, plan)
    return divided
