"""Charts of pages, as SVG, with matplotlib (the `docs` extra): the same bytes of the same numbers, for light and dark
pages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import pairwise
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from matplotlib.transforms import Bbox

from tilewright.tools.report.figures.palette import owner_color
from tilewright.tools.report.figures.svg import ALARM, FAINT, INK, ON_DARK, ON_LIGHT, PALE, PAPER, SOFT, dark_style

_WIDTH, _SIZE = 9.0, 17.0
"""Inches, and points of the letters: legible where a phone shows the chart 400 pixels wide."""
_LEGEND_LINE = 0.36
_ROOM_FOR_ENDS, _ONE_END, _ROUNDS, _TALLER = 3.6, 7, 400, 1.6
"""For numbers at curves' ends: how much further x reaches for them, points within which ends coincide, how often
overlapping neighbours are moved apart, and how much taller a panel with them is."""
_STYLE: Any = {
    "svg.hashsalt": "tilewright",
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans"],
    "figure.dpi": 72,
    "font.size": _SIZE,
    "axes.titlesize": _SIZE,
    "axes.titleweight": "bold",
    "figure.titlesize": _SIZE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "lines.markersize": 4,
    "grid.color": PALE,
    "axes.edgecolor": FAINT,
    "text.color": INK,
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), PAPER),
    **dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color"), SOFT),
}
"""Colours that dark pages replace."""
DASHES = ("-", (0, (4, 2)), (0, (1, 2)), (0, (5, 2, 1, 2)))
_COLORS = 8
_PLACES = [
    (side * (10 + 6 * abs(rows)), 19 * rows, {1: "left", -1: "right", 0: "center"}[side])
    for rows in (0, 1, -1, 2, -2, 3, -3)
    for side in ((1, -1) if rows == 0 else (1, -1, 0))
]
"""Where the label of a point may be, in points from it, and which end of the label: the nearest first."""


class Curve(NamedTuple):
    """A line through points."""

    label: str
    """Its name in the legend, which curves may share; one that begins with an underscore is not there."""
    points: Sequence[tuple[float, float]]
    style: Mapping[str, Any] = {}
    """Further arguments of `Axes.plot`: color, linestyle."""
    number: int = 0
    """Written at its right end; 0 is not."""


class Panel(NamedTuple):
    """Curves that share axes."""

    heading: str
    curves: Sequence[Curve]
    linear: bool = False
    """Whether the axis of y is linear and begins at 0; else it is logarithmic."""


class Point(NamedTuple):
    """One way to do what others do too."""

    label: str
    x: float
    y: float
    color: str
    bold: bool = False


PICK = {"color": ALARM, "linewidth": 2.6}
"""The style of what `matmul` picks."""


def style(number: int) -> dict[str, Any]:
    """Colour and dashes that distinguish the number-th curve of a chart from others."""
    return {"color": owner_color(number), "linestyle": DASHES[number // _COLORS % len(DASHES)]}


def baseline_style(number: int) -> dict[str, Any]:
    """Ink, and dashes that distinguish the number-th baseline from others."""
    return {"color": INK, "linestyle": DASHES[number % len(DASHES)], "linewidth": 2.2}


def curves(
    panels: Sequence[Panel], across: str, up: str, form: str = "{x:,.0f}", base: int | None = 2, **plotted: Any
) -> str:
    """Panels below each other, and below them what each line is, in the order of the first panel's ends.

    Args:
        panels: what is drawn.
        across, up: captions of the axes.
        form: format of values along y.
        base: of a logarithmic x, whose powers are labelled; None: x is linear.
        plotted: style of all curves.
    """
    ends = {curve.label: curve.points[-1][1] for panel in reversed(panels) for curve in panel.curves}
    shown = sorted((label for label in ends if not label.startswith("_")), key=lambda label: -ends[label])
    lines = -(-len(shown) // 2) if len(shown) > 3 else len(shown)
    height = 4.6 if len(panels) < 3 else 3.6
    heights = [height * (_TALLER if any(curve.number for curve in panel.curves) else 1) for panel in panels]
    with _drawn(_WIDTH, sum(heights) + _LEGEND_LINE * lines) as (figure, drawn):
        every = figure.subplots(len(panels), squeeze=False, height_ratios=heights)[:, 0]
        handles: dict[str, Any] = {}
        for axes, panel in zip(every, panels, strict=True):
            for curve in panel.curves:
                xs, ys = zip(*curve.points, strict=True)
                (handles[curve.label],) = axes.plot(xs, ys, **{"marker": "o", **plotted, **curve.style})
            if base:
                axes.set_xscale("log", base=base)
            axes.set(title=panel.heading, xlabel=across, ylabel=up)
            axes.set_yscale("linear" if panel.linear else "log")
            if panel.linear:
                axes.set_ylim(bottom=0)
            axes.xaxis.set_major_formatter("{x:,.0f}" if base == 10 else "{x:.0f}")
            axes.yaxis.set_major_formatter(form)
            axes.minorticks_off()
        named = [handles[label] for label in shown]
        figure.legend(named, shown, loc="outside lower left", ncols=2 if len(shown) > 3 else 1)
        for axes, panel in zip(every, panels, strict=True):
            _label_ends(figure, axes, panel)
    return drawn.getvalue()


def _label_ends(figure: Figure, axes: Any, panel: Panel) -> None:
    """Write numbers at the right ends of curves: one text for ends of one colour that coincide, above each other where
    they would overlap, each with a line from its end."""
    ending = sorted((curve for curve in panel.curves if curve.number), key=lambda curve: curve.points[-1][1])
    if not ending:
        return
    left, right = axes.get_xlim()
    axes.set_xticks([tick for tick in axes.get_xticks() if left <= tick <= right])
    axes.set_xlim(right=right * _ROOM_FOR_ENDS)
    figure.draw_without_rendering()
    found: list[tuple[float, list[Curve]]] = []
    for curve in ending:
        end = axes.transData.transform(curve.points[-1])[1]
        near = (of for at, of in found if end - at < _ONE_END and of[0].style["color"] == curve.style["color"])
        if of := next(near, None):
            of.append(curve)
        else:
            found.append((end, [curve]))
    places = [end for end, _ in found]
    for low in list(range(len(places) - 1)) * _ROUNDS:
        overlap = max(0.0, _SIZE - (places[low + 1] - places[low]))
        places[low : low + 2] = places[low] - overlap / 2, places[low + 1] + overlap / 2
    for (end, of), place in zip(found, places, strict=True):
        line = {"arrowstyle": "-", "color": of[0].style["color"], "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3}
        given: dict[str, Any] = {"textcoords": "offset points", "va": "center", "arrowprops": line}
        text = ", ".join(str(number) for number in sorted(curve.number for curve in of))
        axes.annotate(text, of[0].points[-1], (20, place - end), **given)


def points(shown: Sequence[Point], title: str, across: str, up: str) -> str:
    """Labelled points on logarithmic axes."""
    with _drawn(_WIDTH, 8.0) as (figure, drawn):
        axes = figure.subplots()
        axes.set(xscale="log", yscale="log", title=title, xlabel=across, ylabel=up)
        axes.title.set_wrap(True)
        for one in shown:
            axes.plot(one.x, one.y, "o", color=one.color, markersize=9)
        axes.margins(0.08, 0.12)
        axes.xaxis.set_major_formatter("{x:.0e}")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        label(figure, axes, shown)
    return drawn.getvalue()


def label(figure: Figure, axes: Any, shown: Sequence[Point]) -> list[Bbox]:
    """Write the labels of points next to them, where they cover neither points nor other labels; returns the boxes."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # it would move the axes for the labels' sake
    places = [axes.transData.transform((one.x, one.y)) for one in shown]
    taken = [Bbox.from_extents(x - 7, y - 7, x + 7, y + 7) for x, y in places]
    inside = axes.get_window_extent()
    for one in shown:
        for right, above, align in _PLACES:
            given: dict[str, Any] = {"xytext": (right, above), "textcoords": "offset points"}
            weight = "bold" if one.bold else "normal"
            text = axes.annotate(one.label, (one.x, one.y), ha=align, va="center", weight=weight, **given)
            box = text.get_window_extent()
            free = not box.count_overlaps(taken) and inside.x0 < box.x0 and box.x1 < inside.x1
            if free or (right, above, align) == _PLACES[-1]:
                taken.append(box)
                if above:
                    axes.annotate("", (one.x, one.y), arrowprops={"arrowstyle": "-", "color": one.color}, **given)
                break
            text.remove()
    return taken[len(shown) :]


