"""Tile and wave quantisation: what share of the work that a GPU sets aside for a square product counts."""

import itertools
import math
from collections.abc import Callable

from tilewright.report.figures.palette import owner_color
from tilewright.report.figures.svg import FAINT, PALE, SOFT, Drawing

_LEFT, _TOP = 50.0, 24.0
_WIDTH, _HEIGHT = 640.0, 240.0
_STEP = 16
"""From one size to the next that is drawn."""
_TILES = 34
"""The largest size, in tiles."""
_LABELLED = 4
"""Tiles from one labelled size to the next."""


def of_tiles(size: int, side: int) -> float:
    """Results of a size x size product, over the elements of all side x side tiles that cover it."""
    return (size / (side * math.ceil(size / side))) ** 2


def of_waves(size: int, side: int, blocks: int) -> float:
    """The same over the elements of whole waves, each of this many tiles."""
    tiles = math.ceil(size / side) ** 2
    return size**2 / (math.ceil(tiles / blocks) * blocks * side**2)


def quantisation(side: int, blocks: int) -> Drawing:
    """Both shares by size.

    Args:
        side: of the square of D that a block computes.
        blocks: that the GPU runs at a time.
    """
    drawing, largest, bottom = Drawing(), side * _TILES, _TOP + _HEIGHT

    def x(size: float) -> float:
        return _LEFT + _WIDTH * size / largest

    def y(share: float) -> float:
        return bottom - _HEIGHT * share

    drawing.text(_LEFT, _TOP - 10, f"{side} x {side} tiles, {blocks} blocks at a time", 12, bold=True)
    for size in range(0, largest + 1, _LABELLED * side):
        drawing.line(x(size), _TOP, x(size), bottom, PALE)
        drawing.text(x(size), bottom + 15, str(size), 10, fill=SOFT, anchor="middle")
    for percent in range(0, 101, 25):
        drawing.line(_LEFT, y(percent / 100), _LEFT + _WIDTH, y(percent / 100), PALE)
        drawing.text(_LEFT - 6, y(percent / 100) + 4, f"{percent}%", 10, fill=SOFT, anchor="end")
    drawing.rect(_LEFT, _TOP, _WIDTH, _HEIGHT, stroke=FAINT)
    drawing.text(_LEFT + _WIDTH / 2, bottom + 34, "m = n", 11, fill=SOFT, anchor="middle")
    # The size after a whole number of tiles is where a share falls.
    sizes = sorted({*range(_STEP, largest + 1, _STEP), *range(side + 1, largest, side)})
    shares: tuple[tuple[str, Callable[[int], float]], ...] = (
        ("of the elements of all tiles", lambda size: of_tiles(size, side)),
        ("of the elements of whole waves", lambda size: of_waves(size, side, blocks)),
    )
    for number, (name, share) in enumerate(shares):
        color = owner_color(number)
        for one, other in itertools.pairwise(sizes):
            drawing.line(x(one), y(share(one)), x(other), y(share(other)), color, 1.6)
        at = _LEFT + number * _WIDTH / 2
        drawing.line(at, bottom + 52, at + 24, bottom + 52, color, 2.4)
        drawing.text(at + 30, bottom + 56, f"results, {name}", 11)
    return drawing
