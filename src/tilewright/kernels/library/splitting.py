"""Shared memory of what splits factors into terms, and of what multiplies them in float32 where terms do not hold them:
include/split_factors.cuh and include/float32_tile.cuh.
"""

from tilewright.kernels.spec import SCALED_K

GROUP = 128
"""Threads that split a square together, where a block has as many."""
_K, _STAGES, _PADDING = 16, 3, 4


def splitter_bytes(groups: int) -> int:
    """Of a block with so many groups: a square for each, its largest elements, and three tickets."""
    square = 4 * SCALED_K * (SCALED_K + 1) + 4 * GROUP // 32
    return -(-(groups * square + 12) // 16) * 16


def float32_tile_bytes(rows: int, cols: int) -> int:
    """Of a tile of D of this size: parts of A and of B."""
    return 4 * _STAGES * _K * (rows + cols + 2 * _PADDING)
