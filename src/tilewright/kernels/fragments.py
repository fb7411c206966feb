"""Shared by kernels that multiply fragments: parameters, constraints, geometry."""

from tilewright.core.gpus import STATIC_SHARED_LIMIT
from tilewright.core.hardware import WARP
from tilewright.kernels import tiling
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Staging
from tilewright.kernels.kernel import Constraints, Parameter
from tilewright.kernels.support import VECTOR_BYTES

_SIDE = 16
"""Rows and columns of a fragment of C."""
_RESULT_BYTES = 4
_RESULTS_PAD = 8
"""Columns by which the rows of shared memory that results pass through are padded, as in epilogue/ladder_wmma.cuh."""


STAGING = Staging(tensor_cores=True, min_blocks=lambda config: config.MIN_BLOCKS)


def parameters(bm: int, bn: int, bk: int, wm: int, wn: int, min_blocks: int) -> tuple[Parameter, ...]:
    """The sizes of block and warp tiles, and how many blocks share a multiprocessor, with these defaults."""
    return (
        Parameter("BM", bm, (32, 64, 128, 256), "rows of C that a block computes"),
        Parameter("BN", bn, (32, 64, 128, 256), "columns of C that a block computes"),
        Parameter("BK", bk, (8, 16, 32, 64), "how far along k a block's tiles of A and B reach"),
        Parameter("WM", wm, (16, 32, 64), "rows of C that a warp computes"),
        Parameter("WN", wn, (16, 32, 64), "columns of C that a warp computes"),
        tiling.min_blocks_parameter(min_blocks, (1, 2, 3)),
    )


def shared_bytes(config: Config, item: int, pad_a: int, pad_b: int, every_order: bool = False) -> int:
    """Bytes of shared memory: the padded tiles of A and B, or the results where they take more.

    Args:
        config: the kernel's.
        item: bytes of an element of A and B.
        pad_a, pad_b: elements that a line of each tile is padded by.
        every_order: whether the lines of a tile are its rows or its columns, by the operand's order: the more bytes of
            the two count. Else they are its rows.
    """
    lines_a, lines_b = config.BM, config.BK
    if every_order:
        lines_a, lines_b = max(config.BM, config.BK), max(config.BK, config.BN)
    tiles = item * (config.BM * config.BK + lines_a * pad_a + config.BK * config.BN + lines_b * pad_b)
    results = _RESULT_BYTES * (tiling.threads_of_warps(config) // WARP) * _SIDE * (config.WN + _RESULTS_PAD)
    return max(tiles, results)


def constraints(depth: int, item: int, pad_a: int, pad_b: int, every_order: bool = False) -> Constraints:
    """Constraints of a config.

    Args:
        depth: how far a fragment reaches along k.
        item: bytes of an element of A and B.
        pad_a, pad_b: elements that a line of each tile is padded by.
        every_order: whether tiles lie in the order of their operand, as in `shared_bytes`.
    """
    piece = VECTOR_BYTES // item
    return {
        **tiling.WARPS_DIVIDE,
        "WM must be a multiple of 16: fragments divide the warp's rows": lambda c: c.WM % _SIDE == 0,
        "WN must be a multiple of 16: fragments divide the warp's columns": lambda c: c.WN % _SIDE == 0,
        f"BK must be a multiple of {depth}: fragments reach that far along k": lambda c: c.BK % depth == 0,
        "MIN_BLOCKS*(BM/WM)*(BN/WN)*32 must be at most 1024, the threads that every multiprocessor has room "
        "for": lambda c: c.MIN_BLOCKS * tiling.threads_of_warps(c) <= 1024,
        **tiling.loads_evenly(
            piece, f"whole pieces of {piece} elements", tiling.threads_of_warps, "(BM/WM)*(BN/WN)*32"
        ),
        "the tiles of A and B, and the results, must each take at most 49152 bytes, a block's static shared "
        "memory": lambda c: shared_bytes(c, item, pad_a, pad_b, every_order) <= STATIC_SHARED_LIMIT,
    }
