"""Numbers of every NVIDIA GPU, and the arithmetic of units that are whole."""

WARP = 32
"""Lanes of a warp."""

SECTOR_BYTES = 32
"""Bytes of the smallest transfer between a multiprocessor, L2 and memory."""


def ceil_div(size: int, unit: int) -> int:
    """How many units hold a size."""
    return -(-size // unit)


def round_up(size: int, unit: int) -> int:
    """The smallest multiple of a unit that holds a size."""
    return -(-size // unit) * unit
