"""The charts of a page, as plotly takes them: speed against size, ratios, roofline, times of the emulator.

Colours are named as the page's CSS variables, `var(--NAME)`; its script puts the theme's values in their place. A trace
says in `meta` which file it is of, so that files can be switched off.
"""

import html
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.core.gpus import Gpu
from tilewright.tools.report.html.series import Point, Series, baselines, words, work
from tilewright.tools.report.html.sources import Source

Figure = dict[str, Any]
"""A chart: its `data`, a list of traces, and its `layout`."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")
"""Symbols of the files of a page, in this order."""

RATIO_TICKS, CHANGE_TICKS = (0.25, 0.5, 1.0, 2.0, 4.0), (0.5, 0.8, 1.0, 1.25, 2.0)
"""Where the scales of ratios to a baseline and of ratios between files are labelled; they end at the outer ones."""

_CELL_WIDTH, _CELL_HEIGHT = 40, 24
"""Pixels of a cell in a map of ratios, the width at least."""

_SIZE_TITLE = "m = n = k, or cube root of m n k"


def speed(some: Sequence[Point], sources: Sequence[Source]) -> Figure:
    """GFLOP/s against size, both logarithmic: a line a kernel and file, other shapes as open symbols next to it.

    The lines go through the squares whose size is a power of two; where there are less than two, through all squares.
    """
    powers = {point.size for point in some if point.square and point.record.m.bit_count() == 1}
    regular = powers if len(powers) > 1 else {point.size for point in some if point.square}
    apart = in_several_files(some)
    data: list[Figure] = []
    for line in _lines(some, sources):
        file = sources.index(line.points[0].source)
        style = file * apart
        symbol, dash = SYMBOLS[style % len(SYMBOLS)], DASHES[style % len(DASHES)]
        for lined in (True, False):
            chosen = [point for point in line.points if (point.square and point.size in regular) == lined]
            if not chosen:
                continue
            trace = _trace(line.name, file, line.colour, chosen)
            trace |= {"x": [point.size for point in chosen], "y": [point.timed.gflops for point in chosen]}
            trace["mode"] = "lines+markers" if lined else "markers"
            trace["marker"] |= {"symbol": symbol if lined else f"{symbol}-open", "size": 6 if lined else 8}
            if lined:
                trace["line"] = {"color": line.colour, "dash": dash, "width": 3 if chosen[0].of_baseline else 1.8}
            data.append(trace)
    logarithms = [math.log2(point.size) for point in some]
    ticks = [2**power for power in range(math.floor(min(logarithms)), math.ceil(max(logarithms)) + 1)]
    x = {"type": "log", "title": {"text": _SIZE_TITLE}, "tickvals": ticks, "ticktext": list(map(str, ticks))}
    return {"data": data, "layout": {"xaxis": x, "yaxis": _logarithmic("GFLOP/s", data, "y"), "height": 620}}


def ratios(some: Sequence[Point]) -> Figure:
    """The ratio to the baseline of every kernel (across) on every shape (down), on a logarithmic scale of colours."""
    compared = [point for point in some if point.record.ratio]
    names = row_names(compared)
    cells = {(names[point.series, point.source.label], point.shape): point for point in compared}
    values = {place: point.record.ratio or 0.0 for place, point in cells.items()}
    texts = {place: words(point) for place, point in cells.items()}
    return ratio_map(list(names.values()), shapes_of(compared), values, texts, RATIO_TICKS)


def ratio_map(
    names: Sequence[str],
    shapes: Sequence[str],
    values: Mapping[tuple[str, str], float],
    texts: Mapping[tuple[str, str], str],
    ticks: Sequence[float],
) -> Figure:
    """A map of ratios, each with words for hovering over it, by name (across) and shape (down).

    There may be many shapes, so the map is as long as they are many; it is as wide as its page, or wider where the page
    is too narrow for the numbers. Its scale of colours is logarithmic, with 1 in the middle, and labelled at the ticks.
    """
    places = [[(name, shape) for name in names] for shape in shapes]
    limit = math.log2(ticks[-1])
    trace: Figure = {
        "type": "heatmap",
        "x": list(map(escaped, names)),
        "y": list(map(escaped, shapes)),
        "z": [[math.log2(values[place]) if place in values else None for place in row] for row in places],
        "text": [[f"{values[place]:.2f}" if place in values else "" for place in row] for row in places],
        "hovertext": [[texts.get(place, "") for place in row] for row in places],
        "texttemplate": "%{text}",
        "hovertemplate": "%{hovertext}<extra></extra>",
        "hoverongaps": False,
        "xgap": 2,
        "ygap": 2,
        "zmin": -limit,
        "zmax": limit,
        "colorscale": [[0, "var(--slower)"], [0.5, "var(--even)"], [1, "var(--faster)"]],
        "colorbar": {
            "tickvals": [math.log2(tick) for tick in ticks],
            "ticktext": [f"{tick:g}x" for tick in ticks],
            "outlinewidth": 0,
            "thickness": 12,
        },
    }
    x = {"type": "category", "tickangle": -45, "side": "top", "showgrid": False, "automargin": True}
    y = {"type": "category", "autorange": "reversed", "showgrid": False, "automargin": True}
    layout = {"xaxis": x, "yaxis": y, "height": 190 + _CELL_HEIGHT * len(shapes)}
    return {"data": [trace], "layout": layout | {"meta": {"least_width": 240 + _CELL_WIDTH * len(names)}}}


def roofline(some: Sequence[Point], sources: Sequence[Source]) -> Figure:
    """GFLOP/s against operations a byte, under what each GPU's memory and its arithmetic allow."""
    intensities = [point.intensity for point in some]
    ends = (min(intensities) / 2, max(intensities) * 2)
    apart = in_several_files(some)
    roofs = _roofs(some)
    gpus = list(dict.fromkeys(gpu for gpu, _ in roofs))
    data = [_roof(gpu, kind, ends, DASHES[gpus.index(gpu) % len(DASHES)]) for gpu, kind in roofs]
    for line in _lines(some, sources):
        file = sources.index(line.points[0].source)
        symbol = SYMBOLS[file * apart % len(SYMBOLS)]
        trace = _trace(line.name, file, line.colour, line.points)
        trace |= {"x": [point.intensity for point in line.points], "y": [point.timed.gflops for point in line.points]}
        trace["mode"] = "markers"
        trace["marker"] |= {"symbol": f"{symbol}-open" if line.points[0].of_baseline else symbol, "size": 8}
        data.append(trace)
    x = _logarithmic("operations a byte (A, B, C once)", data, "x")
    layout = {"xaxis": x, "yaxis": _logarithmic("GFLOP/s", data, "y"), "height": 620}
    peaks = [_peak(gpu, kind, ends[1]) for gpu, kind in roofs] if len(gpus) == 1 else []  # those of several overlap
    return {"data": data, "layout": layout | {"annotations": peaks}}


