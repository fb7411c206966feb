"""Ways to do the same, as labelled points: how fast each is over how much it errs, on logarithmic axes."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tilewright.report.figures.axes import LogScale, decade_above, decade_below, decades
from tilewright.report.figures.svg import FAINT, INK, PALE, SOFT, Drawing, text_width

_LEFT, _TOP = 56.0, 30.0
_WIDTH, _HEIGHT = 620.0, 400.0
_SIZE = 12.0
"""Of the labels' font: legible where a phone shows the drawing at half its size."""
_RADIUS = 5.0
_STEPS = (1, 2, 5)
"""Labelled values of each decade along y."""


class Point(NamedTuple):
    """One way."""

    label: str
    error: float
    speed: float
    color: str
    bold: bool = False


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: "_Box") -> float:
        """The area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0.0) * max(height, 0.0)


def choice_points(points: Sequence[Point], title: str, across: str, up: str) -> Drawing:
    """The drawing.

    Args:
        points: the ways.
        title: the text above.
        across, up: captions of the axes.
    """
    speeds, errors = [one.speed for one in points], [one.error for one in points]
    scale = LogScale(
        decade_below(min(errors)),
        decade_above(max(errors)),
        min(speeds) / 1.3,
        max(speeds) * 1.3,
        _LEFT,
        _TOP,
        _WIDTH,
        _HEIGHT,
    )
    drawing = Drawing()
    bottom = _TOP + _HEIGHT
    drawing.text(_LEFT, _TOP - 12, title, 13, bold=True)
    for error in decades(scale.low_x, scale.high_x):
        drawing.line(scale.x(error), _TOP, scale.x(error), bottom, PALE)
        drawing.text(scale.x(error), bottom + 17, f"{error:.0e}", _SIZE, fill=SOFT, anchor="middle")
    for speed in _marks(scale.low_y, scale.high_y):
        drawing.line(_LEFT, scale.y(speed), _LEFT + _WIDTH, scale.y(speed), PALE)
        drawing.text(_LEFT - 6, scale.y(speed) + 4, f"{speed:g}", _SIZE, fill=SOFT, anchor="end")
    drawing.rect(_LEFT, _TOP, _WIDTH, _HEIGHT, stroke=FAINT)
    drawing.text(_LEFT + _WIDTH / 2, bottom + 38, across, _SIZE, fill=SOFT, anchor="middle")
    drawing.text(13, _TOP + _HEIGHT / 2, up, _SIZE, fill=SOFT, anchor="middle", rotate=-90)
    places = [(scale.x(one.error), scale.y(one.speed)) for one in points]
    for point, (x, y) in zip(points, places, strict=True):
        drawing.circle(x, y, _RADIUS, point.color, f"{point.label}: {point.speed:.1f}, {point.error:.2e}")
    for point, box in zip(points, _labels(points, places), strict=True):
        drawing.text(box.left, box.bottom - 3, point.label, _SIZE, fill=INK, bold=point.bold)
    return drawing


def _marks(low: float, high: float) -> list[float]:
    return [
        step * decade
        for decade in decades(decade_below(low), decade_above(high))
        for step in _STEPS
        if low <= step * decade <= high
    ]


def _labels(points: Sequence[Point], places: Sequence[tuple[float, float]]) -> list[_Box]:
    """Where labels go: next to their points, where they cover the least of other points and labels."""
    taken = [_Box(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in places]
    found: list[_Box] = []
    for point, place in zip(points, places, strict=True):
        box = min(_around(point, *place), key=lambda one: sum(map(one.overlap, taken)) + _outside(one))
        found.append(box)
        taken.append(box)
    return found


def _around(point: Point, x: float, y: float) -> Iterable[_Box]:
    """Boxes of a label to the right and the left of its point, and above and below, the nearest first."""
    width = text_width(point.label, _SIZE) * (1.1 if point.bold else 1.0)
    height, gap = _SIZE + 4, _RADIUS + 4
    for rows in (0, 1, -1, 2, -2):
        top = y - height / 2 + rows * height * 0.9
        yield _Box(x + gap, top, x + gap + width, top + height)
        yield _Box(x - gap - width, top, x - gap, top + height)
        if rows:
            yield _Box(x - width / 2, top, x + width / 2, top + height)


def _outside(box: _Box) -> float:
    """A penalty for what of a box lies outside of the axes."""
    whole = (box.right - box.left) * (box.bottom - box.top)
    return 10 * (whole - box.overlap(_Box(_LEFT, _TOP, _LEFT + _WIDTH, _TOP + _HEIGHT)))
