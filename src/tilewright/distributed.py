"""Products of several processes, each with a GPU of its own, in groups of torch.distributed.

`all_gather_matmul` and `matmul_reduce_scatter` are the products at the ends of a tensor-parallel layer, while their
shards move. Products of DTensors need nothing of this package: `tilewright.matmul` takes them, and
`tilewright.torch.enable()` reroutes those of modules.
"""

from tilewright.frameworks.torch.distributed.products import all_gather_matmul, matmul_reduce_scatter

__all__ = ["all_gather_matmul", "matmul_reduce_scatter"]
