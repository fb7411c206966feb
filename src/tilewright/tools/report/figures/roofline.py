"""The roofline: how fast each rung ran, over the operations that it makes of each byte, at each level of memory."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.core.gpus import Gpu
from tilewright.kernels.kernel import numbered
from tilewright.tools.report.figures.palette import ink_on, lane_color
from tilewright.tools.report.figures.svg import ALARM, FAINT, INK, PALE, PAPER, SOFT, Drawing

_WIDTH, _HEIGHT = 600.0, 420.0
_RADIUS = 6.5
_LEFT, _TOP = 58.0, 12.0
_L1_BYTES_PER_CLOCK = 128
"""Bytes a clock of a multiprocessor's L1 cache, since compute capability 7.0 (NVIDIA's architecture white papers)."""
_ROOFS = {"L1": "L1 and shared memory", "L2": "L2", "DRAM": "DRAM"}
_LEGEND_GAP = 30.0
_COLUMNS = (190.0, 250.0)
"""Where the numbers of a column of the legend end, from the left edge."""
_ENLARGED, _SECOND = (310.0, 270.0), 392.0
"""Extent of the enlarged part, and where the legend begins next to it."""
SHARED, L2, DRAM = "shared memory", "L2, measured", "DRAM, measured"
"""Levels of memory, apart from what is asked of global memory."""
_MARK = 3.4
"""Half of the extent of a level's mark."""
_LINES_APART = 12.0
"""Pixels from one line through a point's levels to the next, at least."""
_CROWDED = 2.5
"""Points at most this many times slower than the fastest are enlarged."""


@dataclass(frozen=True)
class LogScale:
    """Both axes' ends, the plot's corner and extent in pixels, and where a value lies."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    left: float
    top: float
    width: float
    height: float

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return self.left + self.width * math.log(value / self.low_x) / math.log(self.high_x / self.low_x)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return self.top + self.height * (1 - math.log(value / self.low_y) / math.log(self.high_y / self.low_y))


@dataclass(frozen=True)
class Dot:
    """One measured kernel."""

    rung: int
    name: str
    intensity: float
    """Operations for each byte of the sectors that its loads and stores ask of global memory."""
    gflops: float
    note: str = ""
    """Note in the label, as that it is predicted."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Operations for each byte of SHARED, L2 and DRAM, as far as that was counted."""


def roofline_panel(points: Sequence[Dot], gpu: Gpu, least: float, marked: str = "", baseline: float = 0.0) -> Drawing:
    """Points under the roofs of a GPU: its float32 arithmetic, and what L1, L2 and DRAM deliver.

    Args:
        points: what was measured.
        gpu: where.
        least: operations a byte if each element of A, B and C were moved once.
        marked: name of the kernel to point out.
        baseline: GFLOP/s of cuBLAS, where what it moves was not counted; 0 for none.
    """
    roofs = {
        "L1": _L1_BYTES_PER_CLOCK * gpu.multiprocessors * gpu.clock_mhz / 1e3,
        "L2": gpu.l2_bytes_per_clock * gpu.clock_mhz / 1e3,
        "DRAM": gpu.dram_gbs,
    }
    peak = gpu.tflops * 1e3
    at_levels = [intensity for point in points for intensity in point.levels.values()]
    xs = [least, peak / max(roofs.values()) / 2, *(point.intensity for point in points), *at_levels]
    ys = [peak * 1.5, peak / 20, *(point.gflops for point in points)]
    low_x, low_y = (10.0 ** math.floor(math.log10(min(values))) for values in (xs, ys))
    high_x = 10.0 ** math.ceil(math.log10(max(xs)))
    scale = LogScale(low_x, high_x, low_y, max(ys), _LEFT, _TOP, _WIDTH, _HEIGHT)
    drawing = Drawing()
    _draw_axes(drawing, scale)
    for name, gbs in roofs.items():
        ridge = peak / gbs
        start = max(scale.low_x, scale.low_y / gbs)
        drawing.line(scale.x(start), scale.y(start * gbs), scale.x(ridge), scale.y(peak), SOFT, 1.3)
        slope = math.degrees(math.atan2(scale.y(start) - scale.y(10 * start), scale.x(10 * start) - scale.x(start)))
        at = ridge / 8
        drawing.text(
            scale.x(at), scale.y(at * gbs) - 6, f"{_ROOFS[name]} {gbs / 1e3:.1f} TB/s", 10, fill=SOFT, rotate=-slope
        )
    flat = peak / roofs["L1"]
    drawing.line(scale.x(flat), scale.y(peak), _LEFT + _WIDTH, scale.y(peak), INK, 1.6)
    peak_text = f"{gpu.name}, float32: {gpu.tflops:.0f} TFLOP/s"
    drawing.text(_LEFT + _WIDTH - 8, scale.y(peak) - 6, peak_text, 10.5, anchor="end")
    drawing.line(scale.x(least), _TOP, scale.x(least), _TOP + _HEIGHT, FAINT, 1.4, "2 3")
    drawing.text(scale.x(least) - 4, _TOP + _HEIGHT - 8, "each element moved once", 10, fill=SOFT, rotate=-90)
    if baseline:
        drawing.line(_LEFT, scale.y(baseline), _LEFT + _WIDTH, scale.y(baseline), INK, 1.2, "6 4")
        drawing.text(_LEFT + 6, scale.y(baseline) - 5, f"cuBLAS {baseline:,.0f}", 10.5, bold=True)
    last = max((point.rung for point in points), default=1)
    crowd = [point for point in points if point.gflops * _CROWDED >= max(one.gflops for one in points)]
    crowd = crowd if len(crowd) > 2 else []
    _draw_levels(drawing, points, scale, marked, last)
    _draw_points(drawing, [point for point in points if point not in crowd], scale, marked, last)
    for point in crowd:
        color = ALARM if point.name == marked else _color(point, last)
        drawing.circle(scale.x(point.intensity), scale.y(point.gflops), 3, color)
    if crowd:
        _draw_enlarged(drawing, crowd, scale, marked, last)
    _draw_legend(drawing, points, marked, last, _SECOND if crowd else 0.0)
    return drawing


