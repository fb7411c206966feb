"""Rung 2, coalesced: neighbouring threads read neighbouring addresses.

Source: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 2.
"""

from tilewright.kernels.cost_family import Fragment, Staging
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.support import Support

KERNEL = Kernel(
    rung=2,
    name="coalesced",
    idea="a warp's loads coalesce: neighbouring threads walk along a row of B and C",
    parameters=(Parameter("BLOCK", 32, (8, 16, 32), "side of the square of C that a block computes"),),
    constraints={
        "BLOCK*BLOCK must be at most 1024, a block's threads": lambda c: c.BLOCK <= 32,
    },
    tile=lambda config: Tile(m=config.BLOCK, n=config.BLOCK, k=1),
    block=lambda config: (config.BLOCK * config.BLOCK, 1, 1),
    cost=Staging(fragment=lambda config: Fragment(1, 1, lanes_n=config.BLOCK)),
    support=Support(vectorized=False),
)
