"""Pictures of page 0 and of split-K: how threads are numbered, and how tiles of A and B make one of C."""

from collections.abc import Sequence

from tilewright.core.hardware import WARP
from tilewright.emulator.trace import Trace
from tilewright.tools.report.figures.palette import lane_color, owner_color
from tilewright.tools.report.figures.svg import FAINT, INK, ON_LIGHT, PALE, SOFT, Drawing

_GRID, _BLOCK = (3, 2), (32, 4)
"""Blocks of the grid that is drawn, and threads of a block, along x and y."""


def threads() -> str:
    """A grid of blocks, one of its blocks as warps, and one warp as lanes; as SVG."""
    drawing, (columns, rows), (width, height) = Drawing(), _GRID, _BLOCK
    drawing.text(0, 14, f"a grid of {columns} x {rows} blocks", 15, bold=True)
    for y in range(rows):
        for x in range(columns):
            chosen = (x, y) == (columns - 1, 0)
            drawing.rect(x * 92, 26 + y * 62, 86, 56, owner_color(0) if chosen else PALE, stroke=FAINT, radius=4)
            ink = ON_LIGHT if chosen else SOFT
            drawing.text(x * 92 + 43, 52 + y * 62, "blockIdx", 13, anchor="middle", fill=ink)
            drawing.text(x * 92 + 43, 70 + y * 62, f"({x}, {y})", 14, anchor="middle", fill=ink)
    left = 330.0
    drawing.line(92 * columns - 6, 54, left - 12, 54, SOFT)
    drawing.text(left, 14, f"one block: blockDim = ({width}, {height}), {width * height} threads", 15, bold=True)
    for warp in range(width * height // WARP):
        y = 26 + warp * 34
        drawing.rect(left, y, 520, 28, owner_color(1) if warp == 2 else PALE, stroke=FAINT, radius=4)
        ink = ON_LIGHT if warp == 2 else SOFT
        first = warp * WARP
        drawing.text(left + 10, y + 19, f"warp {warp}: threads {first} to {first + WARP - 1}", 14, fill=ink)
        drawing.text(left + 510, y + 19, f"threadIdx.y = {warp}", 14, anchor="end", fill=ink)
    top = 200.0
    drawing.line(left - 10, 26 + 2 * 34 + 14, left - 10, top - 20, SOFT)
    drawing.line(left - 10, 26 + 2 * 34 + 14, left, 26 + 2 * 34 + 14, SOFT)
    drawing.text(0, top, "one warp: 32 lanes, which carry out each instruction together", 15, bold=True)
    for lane in range(WARP):
        drawing.rect(lane * 26.5, top + 12, 24, 30, lane_color(lane), radius=2)
        drawing.text(lane * 26.5 + 12, top + 58, str(lane), 12, anchor="middle", fill=SOFT)
    return drawing.render("Grid, blocks, warps and lanes")


def tiles() -> str:
    """A, B and C, one tile of C, and the tiles of A and B that slide along k to it; as SVG."""
    drawing = Drawing()
    _matrices(drawing, 1)
    return drawing.render("The tile of C that a block computes, and tiles of A and B along k")


def split_k(parts: int = 3) -> str:
    """Tiles of A, B and C where several blocks divide k: each makes partial sums, which are added; as SVG."""
    drawing = Drawing()
    _matrices(drawing, parts)
    return drawing.render("k divided among blocks, whose partial sums are added")


def loads(trace: Trace, steps: int = 2) -> str:
    """Elements of A and B that the first lane of a warp loads from shared memory, one after the other; as SVG.

    Args:
        trace: of a launch of one block.
        steps: of k, that are shown.
    """
    lane = trace.requests[0].accesses[0].lane
    shared = [one for one in trace.requests if one.shared and one.kind == "load" and one.accesses[0].lane == lane]
    results = int((trace.threads == lane).sum())
    drawing, x = Drawing(), 124.0
    for y, words in ((40, "from Bs"), (80, "from As"), (120, "serves FFMAs")):
        drawing.text(0, y, words, 15, bold=True)
    for k in range(steps):
        found = [(one.array, one.accesses[0]) for one in shared]
        found = [(array, one) for array, one in found if k == (one.row if array == "B" else one.col)]
        drawing.text(x, 14, f"k = {k}, time goes to the right", 14, fill=SOFT)
        for array, one in found:
            drawing.rect(x, 22 if array == "B" else 62, 36, 28, owner_color("AB".index(array)), radius=3)
            place = one.row if array == "A" else one.col
            drawing.text(
                x + 18, 41 if array == "B" else 81, f"{array.lower()}{place}", 14, anchor="middle", fill=ON_LIGHT
            )
            uses = results // sum(other == array for other, _ in found)
            drawing.text(x + 18, 120, str(uses), 14, anchor="middle")
            x += 40
        x += 20
    return drawing.render("What one thread loads from shared memory, in its order")


def _matrices(drawing: Drawing, parts: int) -> None:
    """A left of C, B above C; steps along k in the colour of the block that takes them."""
    depth, side, tile, steps = 260.0, 200.0, 56.0, 6
    left, top, gap = 24.0, 24.0, 40.0
    x, y = left + depth + gap, top + depth + gap
    row, column = y + 72, x + 88
    for name, place, size, inner in (
        ("A", (left, y), (depth, side), "m x k"),
        ("B", (x, top), (side, depth), "k x n"),
        ("C", (x, y), (side, side), "m x n"),
    ):
        drawing.rect(*place, *size, PALE, stroke=SOFT)
        drawing.text(place[0] + 8, place[1] + 22, name, 20, bold=True)
        drawing.text(place[0] + 30, place[1] + 22, inner, 14, fill=SOFT)
    for step in range(steps):
        color = owner_color(step * parts // steps)
        at, deep = step * depth / steps, depth / steps - 2
        drawing.rect(left + at, row, deep, tile, color)
        drawing.rect(column, top + at, tile, deep, color)
        for where in ((left + at + deep / 2, row + tile / 2 + 5), (column + tile / 2, top + at + deep / 2 + 5)):
            drawing.text(*where, str(step), 14, anchor="middle", fill=ON_LIGHT)
    drawing.rect(column, row, tile, tile, owner_color(0) if parts == 1 else FAINT, stroke=INK, stroke_width=2)
    right = x + side + 32
    for number, line in enumerate(_words(parts, steps)):
        drawing.text(right, top + 16 + 24 * number, line, 15)
    if parts > 1:
        _sums(drawing, right, row, tile, parts)


def _words(parts: int, steps: int) -> Sequence[str]:
    if parts == 1:
        return (
            "A block computes one tile of C.",
            "In step 0 it loads tile 0 of A and tile 0",
            "of B into shared memory, and its threads",
            "multiply and add. Then tile 1 of each,",
            f"and so on to the end of k, tile {steps - 1}.",
            "The sums stay in registers all the while.",
        )
    return (
        f"{parts} blocks divide the k of one tile of C.",
        f"Each takes {steps // parts} of the {steps} steps, and has",
        "partial sums of the whole tile in the end.",
        "These are added, always in the same order.",
    )


def _sums(drawing: Drawing, x: float, y: float, tile: float, parts: int) -> None:
    for part in range(parts):
        at = x + part * (tile + 26)
        drawing.rect(at, y, tile, tile, owner_color(part))
        drawing.text(at + tile / 2, y + tile / 2 + 5, "sums", 14, anchor="middle", fill=ON_LIGHT)
        drawing.text(at + tile + 13, y + tile / 2 + 6, "+" if part + 1 < parts else "=", 18, anchor="middle")
    at = x + parts * (tile + 26)
    drawing.rect(at, y, tile, tile, FAINT, stroke=INK, stroke_width=2)
    drawing.text(at + tile / 2, y + tile / 2 + 5, "C", 16, anchor="middle", bold=True)
