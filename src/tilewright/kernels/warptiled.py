"""Rung 10, warptiled: block tile, warp tile, thread tile.

Source: "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", kernel 10.
"""

from pathlib import Path

from tilewright.gpus import STATIC_SHARED_LIMIT
from tilewright.kernels import tiling
from tilewright.kernels.spec import Config, Constraint, Kernel, Parameter

_LANES = 32


def _threads(config: Config) -> int:
    return config.BM // config.WM * (config.BN // config.WN) * _LANES


def _piece_n(config: Config) -> int:
    """Columns of C that the lanes of a warp cover together in one piece of the warp's tile."""
    return max(config.WN // config.WNITER, 1)


def _piece_m(config: Config) -> int:
    return max(_LANES * config.TM * config.TN // _piece_n(config), 1)


KERNEL = Kernel(
    rung=10,
    name="warptiled",
    idea="a tile for each warp, between the block's and the thread's",
    source=Path(__file__).with_suffix(".cu"),
    parameters=(
        Parameter("BM", 64, (32, 64, 128, 256), "rows of C that a block computes"),
        Parameter("BN", 128, (32, 64, 128, 256), "columns of C that a block computes"),
        Parameter("BK", 16, (8, 16, 32), "how far along k a block's tiles of A and B reach"),
        Parameter("WM", 32, (16, 32, 64, 128), "rows of C that a warp computes"),
        Parameter("WN", 64, (16, 32, 64, 128), "columns of C that a warp computes"),
        Parameter("WNITER", 2, (1, 2, 4), "pieces that a warp's columns are cut into"),
        Parameter("TM", 4, (4, 8), "rows of C that a thread computes in one piece"),
        Parameter("TN", 4, (4, 8), "columns of C that a thread computes in one piece"),
    ),
    constraints=(
        Constraint(
            lambda c: c.BM % c.WM == 0, "BM must be a multiple of WM: warps divide the rows of the block's tile"
        ),
        Constraint(
            lambda c: c.BN % c.WN == 0, "BN must be a multiple of WN: warps divide the columns of the block's tile"
        ),
        Constraint(lambda c: _threads(c) <= 1024, "(BM/WM)*(BN/WN)*32 must be at most 1024, a block's threads"),
        Constraint(
            lambda c: c.WN % c.WNITER == 0 and _piece_n(c) % c.TN == 0,
            "WN/WNITER must be a multiple of TN: lanes divide the columns of a piece of the warp's tile",
        ),
        Constraint(
            lambda c: _LANES % max(_piece_n(c) // c.TN, 1) == 0,
            "WN/WNITER/TN must divide 32: that many lanes stand side by side",
        ),
        Constraint(
            lambda c: c.WM % _piece_m(c) == 0,
            "WM must be a multiple of 32*TM*TN/(WN/WNITER): lanes divide the rows of the warp's tile",
        ),
        *tiling.FLOAT4S,
        Constraint(
            lambda c: c.BM * c.BK % (4 * max(_threads(c), 1)) == 0,
            "BM*BK must be a multiple of 4*threads: every thread loads whole float4s, threads being (BM/WM)*(BN/WN)*32",
        ),
        Constraint(
            lambda c: c.BN * c.BK % (4 * max(_threads(c), 1)) == 0,
            "BN*BK must be a multiple of 4*threads: every thread loads whole float4s, threads being (BM/WM)*(BN/WN)*32",
        ),
        Constraint(
            lambda c: tiling.shared_tiles_bytes(c) <= STATIC_SHARED_LIMIT,
            "the tiles of A and B must take at most 49152 bytes, a block's static shared memory",
        ),
    ),
    tile=tiling.tile,
    block=lambda config: (_threads(config), 1, 1),
    vectorized=True,
    presets={
        "a6000": {"BM": 64, "BN": 128, "BK": 16, "WM": 32, "WN": 64, "WNITER": 1, "TM": 4, "TN": 4},
        "a100": {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 64, "WNITER": 4, "TM": 8, "TN": 4},
    },
)