def _draw_points(drawing: Drawing, points: Sequence[Dot], scale: LogScale, marked: str, last: int) -> None:
    """A circle for each point; one for points that would cover each other, with all their numbers next to it."""
    groups: list[list[Dot]] = []
    for point in sorted(points, key=lambda one: (one.name != marked, one.rung)):
        near = (of for of in groups if _apart(scale, of[0], point) < 1.5 * _RADIUS)
        if of := next(near, None):
            of.append(point)
        else:
            groups.append([point])
    for of in reversed(groups):
        color, x, y = _color(of[0], last), scale.x(of[0].intensity), scale.y(of[0].gflops)
        speeds = (f"{one.gflops:,.0f} GFLOP/s, {one.intensity:.2f} FLOP/byte {one.note}" for one in of)
        titles = (f"{numbered(one.rung, one.name)}: {text}".strip() for one, text in zip(of, speeds, strict=True))
        if of[0].name == marked:
            drawing.circle(x, y, _RADIUS + 2.5, ALARM)
        drawing.circle(x, y, _RADIUS, color, "; ".join(titles))
        if len(of) > 1:
            numbers = ", ".join(str(rung) for rung in sorted(one.rung for one in of))
            drawing.text(x + _RADIUS + 4, y + 4, numbers, 11, bold=True)
        else:
            drawing.text(x, y + 3.4, str(of[0].rung or ""), 9.5, fill=ink_on(color), anchor="middle", bold=True)


def _apart(scale: LogScale, one: Dot, other: Dot) -> float:
    """Pixels between two points."""
    return math.hypot(
        scale.x(one.intensity) - scale.x(other.intensity), scale.y(one.gflops) - scale.y(other.gflops)
    )  # fmt: skip


def _draw_levels(drawing: Drawing, points: Sequence[Dot], scale: LogScale, marked: str, last: int) -> None:
    """Marks of the levels of memory, on a line through their point that ends in the rung's number; of points at one
    height, those of the marked one or of the first."""
    drawn: list[float] = []
    for point in sorted(points, key=lambda one: (one.name != marked, one.rung or math.inf)):
        color, y = _color(point, last), scale.y(point.gflops)
        if not point.levels or any(abs(y - other) < _LINES_APART for other in drawn):
            continue
        drawn.append(y)
        places = [scale.x(one) for one in (point.intensity, *point.levels.values())]
        drawing.line(min(places), y, max(places), y, color, 0.8)
        drawing.text(max(places) + 8, y + 3.5, str(point.rung or point.name), 10.5, bold=True)
        for level, intensity in point.levels.items():
            title = f"{numbered(point.rung, point.name)}, {level}: {intensity:.3g} FLOP/byte"
            _draw_mark(drawing, level, scale.x(intensity), y, color, title)


def _draw_mark(drawing: Drawing, level: str, x: float, y: float, color: str, title: str = "") -> None:
    """The mark of a level: a square, a triangle or a diamond."""
    r = _MARK
    if level == SHARED:
        drawing.rect(x - r, y - r, 2 * r, 2 * r, color, stroke=PAPER, stroke_width=0.6, title=title or None)
    elif level == L2:
        drawing.polygon([(x, y - r - 1), (x + r + 1, y + r), (x - r - 1, y + r)], color, title)
    else:
        drawing.polygon([(x, y - r - 1), (x + r + 1, y), (x, y + r + 1), (x - r - 1, y)], color, title)


