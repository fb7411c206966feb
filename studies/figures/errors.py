"""Errors of ways to multiply, as lines over logarithmic axes: a panel for each kind of inputs."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tilewright.report.figures.axes import LogScale, decade_above, decade_below, decades
from tilewright.report.figures.svg import FAINT, PALE, SOFT, Drawing, flow, stack

_LEFT, _TOP = 50.0, 24.0
_WIDTH, _HEIGHT = 250.0, 250.0
_GAP = 20.0
_LEGEND_WIDTH = 300.0
_WIDEST = 700.0
"""Of the whole: wider drawings are illegible on a phone."""
_TICKS = 4
"""From one labelled x to the next, as a factor."""


class Line(NamedTuple):
    """What is drawn of one way."""

    name: str
    color: str
    points: Sequence[tuple[int, float]]
    """k, or what else is along x, and the error."""
    dash: str = ""
    """SVG's stroke-dasharray."""


class Panel(NamedTuple):
    """Lines of one kind of inputs."""

    heading: str
    lines: Sequence[Line]


def error_panels(panels: Sequence[Panel], caption: str) -> Drawing:
    """Panels with the same axes, in lines, and below them what each colour is. caption: of the x axis."""
    points = [point for panel in panels for line in panel.lines for point in line.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    ends = (min(xs), max(xs), decade_below(min(ys)), decade_above(max(ys)))
    scale = LogScale(*ends, _LEFT, _TOP, _WIDTH, _HEIGHT)
    drawn = flow([_panel(panel, scale, caption) for panel in panels], _WIDEST, _GAP)
    legend = {line.name: line for panel in panels for line in panel.lines}
    return stack([drawn, _legend(legend.values(), drawn.width)], _GAP)


def _panel(panel: Panel, scale: LogScale, caption: str) -> Drawing:
    drawing = Drawing()
    drawing.text(_LEFT, _TOP - 10, panel.heading, 12, bold=True)
    bottom = _TOP + _HEIGHT
    x = scale.low_x
    while x <= scale.high_x:
        drawing.line(scale.x(x), _TOP, scale.x(x), bottom, PALE)
        drawing.text(scale.x(x), bottom + 15, f"{x:g}", 10, fill=SOFT, anchor="middle")
        x *= _TICKS
    for y in decades(scale.low_y, scale.high_y):
        drawing.line(_LEFT, scale.y(y), _LEFT + _WIDTH, scale.y(y), PALE)
        drawing.text(_LEFT - 6, scale.y(y) + 4, f"{y:.0e}", 10, fill=SOFT, anchor="end")
    drawing.rect(_LEFT, _TOP, _WIDTH, _HEIGHT, stroke=FAINT)
    drawing.text(_LEFT + _WIDTH / 2, bottom + 34, caption, 11, fill=SOFT, anchor="middle")
    for line in panel.lines:
        places = [(scale.x(x), scale.y(y)) for x, y in line.points]
        for (x1, y1), (x2, y2) in itertools.pairwise(places):
            drawing.line(x1, y1, x2, y2, line.color, 1.8, line.dash)
        for (at_x, at_y), (x, error) in zip(places, line.points, strict=True):
            drawing.circle(at_x, at_y, 3, line.color, f"{line.name}, {x:g}: {error:.2e}")
    return drawing


def _legend(lines: Iterable[Line], width: float) -> Drawing:
    entries = []
    for line in lines:
        entry = Drawing(width=_LEGEND_WIDTH)
        entry.line(0, 8, 24, 8, line.color, 2.4, line.dash)
        entry.text(30, 12, line.name, 11)
        entries.append(entry)
    return flow(entries, width, 6)
