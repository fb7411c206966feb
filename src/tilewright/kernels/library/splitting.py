"""Shared memory of what splits factors into parts, and of what multiplies them in float32 where parts do not represent
them: include/split_factors.cuh, include/float32_block.cuh, include/float32_warpgroups.cuh and include/non_finite.cuh.
"""

from tilewright.core.hardware import round_up
from tilewright.kernels.split import NON_FINITE, SCALED_K

_MARKS = 256
"""Marks of squares that a block keeps."""
GROUP = 128
"""Threads that split a square together, where a block has as many."""
_PADDING = 4
"""Floats behind each line of a part."""
_BLOCK = 16, 3
"""k of a part, and parts, of `Float32Block`."""
_WARPGROUPS = 32, 3
"""k of a part, and parts, of `Float32Warpgroups`."""
_NO_SUMS = 16
"""Bytes of sums where no slices add them up."""
PART_BARRIERS = 2 * _WARPGROUPS[1] + 1
"""Barriers of `Float32Warpgroups`: two for each part, and one."""


def splitter_bytes(groups: int) -> int:
    """Bytes of a block with this many groups: a square for each, its largest elements, three counters and marks."""
    square = 4 * SCALED_K * (SCALED_K + 1) + 4 * GROUP // 32
    return round_up(groups * square + 4 * (3 + _MARKS), 16)


def _parts_bytes(rows: int, cols: int, k: int, parts: int) -> int:
    """Bytes of parts of A and of B."""
    return 4 * parts * k * (rows + cols + 2 * _PADDING)


def float32_block_bytes(rows: int, cols: int) -> int:
    """Bytes of a block whose threads compute a tile of D of this size."""
    return _parts_bytes(rows, cols, *_BLOCK) + 8 * _BLOCK[0] + _NO_SUMS


def float32_warpgroups_bytes(rows: int, cols: int) -> int:
    """Bytes of a block of which two warpgroups compute tiles of this size."""
    rows = 128 if rows % 128 == 0 else 64
    cols = cols if cols <= 128 else cols // 2
    sums = 4 * rows * cols if rows * cols <= 64 * 128 else _NO_SUMS
    k, parts = _WARPGROUPS
    lines = 4 * (parts - 1) * k * (rows + cols)
    return _parts_bytes(rows, cols, k, parts) + lines + sums


def non_finite_bytes(rows: int, cols: int) -> int:
    """Bytes of the list of sums of a tile of this size that are not finite."""
    return 4 * (rows + cols + 1) + 2 * 2 * NON_FINITE
