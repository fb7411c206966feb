"""Speed against size, a curve for each kernel, labelled at its end, on a logarithmic or a linear axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.report.figures.axes import decade_below, decades
from tilewright.report.figures.palette import owner_color
from tilewright.report.figures.svg import ALARM, FAINT, INK, PALE, SOFT, Drawing

_LEFT, _TOP = 94.0, 34.0
_WIDTH, _HEIGHT = 330.0, 440.0
_SIZE = 17.0
"""Of the letters: legible where a phone shows the drawing 400 pixels wide, at a bit more than half its size."""
_GAP = 20.0
"""Between two labels, at least."""
_LABELS = 34.0
"""From the axes to the labels."""
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
_COLORS = 8
_BASELINE_DASHES = ("", "7 4", "2 4")
_STEPS = 8
"""Labelled values of a linear axis, about."""


@dataclass(frozen=True)
class Curve:
    """One kernel's speeds."""

    label: str
    points: Sequence[tuple[int, float]]
    """Size and GFLOP/s, the sizes rising."""
    is_baseline: bool = False
    is_pick: bool = False
    """Whether it is what `matmul` picks."""
    published: tuple[int, float] | None = None
    """What others measured of it."""


@dataclass(frozen=True)
class _Style:
    color: str
    dash: str = ""
    width: float = 1.7


def ladder_panel(curves: Sequence[Curve], title: str, linear: bool = False, across: str = "m = n = k") -> Drawing:
    """Curves over sizes, which are equally far apart; each has a colour and a dash of its own, and its name at its end.

    Args:
        curves: in the order of their colours.
        title: the text above.
        linear: whether speeds are on a linear axis, from 0; else on a logarithmic one.
        across: what the sizes are of.
    """
    drawing, bottom = Drawing(), _TOP + _HEIGHT
    sizes = sorted({size for curve in curves for size, _ in curve.points})
    speeds = [speed for curve in curves for _, speed in curve.points]
    high, low = (max(speeds) * 1.04, 0.0) if linear else (max(speeds) * 1.5, min(speeds) / 1.5)

    def x(size: float) -> float:
        span = math.log(sizes[-1] / sizes[0]) or 1.0
        return _LEFT + 8 + (_WIDTH - 16) * math.log(size / sizes[0]) / span

    def y(speed: float) -> float:
        share = speed / high if linear else math.log(speed / low) / math.log(high / low)
        return bottom - _HEIGHT * share

    drawing.text(_LEFT, _TOP - 14, title, _SIZE, bold=True)
    for speed in _round_steps(high) if linear else decades(low, high):
        drawing.line(_LEFT, y(speed), _LEFT + _WIDTH, y(speed), PALE)
        drawing.text(_LEFT - 6, y(speed) + _SIZE / 3, f"{speed:,.0f}", _SIZE, fill=SOFT, anchor="end")
    for size in sizes:
        drawing.line(x(size), _TOP, x(size), bottom, PALE)
        if size.bit_count() == 1:
            drawing.text(x(size), bottom + 22, str(size), _SIZE, fill=SOFT, anchor="middle")
    drawing.rect(_LEFT, _TOP, _WIDTH, _HEIGHT, stroke=FAINT)
    drawing.text(_LEFT + _WIDTH / 2, bottom + 46, across, _SIZE, fill=SOFT, anchor="middle")
    drawing.text(_SIZE, _TOP + _HEIGHT / 2, "GFLOP/s", _SIZE, fill=SOFT, anchor="middle", rotate=-90)
    styles = _styles(curves)
    for curve, style in zip(curves, styles, strict=True):
        drawing.path([(x(size), y(speed)) for size, speed in curve.points], style.color, style.width, style.dash)
        for size, speed in curve.points:
            drawing.circle(x(size), y(speed), 2.6, style.color, f"{curve.label}, {size}: {speed:,.0f} GFLOP/s")
        if curve.published:
            _cross(drawing, x(curve.published[0]), y(curve.published[1]), style.color)
    ends = [(x(curve.points[-1][0]), y(curve.points[-1][1])) for curve in curves]
    for curve, style, end, at in zip(curves, styles, ends, _spread([y for _, y in ends]), strict=True):
        left = _LEFT + _WIDTH + _LABELS
        drawing.path([end, (_LEFT + _WIDTH + 4, end[1]), (left - 4, at)], style.color, 0.8, "1 2")
        drawing.path([(left, at), (left + 22, at)], style.color, style.width + 0.6, style.dash)
        drawing.text(left + 28, at + _SIZE / 3, curve.label, _SIZE, bold=curve.is_pick or curve.is_baseline)
    return drawing


def _styles(curves: Sequence[Curve]) -> list[_Style]:
    """What distinguishes each curve from the others."""
    kernels = baselines = 0
    styles = []
    for curve in curves:
        if curve.is_baseline:
            styles.append(_Style(INK, _BASELINE_DASHES[baselines % len(_BASELINE_DASHES)], 2.2))
            baselines += 1
        elif curve.is_pick:
            styles.append(_Style(ALARM, width=2.6))
        else:
            styles.append(_Style(owner_color(kernels), _DASHES[kernels // _COLORS % len(_DASHES)]))
            kernels += 1
    return styles


def _spread(heights: Sequence[float]) -> list[float]:
    """Heights of labels: near those of their curves' ends, and far enough apart to be read."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    found = [0.0] * len(heights)
    lowest = _TOP + 4
    for index in order:
        found[index] = lowest = max(heights[index], lowest)
        lowest += _GAP
    highest = max(_TOP + _HEIGHT + 30, _TOP + 4 + _GAP * (len(heights) - 1))
    for index in reversed(order):
        found[index] = highest = min(found[index], highest)
        highest -= _GAP
    return found


def _round_steps(high: float) -> list[float]:
    """Multiples of a round number from 0 to at most `high`."""
    rough = high / _STEPS
    decade = decade_below(rough)
    step = next(step * decade for step in (1, 2, 5, 10) if step * decade >= rough)
    return [step * number for number in range(int(high / step) + 1)]


def _cross(drawing: Drawing, x: float, y: float, color: str) -> None:
    for rise in (-4, 4):
        drawing.line(x - 4, y - rise, x + 4, y + rise, color, 1.6)
