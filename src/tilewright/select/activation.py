"""What an activation adds to the time of a product on tensor cores.

Threads compute it at the end of a tile. Tensor cores wait, unless another consumer of the block has a tile of its own
(`PINGPONG`) and multiplies meanwhile.
"""

from tilewright.analysis.cost import Sizes
from tilewright.core.gpus import Gpu
from tilewright.core.hardware import ceil_div
from tilewright.kernels.spec import Config, Kernel

_NS = {"relu": 0.023, "gelu": 0.054, "gelu_tanh": 0.064, "silu": 0.059}
"""Of each element that a multiprocessor has, with a bias: on an H100 at 1024x1024x1024 in bfloat16."""


def unhidden_us(kernel: Kernel, config: Config, sizes: Sizes, gpu: Gpu) -> float:
    """Microseconds that tensor cores wait for a problem's activation; 0 where there is none."""
    activation = sizes.problem.epilogue.activation
    if activation is None or config.get("PINGPONG", 1):
        return 0.0
    tile = kernel.tile(config)
    tiles = sizes.batch * ceil_div(sizes.m, tile.m) * ceil_div(sizes.n, tile.n)
    return ceil_div(tiles, gpu.multiprocessors) * tile.m * tile.n * _NS[activation] / 1e3
