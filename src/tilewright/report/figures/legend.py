"""Legends of the figures that show lanes: their colours, and what else is drawn."""

from tilewright.core.hardware import WARP
from tilewright.report.figures.palette import SEVERAL, ink_on, lane_color
from tilewright.report.figures.svg import ALARM, FAINT, INK, PALE, SOFT, Drawing, flow

_LANE_WIDTH = 15.0
_SIZE = 11.0
_GAP = 16.0
_LINE_GAP = 8.0


def lane_legend(width: float) -> Drawing:
    """Of the coalescing figure, in lines of at most this width."""
    entries = [_swatch(SEVERAL, "several lanes"), _swatch(PALE, "moved, not used")]
    sector = Drawing()
    sector.rect(0, 1, 26, 12, "none", stroke=INK, stroke_width=0.8, radius=2)
    sector.text(32, 11, "a sector, 32 bytes", _SIZE, fill=SOFT)
    return _lines([_lanes(), *entries, sector], width)


def bank_legend(width: float) -> Drawing:
    """Of the bank figure, whose rows are wavefronts."""
    several = Drawing()
    several.rect(0, 1, 26, 12, SEVERAL)
    several.text(13, 10.5, "x4", 8.5, fill=ink_on(SEVERAL), anchor="middle")
    several.text(31, 11, "4 lanes, same words", _SIZE, fill=SOFT)
    conflict = Drawing()
    conflict.rect(0, 1, 4, 12, ALARM)
    conflict.text(9, 11, "a bank conflict", _SIZE, fill=SOFT)
    return _lines([_lanes(), several, _swatch(PALE, "nobody asks"), conflict], width)


def _lines(entries: list[Drawing], width: float) -> Drawing:
    for entry in entries:
        entry.width += _GAP
    return flow(entries, width, 0, _LINE_GAP)


def _lanes() -> Drawing:
    drawing = Drawing()
    drawing.text(0, 11, "lane", _SIZE, fill=SOFT)
    for lane in range(WARP):
        color, x = lane_color(lane), 32 + lane * _LANE_WIDTH
        drawing.rect(x, 0, _LANE_WIDTH, 14, color)
        drawing.text(x + _LANE_WIDTH / 2, 10.5, f"{lane}", 8.5, fill=ink_on(color), anchor="middle")
    return drawing


def _swatch(color: str, label: str) -> Drawing:
    drawing = Drawing()
    drawing.rect(0, 1, 12, 12, color, stroke=FAINT)
    drawing.text(17, 11, label, _SIZE, fill=SOFT)
    return drawing