def emulator_times(some: Sequence[Point], sources: Sequence[Source]) -> Figure:
    """Seconds that the emulator took, a column a kernel; a shape has a colour, a file a symbol."""
    shapes = shapes_of(some)
    data: list[Figure] = []
    for file, source in enumerate(sources):
        for index, shape in enumerate(shapes):
            chosen = [point for point in some if point.source is source and point.shape == shape]
            if not chosen:
                continue
            titled = [(point.series.title, point) for point in chosen]
            titled += [(name, point) for name, [point] in baselines(chosen).items()]  # a baseline is one point a shape
            name = f"{shape}, {source.label}" if len(sources) > 1 else shape
            trace = _trace(name, file, f"var(--shape-{index % 6})", [point for _, point in titled])
            trace["x"] = [escaped(title) for title, _ in titled]
            trace["y"] = [point.timed.time_us.median / 1e6 for _, point in titled]
            trace["mode"] = "markers"
            trace["marker"] |= {"symbol": SYMBOLS[file % len(SYMBOLS)], "size": 11}
            data.append(trace)
    order = [escaped(series.title) for series in in_order(some)]
    x = {"type": "category", "tickangle": -45, "automargin": True, "categoryarray": order}
    y = _logarithmic("emulator time, seconds (not GPU times)", data, "y")
    return {"data": data, "layout": {"xaxis": x, "yaxis": y, "height": 480, "showlegend": True}}


def shapes_of(some: Sequence[Point]) -> list[str]:
    """The shapes of these points in the order of their work."""
    return list(dict.fromkeys(point.shape for point in sorted(some, key=lambda point: work(point.record))))


def in_order(some: Sequence[Point]) -> list[Series]:
    """The series of these points in the order of the legend."""
    return sorted({point.series for point in some})


def in_several_files(some: Sequence[Point]) -> bool:
    """Whether the files have to be distinguished, because several hold the same series."""
    places = {(point.series, point.source.label) for point in some}
    return len(places) > len({series for series, _ in places})


