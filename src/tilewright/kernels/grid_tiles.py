"""The tile of C that a block computes, from how the number of a grid's blocks grows with M, N and K."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from tilewright.core.errors import ConfigError

SIZES = ("M", "N", "K")
LARGE = 2**16 * 3**2 * 5 * 7
"""A size that most tiles divide."""
_NEAR = Fraction(1, 1000)
"""How far two numbers of blocks may be apart that tiles which do not divide LARGE round."""

Count = Callable[[Mapping[str, int]], int]
"""Blocks of a grid for M, N and K."""


def tile_of_grid(count: Count) -> tuple[int, int]:
    """Rows and columns of C that a block computes, where each block has a tile of its own.

    Along one size the number of blocks is a step function: 0 or 1 for a size below one tile, whether it is rounded up
    or down. So what counts is how much it grows from the smallest size that has blocks to a large one, with the other
    sizes large. The product of what it grows by along each size must be the number of all blocks: it is not where a
    grid divides the product of sizes, as in ceil(M*N/256).

    Raises:
        ConfigError: the grid does not say; the message gives the reason.
    """
    most = dict.fromkeys(SIZES, LARGE)
    blocks = count(most)
    if blocks < 1:
        raise ConfigError(f"it has no blocks with M, N and K of {LARGE:,}")
    least = {size: _smallest(lambda extent, size=size: count({**most, size: extent})) for size in SIZES}  # type: ignore[misc]
    grown = {size: Fraction(blocks, count({**most, size: least[size]})) for size in SIZES}
    for_one_tile = count(least)
    together = grown["M"] * grown["N"] * grown["K"] * for_one_tile
    if for_one_tile < 1 or abs(together / blocks - 1) > _NEAR:
        raise ConfigError("its blocks are not counted along M and along N")
    if for_one_tile > 1 or grown["K"] > 1:
        raise ConfigError("several of its blocks compute one tile")
    return round(LARGE / grown["M"]), round(LARGE / grown["N"])


def _smallest(count: Callable[[int], int]) -> int:
    """The smallest extent that has blocks, of 1 to LARGE, which has some."""
    low, high = 0, LARGE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if count(middle) > 0 else (middle, high)
    return high
