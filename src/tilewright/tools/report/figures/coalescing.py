"""The coalescing figure: which lanes of a warp touch which elements of a matrix in one request, and which sectors."""

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from tilewright.core.hardware import SECTOR_BYTES, WARP
from tilewright.emulator.trace import Access, WarpRequest
from tilewright.tools.report.figures.palette import ink_on, lighter, of_lanes
from tilewright.tools.report.figures.svg import INK, PALE, SOFT, Drawing

_CELL, _CELL_HEIGHT = 15.0, 13.0
_GAP = 7.0
"""Between sectors, and between rows, that are no neighbours."""
_TICK = 0.8
_VERBS = {"load": "loads from", "store": "stores to", "copy": "copies from"}


def coalescing_panel(request: WarpRequest, item_bytes: int, ld: int, width: float) -> Drawing:
    """The part of a matrix that one request touches, element by element.

    An element has the colour of the lane that takes it; the rest of a sector stays pale.

    Args:
        request: in global memory.
        item_bytes: of an element.
        ld: elements from one row of the matrix to the next.
        width: pixels that it may take.
    """
    drawing = Drawing()
    drawing.heading(f"A warp {_VERBS[request.kind]} {request.array}", request.place)
    drawing.text(0, 30, _summary(request), 11.5, fill=SOFT)
    owners = _owners(request.accesses, item_bytes)
    a_sector = SECTOR_BYTES // item_bytes
    sectors = sorted({(row, (row * ld + col) // a_sector) for row, col in owners})
    rows = sorted({row for row, _ in sectors})
    # A sector may begin in the row before and end in the row behind: only its elements of this row are drawn.
    elements = {
        (row, s): range(max(s * a_sector - row * ld, 0), min((s + 1) * a_sector - row * ld, ld)) for row, s in sectors
    }
    columns = sorted({col for span in elements.values() for col in span})

    left = 8 + max(len(f"{row}") for row in rows) * 7
    breaks = sum(b - a > 1 for a, b in pairwise(columns))
    cell = min(_CELL, (width - left - breaks * _GAP) / len(columns))
    x_of = _places(columns, left, cell)
    top = 52.0
    y_of = _places(rows, top, _CELL_HEIGHT + 3)
    for col in _labelled(columns, cell):
        drawing.text(x_of[col], top - 5, f"{col}", 9.5, fill=SOFT)
    step = 1 if len(rows) <= 16 else 4
    for number, row in enumerate(rows):
        if number % step == 0:
            drawing.text(left - 5, y_of[row] + _CELL_HEIGHT - 3, f"{row}", 9.5, fill=SOFT, anchor="end")
    for (row, _), span in elements.items():
        y = y_of[row]
        drawing.rect(
            x_of[span[0]], y, x_of[span[-1]] + cell - x_of[span[0]], _CELL_HEIGHT, PALE, stroke=INK, stroke_width=0.8,
            radius=2,
        )  # fmt: skip
        for first, count in _runs(row, span, owners):
            _draw_run(drawing, request.array, x_of[first], y, cell, row, first, count, owners[row, first])
    return drawing


def _summary(request: WarpRequest) -> str:
    sectors, lanes = len(request.sectors), len(request.accesses)
    count = "1 sector" if sectors == 1 else f"{sectors} sectors"
    who = "" if lanes == WARP else f", {lanes} lane{'s' if lanes > 1 else ''}"
    return f"{count} a request{who}, {request.distinct_bytes} of {sectors * SECTOR_BYTES} bytes used"


def _owners(accesses: Iterable[Access], item_bytes: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """Which lanes take each element, by row and column."""
    owners: dict[tuple[int, int], tuple[int, ...]] = {}
    for access in accesses:
        for col in range(access.col, access.col + access.bytes // item_bytes):
            owners[access.row, col] = (*owners.get((access.row, col), ()), access.lane)
    return owners


def _places(numbers: Sequence[int], start: float, size: float) -> dict[int, float]:
    """Where each of these rows or columns is drawn, with a gap where some are left out."""
    places = {}
    at = start
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        places[number] = at
        at += size + (_GAP if following is not None and following - number > 1 else 0)
    return places


def _labelled(columns: Sequence[int], cell: float) -> list[int]:
    """Columns whose number is written above them: the first of sectors, where there is room."""
    firsts = [col for col in columns if col % 8 == 0 or col == columns[0]]
    every = max(1, round(30 / (cell * 8) + 0.49)) if len(firsts) > 1 else 1
    return firsts[::every]


def _runs(row: int, span: range, owners: dict[tuple[int, int], tuple[int, ...]]) -> Iterable[tuple[int, int]]:
    """Neighbouring elements of a sector that the same lanes take: first column, and how many."""
    for lanes, cols in groupby(span, lambda col: owners.get((row, col))):
        if lanes is not None:
            first, *others = cols
            yield first, 1 + len(others)


def _draw_run(
    drawing: Drawing,
    array: str,
    x: float,
    y: float,
    cell: float,
    row: int,
    col: int,
    count: int,
    lanes: tuple[int, ...],
) -> None:
    color, label, takers = of_lanes(lanes)
    elements = f"{array}[{row}, {col}]" if count == 1 else f"{array}[{row}, {col} to {col + count - 1}]"
    drawing.rect(x + 0.7, y + 0.7, count * cell - 1.4, _CELL_HEIGHT - 1.4, color, title=f"{takers}: {elements}")
    if count > 1:  # a dash at the end of each element but the last
        begin, end = x + cell - _TICK / 2, x + (count - 1) * cell + _TICK / 2
        dash = f"{_TICK:g} {cell - _TICK:.3f}"
        drawing.line(begin, y + _CELL_HEIGHT - 2, end, y + _CELL_HEIGHT - 2, lighter(color, 0.5), 2, dash)
    size = 9.0
    if len(label) * size * 0.6 <= count * cell:
        drawing.text(
            x + count * cell / 2, y + _CELL_HEIGHT - 4, label, size, fill=ink_on(color), anchor="middle"
        )  # fmt: skip
