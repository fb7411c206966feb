"""Rung 10, warptiled: block tile, warp tile, thread tile.

Source: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 10.
"""

from tilewright.core.hardware import WARP
from tilewright.kernels import tiling
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Fragment, Staging
from tilewright.kernels.kernel import Constraints, Kernel, Parameter

PARAMETERS = (
    Parameter("BM", 64, (32, 64, 128, 256), "rows of C that a block computes"),
    Parameter("BN", 128, (32, 64, 128, 256), "columns of C that a block computes"),
    Parameter("BK", 16, (8, 16, 32), "how far along k a block's tiles of A and B reach"),
    Parameter("WM", 32, (16, 32, 64, 128), "rows of C that a warp computes"),
    Parameter("WN", 64, (16, 32, 64, 128), "columns of C that a warp computes"),
    Parameter("WNITER", 2, (1, 2, 4), "pieces that a warp's columns are cut into"),
    Parameter("TM", 4, (4, 8), "rows of C that a thread computes in one piece"),
    Parameter("TN", 4, (4, 8), "columns of C that a thread computes in one piece"),
)


def _piece_n(config: Config) -> int:
    """Columns of C that the lanes of a warp cover together in one piece of the warp's tile."""
    return max(config.WN // config.WNITER, 1)


def _piece_m(config: Config) -> int:
    return max(WARP * config.TM * config.TN // _piece_n(config), 1)


def fragment(config: Config) -> Fragment:
    """A thread's TM x TN results in each piece of its warp's tile."""
    pieces_m = config.WM // _piece_m(config)
    rows, cols = config.TM * pieces_m, config.TN * config.WNITER
    return Fragment(rows, cols, _piece_n(config) // config.TN, pieces_m, config.WNITER)


CONSTRAINTS: Constraints = {
    **tiling.WARPS_DIVIDE,
    "(BM/WM)*(BN/WN)*32 must be at most 1024, a block's threads": lambda c: tiling.threads_of_warps(c) <= 1024,
    "WN/WNITER must be a multiple of TN: lanes divide the columns of a piece of the warp's tile": lambda c: (
        c.WN % c.WNITER == 0 and _piece_n(c) % c.TN == 0
    ),
    "WN/WNITER/TN must divide 32: this many lanes are arranged along n": lambda c: (
        WARP % max(_piece_n(c) // c.TN, 1) == 0
    ),
    "WM must be a multiple of 32*TM*TN/(WN/WNITER): lanes divide the rows of the warp's tile": lambda c: (
        c.WM % _piece_m(c) == 0
    ),
    **tiling.FLOAT4S,
    **tiling.loads_evenly(4, "whole float4s", tiling.threads_of_warps, "(BM/WM)*(BN/WN)*32"),
}
"""All but that the tiles fit into shared memory."""

KERNEL = Kernel(
    rung=10,
    name="warptiled",
    idea="a tile for each warp: between the block's and the thread's",
    parameters=PARAMETERS,
    constraints={
        **CONSTRAINTS,
        **tiling.SHARED_FITS,
    },
    block=tiling.block_of_warps,
    cost=Staging(fragment=fragment),
    presets={
        "a6000": {"BM": 64, "BN": 128, "BK": 16, "WM": 32, "WN": 64, "WNITER": 1, "TM": 4, "TN": 4},
        "a100": {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 64, "WNITER": 4, "TM": 8, "TN": 4},
    },
    portfolio=({}, {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 64, "WNITER": 4, "TM": 8, "TN": 4}),
)
