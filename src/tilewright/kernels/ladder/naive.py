"""Rung 1, naive: one thread, one element of C, no data shared.

Source: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 1; FastCuda V1.
"""

from tilewright.core.hardware import WARP
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Fragment, Staging
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.support import Support


def _tile(config: Config) -> Tile:
    x, y = config.BLOCK_X, config.BLOCK_Y
    return Tile(m=y, n=x, k=1) if config.X_ALONG_N else Tile(m=x, n=y, k=1)


def _fragment(config: Config) -> Fragment:
    along_x = min(config.BLOCK_X, WARP)
    return Fragment(1, 1, lanes_n=along_x if config.X_ALONG_N else WARP // along_x)


KERNEL = Kernel(
    rung=1,
    name="naive",
    idea="one thread, one element: neighbouring threads walk down rows of A",
    parameters=(
        Parameter("BLOCK_X", 32, (8, 16, 32), "threads of a block along x"),
        Parameter("BLOCK_Y", 32, (8, 16, 32), "threads of a block along y"),
        Parameter("X_ALONG_N", 0, (0, 1), "1: threadIdx.x walks along a row of C, 0: down a column", least=0),
    ),
    constraints={
        "BLOCK_X*BLOCK_Y must be at most 1024, a block's threads": lambda c: c.BLOCK_X * c.BLOCK_Y <= 1024,
        "X_ALONG_N must be 0 or 1": lambda c: c.X_ALONG_N <= 1,
    },
    tile=_tile,
    block=lambda config: (config.BLOCK_X, config.BLOCK_Y, 1),
    cost=Staging(fragment=_fragment),
    support=Support(vectorized=False),
    presets={"fastcuda_v1": {"BLOCK_X": 16, "BLOCK_Y": 16, "X_ALONG_N": 1}},
)