def row_names(some: Sequence[Point]) -> dict[tuple[Series, str], str]:
    """The title by series and label of the file, in the legend's order; with the file where several have the series."""
    in_files = dict.fromkeys((point.series, point.source.label) for point in some)
    places = sorted(in_files, key=lambda place: place[0])
    files = Counter(series for series, _ in places)
    return {(series, file): series.title + f", {file}" * (files[series] > 1) for series, file in places}


def escaped(text: str) -> str:
    """Text as plotly shows it, which takes some HTML for markup."""
    return html.escape(text, quote=False)


class _SeriesLine(NamedTuple):
    """Points of one series, or of one baseline, in one file, with its name and colour."""

    name: str
    colour: str
    points: Sequence[Point]


def _lines(some: Sequence[Point], sources: Sequence[Source]) -> list[_SeriesLine]:
    """The lines of these points: each series in the legend's order, file by file; then the baselines."""
    lines: list[_SeriesLine] = []
    for index, series in enumerate(in_order(some)):
        colour = "var(--accent)" if series.picked else f"var(--series-{index})"
        for source in sources:
            if chosen := [point for point in some if point.series == series and point.source is source]:
                lines.append(_SeriesLine(series.title, colour, chosen))
    for source in sources:
        for name, chosen in baselines([point for point in some if point.source is source]).items():
            exact = chosen[0].record.arithmetic == "float32"
            lines.append(_SeriesLine(name, "var(--ink)" if exact else "var(--muted)", chosen))
    return lines


def _trace(name: str, file: int, colour: str, some: Sequence[Point]) -> Figure:
    return {
        "type": "scatter",
        "name": escaped(name),
        "legendgroup": name,
        "meta": {"file": file},
        "marker": {"color": colour},
        "text": list(map(words, some)),
        "hovertemplate": "%{text}<extra></extra>",
    }


def _roofs(some: Sequence[Point]) -> list[tuple[Gpu, str]]:
    """The GPUs with the kinds of arithmetic measured there, one of those that are equally fast; float32 first."""
    found: dict[tuple[Gpu, float], str] = {}
    for point in sorted(some, key=lambda point: point.record.arithmetic != "float32"):
        if gpu := point.source.gpu:
            found.setdefault((gpu, gpu.peak_tflops(point.record.arithmetic)), point.record.arithmetic)
    return [(gpu, kind) for (gpu, _), kind in found.items()]


def _roof(gpu: Gpu, kind: str, ends: tuple[float, float], dash: str) -> Figure:
    """The lower of what memory and a kind of arithmetic allow, from end to end in operations a byte."""
    exact, peak = kind == "float32", 1e3 * gpu.peak_tflops(kind)
    ridge = peak / gpu.dram_gbs
    turns = [ends[0], *([ridge] if ends[0] < ridge < ends[1] else []), ends[1]]
    text = f"DRAM {gpu.dram_gbs:,.0f} GB/s, {kind} {peak / 1e3:,.1f} TFLOP/s at {gpu.clock_mhz} MHz"
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escaped(f"roof of {gpu.name}" if exact else f"roof of {gpu.name}, {kind}"),
        "x": turns,
        "y": [min(gpu.dram_gbs * turn, peak) for turn in turns],
        "text": [f"<b>{escaped(gpu.name)}</b><br>{escaped(text)}<br>ridge at {ridge:.1f} operations a byte"]
        * len(turns),
        "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": "var(--ink)" if exact else "var(--muted)", "width": 2, "dash": dash},
    }


def _peak(gpu: Gpu, kind: str, end: float) -> Figure:
    """The name of a roof at its right end; places on logarithmic axes are exponents of ten."""
    peak = 1e3 * gpu.peak_tflops(kind)
    return {
        "text": escaped(f"{kind} peak of {gpu.name}: {peak / 1e3:,.1f} TFLOP/s"),
        "x": math.log10(0.99 * end),  # at the end itself rounding may put it outside, where it is not shown
        "y": math.log10(min(peak, gpu.dram_gbs * end)),
        "xanchor": "right",
        "yanchor": "bottom",
        "showarrow": False,
    }


def _logarithmic(title: str, data: Sequence[Figure], axis: str) -> Figure:
    """An axis for these traces; one that spans more than two decades is labelled at the powers of ten alone."""
    values = [value for trace in data for value in trace[axis]]
    labels = {"dtick": 1} if max(values) > 100 * min(values) else {}
    return {"type": "log", "title": {"text": title}, "exponentformat": "none", "separatethousands": True, **labels}
