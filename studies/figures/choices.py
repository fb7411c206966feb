"""Ways to do the same, as labelled points: how fast each is over how much it errs, on logarithmic axes."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tilewright.report.figures.axes import LogScale, decade_above, decade_below, decades
from tilewright.report.figures.svg import FAINT, INK, PALE, SOFT, Drawing, text_width, wrap

_LEFT, _WIDTH, _HEIGHT = 78.0, 600.0, 480.0
_SIZE = 19.0
"""Of the font: legible where a phone shows the drawing 400 pixels wide, at a bit more than half its size."""
_LINE = 1.25 * _SIZE
_RADIUS = 6.5
_ROUNDS = 3
"""How often labels are placed."""
_NEAR = 12.0
"""How far a label may be from its point; from a farther one a line leads to it."""
_AWAY = 20.0
"""What each further pixel costs, in square pixels of other labels that are covered."""
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

    def nearest(self, x: float, y: float) -> tuple[float, float]:
        """The point of the box that is nearest to one."""
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)

    def away(self, x: float, y: float) -> float:
        """How far a point is from the box."""
        return math.dist((x, y), self.nearest(x, y))


def choice_points(points: Sequence[Point], title: str, across: str, up: str) -> Drawing:
    """The drawing.

    Args:
        points: the ways.
        title: the text above.
        across, up: captions of the axes.
    """
    speeds, errors = [one.speed for one in points], [one.error for one in points]
    lines = wrap(title, _SIZE, _LEFT + _WIDTH)
    top = _LINE * (len(lines) + 0.4)
    scale = LogScale(
        decade_below(min(errors)),
        decade_above(max(errors)),
        min(speeds) / 1.3,
        max(speeds) * 1.3,
        _LEFT,
        top,
        _WIDTH,
        _HEIGHT,
    )
    drawing = Drawing()
    bottom = top + _HEIGHT
    for number, line in enumerate(lines, 1):
        drawing.text(0, number * _LINE, line, _SIZE, bold=True)
    for error in decades(scale.low_x, scale.high_x):
        drawing.line(scale.x(error), top, scale.x(error), bottom, PALE)
        drawing.text(scale.x(error), bottom + _LINE, f"{error:.0e}", _SIZE, fill=SOFT, anchor="middle")
    for speed in _marks(scale.low_y, scale.high_y):
        drawing.line(_LEFT, scale.y(speed), _LEFT + _WIDTH, scale.y(speed), PALE)
        drawing.text(_LEFT - 8, scale.y(speed) + _SIZE / 3, f"{speed:g}", _SIZE, fill=SOFT, anchor="end")
    drawing.rect(_LEFT, top, _WIDTH, _HEIGHT, stroke=FAINT)
    drawing.text(_LEFT + _WIDTH / 2, bottom + 2.2 * _LINE, across, _SIZE, fill=SOFT, anchor="middle")
    drawing.text(_SIZE, top + _HEIGHT / 2, up, _SIZE, fill=SOFT, anchor="middle", rotate=-90)
    places = [(scale.x(one.error), scale.y(one.speed)) for one in points]
    for point, (x, y) in zip(points, places, strict=True):
        drawing.circle(x, y, _RADIUS, point.color, f"{point.label}: {point.speed:.1f}, {point.error:.2e}")
    axes = _Box(_LEFT, top, _LEFT + _WIDTH, bottom)
    axes = _Box(_LEFT, top, _LEFT + _WIDTH, bottom)
    for point, place, box in zip(points, places, _labels(points, places, axes), strict=True):
        if box.away(*place) > _NEAR:
            drawing.line(*place, *box.nearest(*place), point.color)
        drawing.text(box.left, box.bottom - 0.22 * _SIZE, point.label, _SIZE, fill=INK, bold=point.bold)
    return drawing


def _marks(low: float, high: float) -> list[float]:
    return [
        step * decade
        for decade in decades(decade_below(low), decade_above(high))
        for step in _STEPS
        if low <= step * decade <= high
    ]


def _labels(points: Sequence[Point], places: Sequence[tuple[float, float]], axes: _Box) -> list[_Box]:
    """Where labels go: near their points, within the axes, and as far as possible from other points and labels.

    They are placed one after the other, and then again, now that all others have a place.
    """
    reach = _RADIUS + _NEAR
    near = [_Box(x - reach, y - reach, x + reach, y + reach) for x, y in places]
    found: dict[int, _Box] = {}
    for _ in range(_ROUNDS):
        for number, (point, place) in enumerate(zip(points, places, strict=True)):
            others = [*near[:number], *near[number + 1 :], *(box for other, box in found.items() if other != number)]

            def cost(box: _Box, others: Sequence[_Box] = others, place: tuple[float, float] = place) -> float:
                return sum(map(box.overlap, others)) + _outside(box, axes) + _AWAY * max(box.away(*place) - _NEAR, 0.0)

            found[number] = min(_around(point, *place, axes), key=cost)
    return list(found.values())


def _around(point: Point, x: float, y: float, axes: _Box) -> Iterable[_Box]:
    """Boxes of a label to the right and the left of its point, and above and below, the nearest first."""
    width = text_width(point.label, _SIZE) * (1.1 if point.bold else 1.0)
    height, gap = 1.05 * _SIZE, _RADIUS + 4
    for rows in (0, 1, -1, 2, -2, 3, -3):
        top = y - height / 2 + rows * height
        yield _Box(x + gap, top, x + gap + width, top + height)
        yield _Box(x - gap - width, top, x - gap, top + height)
        if rows:
            left = min(max(x - width / 2, axes.left + 4), axes.right - 4 - width)
            yield _Box(left, top, left + width, top + height)


def _outside(box: _Box, axes: _Box) -> float:
    """A penalty for what of a box lies outside of the axes."""
    whole = (box.right - box.left) * (box.bottom - box.top)
    return 10 * (whole - box.overlap(axes))
