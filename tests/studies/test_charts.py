"""Charts of speed over size, and that charts can be read."""

import itertools
import re
from xml.etree import ElementTree

import pytest

from studies.figures.ladder import Curve, ladder_panel


def texts(svg):
    """All texts of an SVG file, those that show on hovering too."""
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.text]


def test_curves_differ_in_colour_or_dash_and_have_their_names_at_their_ends():
    curves = [Curve(f"{rung} rung", [(64, 10.0 + rung), (128, 100.0)]) for rung in range(1, 28)]
    curves += [Curve("picked", [(64, 1.0)], is_pick=True), Curve("cuBLAS", [(64, 2.0)], is_baseline=True)]
    svg = ladder_panel(curves, "title").render("")
    drawn = [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("polyline")]
    styles = {(line.get("stroke"), line.get("stroke-dasharray")) for line in drawn if line.get("stroke-width") != "0.8"}
    assert len(styles) == len(curves)
    places = [e for e in ElementTree.fromstring(svg).iter() if e.text in {curve.label for curve in curves}]
    heights = sorted(float(place.get("y")) for place in places)
    assert len(heights) == len(curves)
    assert min(b - a for a, b in itertools.pairwise(heights)) > 14, "no name lies on another"


def test_a_linear_axis_begins_at_zero_and_has_equal_steps():
    curve = Curve("a", [(64, 10.0), (128, 130_000.0)])
    linear = texts(ladder_panel([curve], "", linear=True).render(""))
    labels = [text for text in linear if re.fullmatch(r"[\d,]+", text)]
    assert labels[:8] == ["0", "20,000", "40,000", "60,000", "80,000", "100,000", "120,000", "64"]
    logarithmic = texts(ladder_panel([curve], "").render(""))
    assert {"10", "100", "1,000", "10,000", "100,000"} <= set(logarithmic)


@pytest.mark.parametrize("name", ["precisions", "ladder", "ladder_tensor_cores"])
def test_charts_can_be_read_400_pixels_wide(request, name):
    root = ElementTree.parse(request.config.rootpath / "docs" / f"{name}.svg").getroot()
    scale = 400 / float(root.get("viewBox").split()[2])
    sizes = [float(text.get("font-size")) for text in root.findall(".//{*}text")]
    assert len(sizes) > 20
    assert min(sizes) * scale > 9
