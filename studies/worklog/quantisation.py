"""Tile and wave quantisation: what share of the work that a GPU sets aside for a square product counts."""

import math

from studies.charts import Curve, Panel, curves, style

_STEP = 16
"""From one size to the next that is drawn."""
_TILES = 34
"""The largest size, in tiles."""


def of_tiles(size: int, side: int) -> float:
    """Results of a size x size product, over the elements of all side x side tiles that cover it."""
    return (size / (side * math.ceil(size / side))) ** 2


def of_waves(size: int, side: int, blocks: int) -> float:
    """Results of a size x size product, over the elements of whole waves, each of this many tiles."""
    tiles = math.ceil(size / side) ** 2
    return size**2 / (math.ceil(tiles / blocks) * blocks * side**2)


def quantisation(side: int, blocks: int) -> str:
    """Both shares by size, as SVG.

    Args:
        side: of the square of D that a block computes.
        blocks: that the GPU runs at a time.
    """
    # The size after a whole number of tiles is where a share falls.
    sizes = sorted({*range(_STEP, side * _TILES + 1, _STEP), *range(side + 1, side * _TILES, side)})
    shares = {
        "results, of the elements of all tiles": [(size, of_tiles(size, side)) for size in sizes],
        "results, of the elements of whole waves": [(size, of_waves(size, side, blocks)) for size in sizes],
    }
    drawn = [Curve(name, points, style(number)) for number, (name, points) in enumerate(shares.items())]
    panel = Panel(f"{side} x {side} tiles, {blocks} blocks at a time", drawn, linear=True)
    return curves([panel], "m = n", "results", "{x:.0%}", base=None, marker="")
