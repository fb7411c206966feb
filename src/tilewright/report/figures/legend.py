"""Legends of the figures that show lanes: their colours, and what else is drawn."""

from tilewright.report.figures.palette import SEVERAL, ink_on, lane_color
from tilewright.report.figures.svg import ALARM, FAINT, INK, PALE, SOFT, Drawing, text_width

_LANES = 32
_LANE_WIDTH = 15.0
_SIZE = 11.0
_GAP = 16.0


def lane_legend() -> Drawing:
    """Of the coalescing figure."""
    drawing = _lanes()
    x = drawing.width + _GAP
    for label, color in (("several lanes", SEVERAL), ("moved, not used", PALE)):
        drawing.rect(x, 1, 12, 12, color, stroke=FAINT)
        x = _label(drawing, x + 17, label)
    drawing.rect(x, 1, 26, 12, "none", stroke=INK, stroke_width=0.8, radius=2)
    _label(drawing, x + 32, "a sector, 32 bytes")
    return drawing


def bank_legend() -> Drawing:
    """Of the bank figure, whose rows are wavefronts."""
    drawing = _lanes()
    x = drawing.width + _GAP
    drawing.rect(x, 1, 26, 12, SEVERAL)
    drawing.text(x + 13, 10.5, "x4", 8.5, fill=ink_on(SEVERAL), anchor="middle")
    x = _label(drawing, x + 31, "4 lanes, same words")
    drawing.rect(x, 1, 12, 12, PALE, stroke=FAINT)
    x = _label(drawing, x + 17, "nobody asks")
    drawing.rect(x, 1, 4, 12, ALARM)
    _label(drawing, x + 9, "a bank conflict")
    return drawing


def _lanes() -> Drawing:
    drawing = Drawing()
    drawing.text(0, 11, "lane", _SIZE, fill=SOFT)
    for lane in range(_LANES):
        color, x = lane_color(lane), 32 + lane * _LANE_WIDTH
        drawing.rect(x, 0, _LANE_WIDTH, 14, color)
        drawing.text(x + _LANE_WIDTH / 2, 10.5, f"{lane}", 8.5, fill=ink_on(color), anchor="middle")
    return drawing


def _label(drawing: Drawing, x: float, text: str) -> float:
    """Write a label; returns where the next entry begins."""
    drawing.text(x, 11, text, _SIZE, fill=SOFT)
    return x + text_width(text, _SIZE) + _GAP