def _color(point: Dot, last: int) -> str:
    """A rung's colour; ink of what is no rung."""
    return lane_color(point.rung - 1, last) if point.rung else SOFT


def _draw_enlarged(drawing: Drawing, crowd: Sequence[Dot], scale: LogScale, marked: str, last: int) -> None:
    """The fastest points again, enlarged, below the plot."""
    left, top = _LEFT, _TOP + _HEIGHT + _LEGEND_GAP + 62
    xs, ys = [point.intensity for point in crowd], [point.gflops for point in crowd]
    ends = min(xs) / 1.2, max(xs) * 1.2, min(ys) / 1.1, max(ys) * 1.1
    inside = LogScale(*ends, left, top, *_ENLARGED)
    x, y, right = scale.x(ends[0]), scale.y(ends[3]), scale.x(ends[1])
    drawing.rect(x, y, right - x, scale.y(ends[2]) - y, stroke=SOFT, stroke_width=0.7)
    drawing.text(left, top - 6, "The fastest, in the rectangle, enlarged", 11, fill=SOFT)
    drawing.rect(left, top, *_ENLARGED, stroke=SOFT, stroke_width=0.7)
    for value in (step * ten for ten in decades(ends[0] / 10, ends[1]) for step in (1, 2, 3, 5)):
        if ends[0] < value < ends[1]:
            drawing.text(inside.x(value), top + _ENLARGED[1] + 15, f"{value:g}", 10, fill=SOFT, anchor="middle")
    for value in (step * ten for ten in decades(ends[2] / 10, ends[3]) for step in range(1, 10)):
        if ends[2] < value < ends[3]:
            drawing.text(left - 6, inside.y(value) + 4, f"{value:,.0f}", 10, fill=SOFT, anchor="end")
    _draw_points(drawing, crowd, inside, marked, last)


def _draw_legend(drawing: Drawing, points: Sequence[Dot], marked: str, last: int, left: float) -> None:
    """Below the plot, from `left` on: the marks of levels, and the points."""
    levels = dict.fromkeys(level for point in points for level in point.levels)
    x, y = _LEFT + 6, _TOP + _HEIGHT + _LEGEND_GAP + 24
    if levels:
        drawing.circle(x, y, 4.5, SOFT)
        drawing.text(x + 12, y + 4, "asked of global memory", 10.5, fill=SOFT)
    for level in levels:
        x += 165 if level == next(iter(levels)) else 130
        _draw_mark(drawing, level, x, y, SOFT)
        drawing.text(x + 12, y + 4, level, 10.5, fill=SOFT)
    left, top = left + 14, y + 50
    for end, head in zip(_COLUMNS, ("FLOP/byte", "GFLOP/s"), strict=True):
        drawing.text(left + end, top - 16, head, 9.5, fill=SOFT, anchor="end")
    for line, point in enumerate(sorted(points, key=lambda one: one.rung)):
        y, bold = top + line * 17, point.name == marked
        drawing.circle(left, y, 6, _color(point, last))
        name = numbered(point.rung, point.name) + (f", {point.note}" if point.note else "")
        drawing.text(left + 12, y + 4, name, 11, bold=bold)
        numbers = (f"{point.intensity:.3g}", f"{point.gflops:,.0f}")
        for end, number in zip(_COLUMNS, numbers, strict=True):
            drawing.text(left + end, y + 4, number, 10.5, anchor="end", bold=bold)
    drawing.width = max(drawing.width, left + _COLUMNS[-1])


def _draw_axes(drawing: Drawing, scale: LogScale) -> None:
    bottom = _TOP + _HEIGHT
    for value in decades(scale.low_x, scale.high_x):
        drawing.line(scale.x(value), _TOP, scale.x(value), bottom, PALE, 1)
        drawing.text(scale.x(value), bottom + 15, f"{value:g}", 10, fill=SOFT, anchor="middle")
    for value in decades(scale.low_y, scale.high_y):
        drawing.line(_LEFT, scale.y(value), _LEFT + _WIDTH, scale.y(value), PALE, 1)
        drawing.text(_LEFT - 6, scale.y(value) + 4, f"{value:,.0f}", 10, fill=SOFT, anchor="end")
    drawing.rect(_LEFT, _TOP, _WIDTH, _HEIGHT, stroke=FAINT)
    caption = "FLOP for each byte at a level of memory"
    drawing.text(_LEFT + _WIDTH / 2, bottom + 34, caption, 11, fill=SOFT, anchor="middle")
    drawing.text(12, _TOP + _HEIGHT / 2, "GFLOP/s", 11, fill=SOFT, anchor="middle", rotate=-90)


def decades(low: float, high: float) -> list[float]:
    """The powers of ten from low to high."""
    return [10.0**power for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
