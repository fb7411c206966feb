"""What the rungs with a tile for each warp (10 to 12) have in common: parameters, constraints, geometry."""

from tilewright.core.hardware import WARP
from tilewright.kernels import tiling
from tilewright.kernels.families import Fragment
from tilewright.kernels.spec import Config, Constraint, Parameter

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


def threads(config: Config) -> int:
    """Threads in a block: a warp for each WM x WN tile of the block's BM x BN."""
    return config.BM // config.WM * (config.BN // config.WN) * WARP


def block(config: Config) -> tuple[int, int, int]:
    """Extents of a block."""
    return (threads(config), 1, 1)


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


CONSTRAINTS = (
    Constraint(lambda c: c.BM % c.WM == 0, "BM must be a multiple of WM: warps divide the rows of the block's tile"),
    Constraint(lambda c: c.BN % c.WN == 0, "BN must be a multiple of WN: warps divide the columns of the block's tile"),
    Constraint(lambda c: threads(c) <= 1024, "(BM/WM)*(BN/WN)*32 must be at most 1024, a block's threads"),
    Constraint(
        lambda c: c.WN % c.WNITER == 0 and _piece_n(c) % c.TN == 0,
        "WN/WNITER must be a multiple of TN: lanes divide the columns of a piece of the warp's tile",
    ),
    Constraint(
        lambda c: WARP % max(_piece_n(c) // c.TN, 1) == 0,
        "WN/WNITER/TN must divide 32: this many lanes are arranged along n",
    ),
    Constraint(
        lambda c: c.WM % _piece_m(c) == 0,
        "WM must be a multiple of 32*TM*TN/(WN/WNITER): lanes divide the rows of the warp's tile",
    ),
    *tiling.FLOAT4S,
    Constraint(
        lambda c: c.BM * c.BK % (4 * max(threads(c), 1)) == 0,
        "BM*BK must be a multiple of 4*threads: every thread loads whole float4s, threads being (BM/WM)*(BN/WN)*32",
    ),
    Constraint(
        lambda c: c.BN * c.BK % (4 * max(threads(c), 1)) == 0,
        "BN*BK must be a multiple of 4*threads: every thread loads whole float4s, threads being (BM/WM)*(BN/WN)*32",
    ),
)
"""All but that the tiles fit into shared memory."""
