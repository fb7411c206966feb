"""The tiling figure: how blocks, warps and lanes share C among them, by who wrote each element."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.hardware import WARP
from tilewright.tools.report.figures.palette import ink_on, lane_color, lighter, owner_color
from tilewright.tools.report.figures.svg import INK, PALE, PAPER, SOFT, Drawing

_SIDE = 252.0
_LARGEST_CELL, _THINNEST = 24.0, 16.0
_SMALLEST, _LABELLED = 11.0, 14.0
"""Font in which numbers are still written, and height of a patch that has room for it."""
_SPARSE = 4
"""Where numbers do not fit next to each other, those are written that this divides."""
_MOST_PATCHES, _CORNER = 300, 16
"""Where a warp's elements make more rectangles than that, at most this many rows and columns of them are drawn."""
_GAP = 40.0
_TOP = 44.0

Owners = NDArray[np.int64]
"""For each element of a part of C the number of its owner; -1: it has none."""


class Patch(NamedTuple):
    """A rectangle of elements that have one owner."""

    owner: int
    row: int
    col: int
    rows: int
    cols: int


class _Panel(NamedTuple):
    """One of the three panels, drawn, and where its elements lie in it."""

    drawing: Drawing
    first: tuple[int, int]
    """Row and column of C in its corner."""
    cell: tuple[float, float]
    """Width and height of an element."""
    height: float
    """Height of all its elements."""


def tiling_panel(blocks: Owners, threads: Owners) -> Drawing:
    """C by block, one block's part by warp, and one warp's part by lane.

    Args:
        blocks: m x n, the number of the block that wrote each element of C last.
        threads: m x n, the number within its block of the thread that did.
    """
    block = int(blocks[0, 0])
    of_block = blocks == block
    warps = np.where(of_block, threads // WARP, -1)
    warp = int(warps[0, 0])
    of_warp = warps == warp
    lanes = np.where(of_warp, threads % WARP, -1)
    lane = int(lanes[0, 0])
    count = int((lanes == lane).sum())

    its = _bounds(of_warp)
    corner = its
    if sum(1 for _ in patches(lanes[its])) > _MOST_PATCHES:
        rows, cols = (slice(one.start, min(one.stop, one.start + _CORNER)) for one in its)
        corner = rows, cols
    levels = (
        _level("C, by block", blocks, _bounds(blocks >= 0), block),
        _level(f"Block {block}, by warp", warps, _bounds(of_block), warp),
        _level(f"Warp {warp}, by lane; lane {lane} has {count}", lanes, corner, lane, lane_color, whole=its),
    )
    whole = Drawing()
    corners: list[float] = []
    for level in levels:
        corners.append(whole.width + _GAP if corners else 0.0)
        whole.put(level.drawing, corners[-1], 0)
    for outer, inner, part, x, inner_x in zip(
        levels, levels[1:], (of_block, of_warp), corners, corners[1:], strict=False
    ):
        rows, cols = _bounds(part)
        right = x + (cols.stop - outer.first[1]) * outer.cell[0]
        top = _TOP + (rows.start - outer.first[0]) * outer.cell[1]
        height = rows.stop - rows.start
        whole.line(right, top, inner_x - 3, _TOP, SOFT, 0.8, dash="3 3")
        whole.line(
            right, top + height * outer.cell[1], inner_x - 3, _TOP + inner.height, SOFT, 0.8, dash="3 3"
        )  # fmt: skip
    return whole


def patches(owners: Owners) -> Iterable[Patch]:
    """The rectangles that elements of one owner make, row by row; elements without one are left out."""
    rows, cols = owners.shape
    done = np.zeros(owners.shape, dtype=bool)
    for row in range(rows):
        for col in range(cols):
            owner = owners[row, col]
            if owner < 0 or done[row, col]:
                continue
            right = col
            while right < cols and owners[row, right] == owner and not done[row, right]:
                right += 1
            bottom = row + 1
            while bottom < rows and (owners[bottom, col:right] == owner).all() and not done[bottom, col:right].any():
                bottom += 1
            done[row:bottom, col:right] = True
            yield Patch(int(owner), row, col, bottom - row, right - col)


def _level(
    title: str,
    owners: Owners,
    bounds: tuple[slice, slice],
    marked: int,
    color_of: Callable[[int], str] | None = None,
    whole: tuple[slice, slice] | None = None,
) -> _Panel:
    """A panel of the elements within some bounds; what the marked owner has is outlined.

    Without colours of their own, the other owners' are pale. whole: the bounds that these are a corner of.
    """
    part = owners[bounds]
    rows, cols = part.shape
    size = min(_SIDE / cols, _SIDE / rows, _LARGEST_CELL)
    lowest = min(patch.rows for patch in patches(part))
    cell_x, cell_y = max(size, _THINNEST / cols), max(size, _THINNEST / rows, min(_LABELLED / lowest, _SIDE / rows))
    first = (bounds[0].start, bounds[1].start)
    drawing = Drawing()
    drawing.text(0, 13, title, 13, bold=True)
    size_of = f"{rows} x {cols} elements"
    if whole not in (None, bounds):
        height, width = (one.stop - one.start for one in whole)
        size_of = f"the corner of {rows} x {cols}, of {height} x {width} elements"
    drawing.text(0, 30, size_of, 12, fill=SOFT)
    drawing.rect(0, _TOP, cols * cell_x, rows * cell_y, PALE)
    found = [
        (patch, (patch.col * cell_x, _TOP + patch.row * cell_y, patch.cols * cell_x, patch.rows * cell_y))
        for patch in patches(part)
    ]
    longest = max((f"{patch.owner}" for patch, _ in found), key=len)
    fills = []
    for patch, (x, y, width, height) in found:
        color = color_of(patch.owner) if color_of else owner_color(patch.owner)
        if color_of is None and patch.owner != marked:
            color = lighter(color, 0.55)
        rows_of, cols_of = (
            _range(at + begin, count) for at, begin, count in zip(first, patch[1:3], patch[3:], strict=True)
        )
        edge = PAPER if min(width, height) > 3 else None
        drawing.rect(
            x, y, width, height, color, stroke=edge, stroke_width=0.8, title=f"{patch.owner}: C[{rows_of}, {cols_of}]"
        )
        fills.append(color)
    for (patch, (x, y, width, height)), color in zip(found, fills, strict=True):
        if patch.owner == marked:
            drawing.rect(x, y, width, height, stroke=INK, stroke_width=min(1.8, width / 4, height / 4))
        of_label = width / (len(longest) * 0.7)
        every = 1 if of_label >= _SMALLEST else _SPARSE
        font = min(13.0, height * 0.85, every * of_label)  # the largest in which labels fit
        if font >= _SMALLEST and patch.owner % every == 0:
            middle = y + height / 2 + font * 0.36
            drawing.text(x + width / 2, middle, f"{patch.owner}", font, fill=ink_on(color), anchor="middle")
    return _Panel(drawing, first, (cell_x, cell_y), rows * cell_y)


def _range(first: int, count: int) -> str:
    return f"{first}" if count == 1 else f"{first} to {first + count - 1}"


def _bounds(part: NDArray[np.bool_]) -> tuple[slice, slice]:
    """The rows and columns that a part reaches over."""
    rows, cols = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(cols[0]), int(cols[-1]) + 1)
