"""Rung 10, warptiled: block tile, warp tile, thread tile.

Source: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 10.
"""

from tilewright.kernels import tiling
from tilewright.kernels.families import Staging
from tilewright.kernels.ladder import warp_tiling
from tilewright.kernels.spec import Kernel

KERNEL = Kernel(
    rung=10,
    name="warptiled",
    idea="a tile for each warp, between the block's and the thread's",
    brief="a tile for each warp",
    parameters=warp_tiling.PARAMETERS,
    constraints={
        **warp_tiling.CONSTRAINTS,
        **tiling.SHARED_FITS,
    },
    block=tiling.block_of_warps,
    cost=Staging(fragment=warp_tiling.fragment),
    presets={
        "a6000": {"BM": 64, "BN": 128, "BK": 16, "WM": 32, "WN": 64, "WNITER": 1, "TM": 4, "TN": 4},
        "a100": {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 64, "WNITER": 4, "TM": 8, "TN": 4},
    },
)