class Map(NamedTuple):
    """Values by two parameters."""

    across: str
    up: str
    columns: Sequence[int]
    rows: Sequence[int]
    cells: Sequence[Sequence[float | None]]


def maps(shown: Sequence[Map], title: str, caption: str) -> str:
    """Maps below each other, all on one scale of colours, whose caption is given."""
    grids = [np.array(one.cells, dtype=float) for one in shown]
    low, high = (choose([choose(grid) for grid in grids]) for choose in (np.nanmin, np.nanmax))
    with _drawn(_WIDTH, 4.6 * len(shown)) as (figure, drawn):
        every = figure.subplots(len(shown), squeeze=False)[:, 0]
        for axes, one, grid in zip(every, shown, grids, strict=True):
            image = axes.imshow(grid, origin="lower", cmap="viridis", vmin=low, vmax=high, aspect="auto")
            axes.set(xlabel=one.across, ylabel=one.up)
            axes.set_xticks(range(len(one.columns)), list(map(str, one.columns)))
            axes.set_yticks(range(len(one.rows)), list(map(str, one.rows)))
            axes.grid(visible=False)
            for row, column in np.argwhere(~np.isnan(grid)):
                ink = ON_DARK if grid[row, column] < (low + high) / 2 else ON_LIGHT
                axes.text(column, row, f"{grid[row, column]:,.0f}", ha="center", va="center", color=ink)
        figure.suptitle(title, weight="bold", wrap=True)
        figure.colorbar(image, ax=list(every), label=caption)
    return drawn.getvalue()


