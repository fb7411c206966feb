"""Charts of pages, and that they can be read."""

import itertools
import re
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from studies import charts
from studies.charts import Curve, Map, Panel, Point, curves, maps, points
from tilewright.tools.report.figures.svg import INK, PAPER, SOFT

RUNGS = [
    Curve(f"{rung} rung", [(64, 10.0 + rung), (128, 100.0 + rung)], charts.style(rung - 1)) for rung in range(1, 28)
]
CUBLAS = [Curve(f"cuBLAS {number}", [(64, 2.0), (128, 50.0)], charts.baseline_style(number)) for number in range(3)]
PICKED = Curve("what matmul picks", [(64, 1.0), (128, 200.0)], charts.PICK)


def texts(svg):
    """All texts of an SVG file."""
    return [
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def sizes(svg):
    """Sizes of all texts, over the width of the chart."""
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    return [float(size) / width for size in re.findall(r"<text[^>]*font(?:-size)?:[^;]*?([\d.]+)px", svg)]


def test_curves_differ_in_colour_or_dash_and_are_in_a_legend_in_the_order_of_their_ends():
    svg = curves([Panel("one", [*RUNGS, *CUBLAS, PICKED]), Panel("other", RUNGS, linear=True)], "size", "speed")
    labels = [text for text in texts(svg) if re.match(r"\d+ rung|cuBLAS|what", text)]
    assert labels[:3] == ["what matmul picks", "27 rung", "26 rung"] and labels[-4] == "1 rung"
    assert len(labels) == len(set(labels)) == 31
    styles = {tuple(sorted(map(str, one.style.items()))) for one in (*RUNGS, *CUBLAS, PICKED)}
    assert len(styles) == 31
    assert {"one", "other", "size", "speed"} <= set(texts(svg))


def test_what_begins_with_an_underscore_is_in_no_legend():
    svg = curves([Panel("", [RUNGS[0], Curve("_1", [(64, 3.0)], {"marker": "x"})])], "", "")
    assert "1 rung" in texts(svg) and "_1" not in texts(svg)


def test_numbers_at_ends_that_coincide_are_one_text_and_others_do_not_overlap():
    blue, red = {"color": "#0000ff"}, {"color": "#ff0000"}
    ends = [(9, 100.0, blue), (10, 100.1, blue), (11, 100.2, red), (12, 101.0, blue), (1, 5.0, blue)]
    drawn = [Curve("part", [(64, 1.0), (128, end)], style, number) for number, end, style in ends]
    svg = curves([Panel("", drawn, linear=True)], "", "")
    found = re.findall(r'text-anchor: start[^>]*y="([\d.]+)"[^>]*>([\d, ]+)</text>', svg)
    assert [text for _, text in found] == ["1", "9, 10, 12", "11"]
    heights = [float(y) for y, _ in found]
    assert all(low - high > 16 for low, high in itertools.pairwise(heights))
    assert "256" not in texts(svg), "no size to the right of the last one"


def test_a_linear_axis_begins_at_zero_and_sizes_are_powers_of_two():
    curve = Curve("a", [(64, 10.0), (256, 130_000.0)])
    linear = texts(curves([Panel("", [curve], linear=True)], "", ""))
    assert [text for text in linear if re.fullmatch(r"[\d,]+", text)][:5] == ["64", "128", "256", "0", "20,000"]
    logarithmic = texts(curves([Panel("", [curve])], "", "", "{x:.0e}"))
    assert {"1e+01", "1e+02", "1e+05"} <= set(logarithmic)


def test_labels_of_near_points_do_not_cover_each_other():
    near = [Point(f"a way to multiply {number}", 1e-6, 50.0 + number, "#000000") for number in range(4)]
    shown = [*near, Point("a way with a larger error", 9e-4, 700.0, "#000000")]
    figure = Figure(figsize=(12, 10), dpi=72)
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlim=(1e-7, 1e-3), ylim=(10, 1e3))
    boxes = charts.label(figure, axes, shown)
    assert len(boxes) == 5
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all(box.x0 > axes.get_window_extent().x0 and box.x1 < axes.get_window_extent().x1 for box in boxes)


def test_points_have_their_labels_and_axes_reach_them():
    svg = points([Point("one", 1e-6, 50.0, "#000000"), Point("other", 3e-4, 700.0, "#000000")], "the title", "x", "y")
    assert {"one", "other", "the title", "x", "y", "50", "500"} <= set(texts(svg))


CHARTS = {
    "curves": lambda: curves([Panel("one", RUNGS)], "x", "y"),
    "points": lambda: points([Point("one", 1.0, 2.0, charts.PICK["color"])], "title", "x", "y"),
    "maps": lambda: maps([Map("BM", "BN", [64, 128], [64, 128], [[1.0, 2.0], [3.0, None]])], "title", "GFLOP/s"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_drawn_alike_and_dark_on_dark_pages(name):
    svg = CHARTS[name]()
    assert svg == CHARTS[name]() and "<dc:date>" not in svg
    replaced = dict(re.findall(r'\[style\*="(\w+: #\w+)"\]{\w+:(#\w+)!important}', svg))
    assert replaced[f"fill: {PAPER}"] != PAPER
    used = set(re.findall(r"((?:fill|stroke): #[0-9a-f]+)", svg.partition("</style>")[2].partition("</style>")[2]))
    assert {f"fill: {PAPER}", f"fill: {INK}", f"fill: {SOFT}"} <= used
    assert not used & {"fill: #000000", "stroke: #000000"}
    assert min(sizes(svg)) * 400 > 9


@pytest.mark.parametrize("name", ["precisions", "ladder", "ladder_tensor_cores", "tuning-landscape", "tuning-search"])
def test_charts_can_be_read_400_pixels_wide(request, name):
    found = sizes((request.config.rootpath / "docs" / f"{name}.svg").read_text())
    assert len(found) > 10
    assert min(found) * 400 > 9