@contextmanager
def _drawn(width: float, height: float) -> Iterator[tuple[Figure, StringIO]]:
    """A figure to draw on, and what will hold its SVG file once the `with` block is left."""
    text, drawn = StringIO(), StringIO()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, drawn
        figure.savefig(text, format="svg", metadata={"Date": None})
    dark = f"<style>{dark_style(inline=True)}</style>"
    svg = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", text.getvalue())  # two decimals are enough
    drawn.write(svg.replace("</style>", f"</style>\n  {dark}", 1))


def histograms(panels: Sequence[tuple[str, Sequence[int]]], edges: Sequence[float], across: str, up: str) -> str:
    """Panels below each other, of counts between edges on a logarithmic axis; what is below 1 in another colour.

    Args:
        panels: heading and counts of each.
        edges: of the bars, one more than counts.
        across, up: captions of the axes.
    """
    with _drawn(_WIDTH, 3.4 * len(panels)) as (figure, drawn):
        every = figure.subplots(len(panels), squeeze=False)[:, 0]
        widths = [high - low for low, high in pairwise(edges)]
        colors = [owner_color(1) if high <= 1 + 1e-9 else owner_color(0) for high in edges[1:]]
        for axes, (heading, counts) in zip(every, panels, strict=True):
            axes.bar(edges[:-1], counts, widths, align="edge", color=colors, edgecolor=PAPER)
            axes.axvline(1, color=INK, linewidth=1.2)
            axes.set_xscale("log", base=2)
            axes.set(title=heading, xlabel=across, ylabel=up)
            axes.set_xticks([0.5, 0.7, 1, 1.4, 2, 2.8, 4])
            axes.xaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
    return drawn.getvalue()
