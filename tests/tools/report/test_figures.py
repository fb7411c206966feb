"""Figures, and the traces that they are drawn from."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.errors import FigureError
from tilewright.core.gpus import find_gpu
from tilewright.core.problem import Problem
from tilewright.emulator.trace import Access, WarpRequest, trace
from tilewright.kernels import LADDER, find
from tilewright.tools.explain.explanation import explain
from tilewright.tools.explain.traffic import count
from tilewright.tools.report.figures import explained
from tilewright.tools.report.figures import roofline as roofline_figure
from tilewright.tools.report.figures.banks import bank_panel, wavefronts
from tilewright.tools.report.figures.coalescing import coalescing_panel
from tilewright.tools.report.figures.kernel_figure import KernelFigure, RooflineChart, bank_legend, excerpt, lane_legend
from tilewright.tools.report.figures.palette import ink_on, lane_color, spans
from tilewright.tools.report.figures.roofline import Dot, roofline_panel
from tilewright.tools.report.figures.svg import Drawing, flow, paragraph
from tilewright.tools.report.figures.tiling import patches
from tilewright.tools.report.measured import find_measured

H200 = find_gpu("NVIDIA H200", (9, 0))


def texts(svg):
    """All texts of an SVG file, those that show on hovering too."""
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if element.text]


def shared(address_of, size=4, kind="load"):
    """A request of 32 lanes in shared memory; address_of gives a lane's word."""
    return WarpRequest("B", True, kind, tuple(Access(lane, 4 * address_of(lane), size, 0, lane) for lane in range(32)))


# What shared memory does with a request.


@pytest.mark.parametrize(
    ("address_of", "size", "count", "conflicts"),
    [
        pytest.param(lambda lane: lane, 4, 1, 0, id="neighbours"),
        pytest.param(lambda lane: 7, 4, 1, 0, id="one word for all"),
        pytest.param(lambda lane: 2 * lane, 4, 2, 1, id="every other bank"),
        pytest.param(lambda lane: 32 * lane, 4, 32, 31, id="a column of 32"),
        pytest.param(lambda lane: 33 * lane, 4, 1, 0, id="a column of 32, padded"),
        pytest.param(lambda lane: 2 * lane, 8, 2, 0, id="64 bits"),
        pytest.param(lambda lane: 4 * lane, 16, 4, 0, id="128 bits"),
        pytest.param(lambda lane: lane // 16 * 8, 16, 2, 0, id="128 bits, half a warp alike"),
        pytest.param(lambda lane: lane % 16 * 8, 16, 8, 4, id="rung 6's loads of Bs"),
        pytest.param(lambda lane: lane // 2 * 4, 16, 2, 0, id="128 bits, pairs alike"),
    ],
)
def test_wavefronts_of_a_request(address_of, size, count, conflicts):
    parts = wavefronts(shared(address_of, size).accesses)
    assert sum(map(len, parts)) == count
    assert count - len(parts) == conflicts
    served = [lane for part in parts for wavefront in part for piece in wavefront for lane in piece.lanes]
    assert sorted(served) == list(range(32))


@given(st.lists(st.integers(0, 255), min_size=1, max_size=32))
def test_no_wavefront_takes_two_words_of_a_bank(words):
    accesses = [Access(lane, 4 * word, 4, 0, 0) for lane, word in enumerate(words)]
    (part,) = wavefronts(accesses)
    for wavefront in part:
        banks = [piece.word % 32 for piece in wavefront]
        assert len(banks) == len(set(banks))
    busiest = max(len({word for word in words if word % 32 == bank}) for bank in range(32))
    assert len(part) == busiest


def test_conflicts_are_marked():
    assert any(
        "8 wavefronts a request, 4 of them bank conflicts" in text
        for text in texts(bank_panel(shared(lambda lane: lane % 16 * 8, 16)).render(""))
    )
    assert any(
        "1 wavefront a request, no bank conflict" in text
        for text in texts(bank_panel(shared(lambda lane: lane)).render(""))
    )


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "shape"), [("vectorized", "128x128x8"), ("padded", "128x128x8"), ("async_copy", "64x128x16")]
)
def test_what_is_drawn_of_all_warps_comes_to_what_is_counted(name, shape):
    kernel = find(name)
    config, problem = kernel.config(), Problem.parse(shape)
    drawn = {"sectors": 0, "wavefronts": 0, "bank_conflicts": 0}
    for warp in range(kernel.threads(config) // 32):
        for request in trace(kernel, config, problem, warp=warp).requests:
            if request.shared:
                parts = wavefronts(request.accesses)
                drawn["wavefronts"] += sum(map(len, parts))
                drawn["bank_conflicts"] += sum(map(len, parts)) - len(parts)
            else:
                drawn["sectors"] += len(request.sectors)
    groups = count(kernel, config, problem).groups.values()
    assert drawn == {name: sum(getattr(group, name) for group in groups) for name in drawn}


# Requests in global memory.


def test_a_coalescing_panel_counts_the_sectors_that_it_draws():
    column = WarpRequest("A", False, "load", tuple(Access(lane, lane * 400, 4, lane, 0) for lane in range(32)))
    svg = coalescing_panel(column, 4, 100, 900).render("")
    assert "32 sectors a request, 128 of 1024 bytes used" in texts(svg)
    assert "lane 5: A[5, 0]" in texts(svg)


def test_sectors_of_rows_off_a_boundary_reach_past_their_first_element():
    """Elements 3 and 4 of rows of 5: the first row's lie in one sector; the second's are 8 and 9, in the next."""
    two = WarpRequest("A", False, "load", (Access(0, 12, 8, 0, 3), Access(1, 32, 8, 1, 3)))
    assert two.sectors == {0, 1}
    svg = coalescing_panel(two, 4, 5, 900).render("")
    assert "lane 1: A[1, 3 to 4]" in texts(svg)


# Tiles of C.


@given(st.integers(1, 7), st.integers(1, 9), st.randoms(use_true_random=False))
def test_patches_make_up_the_whole(rows, cols, random):
    owners = np.array([[random.randrange(-1, 3) for _ in range(cols)] for _ in range(rows)])
    painted = np.full(owners.shape, -1)
    for patch in patches(owners):
        part = painted[patch.row : patch.row + patch.rows, patch.col : patch.col + patch.cols]
        assert (part == -1).all()
        part[:] = patch.owner
    assert (painted == owners).all()


def test_the_excerpt_keeps_rows_as_they_lie_and_the_last_tile_as_full():
    kernel = find("vectorized")
    config, problem = excerpt(kernel, kernel.config(), Problem(4095, 4092, 4096))
    assert (problem.m, problem.n, problem.k) == (128 + 127, 256 + 124, 8)
    assert (problem.a.ld, problem.b.ld, problem.d.ld) == (4096, 4092, 4092)
    small = Problem(5, 6, 7)
    assert excerpt(kernel, config, small) == (config, small)


# Whole figures.


def test_a_figure_has_the_panels_that_its_kernel_has():
    coalesced = KernelFigure(find("coalesced"), find("coalesced").config(), Problem(64, 64, 16))
    whole = texts(coalesced.whole())
    assert "A warp loads from B" in whole and "C, by block" in whole
    assert not any("bank" in text for text in whole)
    with pytest.raises(FigureError, match="coalesced has no panels of the kind banks"):
        coalesced.single("banks")


def test_a_figure_is_the_same_each_time_it_is_drawn():
    problem = Problem(100, 70, 40)
    roofline = RooflineChart([Dot(10, "warptiled", 20.0, 40000.0)], H200, 600.0)
    one, other = (
        KernelFigure(find("warptiled"), find("warptiled").config(), problem).whole(roofline) for _ in range(2)
    )
    assert one == other
    ElementTree.fromstring(one)
    assert "10 warptiled, 100x70x40" in texts(one)
    assert "nan" not in one


def test_the_figure_of_an_explanation_has_lines_and_the_measured_rungs(tmp_path, monkeypatch):
    monkeypatch.setattr(explained, "LADDER", LADDER[:2])
    kernel, problem = find("warptiled"), Problem(4096, 4096, 4096)
    config = kernel.config(capability=(9, 0))
    path = tmp_path / "figure.svg"
    explained.write(explain(kernel, config, problem, H200, find_measured(kernel, config, problem, H200)), path)
    shown = texts(path.read_text())
    assert any("A warp stores As, 4 bytes a lane" in text and "warptiled.cu:" in text for text in shown)
    assert "10 warptiled" in shown and "1 naive" in shown


@pytest.mark.further
def test_what_was_not_measured_is_shown_as_predicted(tmp_path):
    kernel = find("coalesced")
    explained.write(explain(kernel, kernel.config(), Problem(100, 60, 40), H200), tmp_path / "figure.svg")
    assert "2 coalesced, predicted" in texts((tmp_path / "figure.svg").read_text())


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("figure.png", "takes a path that ends in .svg, got"),
    ],
)
def test_a_figure_that_could_not_be_written_is_refused_first(tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FigureError, match=f"--figure {message}"):
        explained.check(Path(path), Problem(8, 8, 8))
    with pytest.raises(FigureError, match="--figure takes a problem whose result has elements, got 0x8x8"):
        explained.check(Path("figure.svg"), Problem(0, 8, 8))
    explained.check(Path("figure.SVG"), Problem(8, 8, 8))


def test_crowded_points_are_enlarged_and_those_that_cover_each_other_are_one():
    near = [Dot(rung, f"rung{rung}", 20.0, 40000.0 + rung) for rung in (5, 6)]
    apart = [Dot(7, "rung7", 30.0, 30000.0), Dot(8, "rung8", 30.0, 50000.0)]
    drawn = roofline_panel([Dot(1, "naive", 0.06, 498.0), *near, *apart], H200, 682.7).render("")
    assert drawn.count("<circle") == 1 + 4 + 3 + 5, "in the plot, enlarged, in the legend"
    assert "5 rung5: 40,005 GFLOP/s, 20.00 FLOP/byte; 6 rung6: 40,006 GFLOP/s, 20.00 FLOP/byte" in texts(drawn)
    assert "5, 6" in texts(drawn) and {"30,000", "20", "30"} <= set(texts(drawn))
    few = roofline_panel([Dot(1, "naive", 0.06, 498.0), *near], H200, 682.7).render("")
    assert "rectangle" in drawn and "rectangle" not in few


def test_of_points_at_one_height_the_levels_of_one_are_drawn():
    levels = {roofline_figure.SHARED: 1.5, roofline_figure.DRAM: 400.0}
    points = [Dot(rung, f"rung{rung}", 20.0 + rung, 40000.0 + rung, levels=levels) for rung in (5, 6)]
    points.append(Dot(1, "naive", 0.06, 498.0, levels=levels))
    for marked, shown in (("", "5 rung5"), ("rung6", "6 rung6")):
        titles = texts(roofline_panel(points, H200, 682.7, marked).render(""))
        assert {text for text in titles if re.fullmatch(r"\d \w+, shared memory.*", text)} == {
            f"{name}, shared memory: 1.5 FLOP/byte" for name in ("1 naive", shown)
        }


def test_the_roofline_shows_each_point_under_the_roofs():
    points = [Dot(1, "naive", 0.06, 498.0), Dot(6, "vectorized", 31.0, 36000.0)]
    svg = roofline_panel(points, H200, 682.7, "vectorized").render("roofline")
    titles = texts(svg)
    assert "1 naive: 498 GFLOP/s, 0.06 FLOP/byte" in titles
    assert "L1 and shared memory 33.5 TB/s" in titles and "DRAM 4.8 TB/s" in titles
    assert "H200, float32: 67 TFLOP/s" in titles
    assert not any("cuBLAS" in title or title == "shared memory" for title in titles)
    circles = [e for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("circle") and len(e)]
    naive, vectorized = ((float(circle.get("cx")), float(circle.get("cy"))) for circle in circles)
    assert naive[0] < vectorized[0] and naive[1] > vectorized[1]


def test_the_roofline_marks_each_level_of_memory_and_cublas():
    levels = {roofline_figure.SHARED: 1.5, roofline_figure.L2: 90.0, roofline_figure.DRAM: 400.0}
    points = [Dot(6, "vectorized", 31.0, 36000.0, levels=levels), Dot(0, "cuBLAS", 60.0, 51000.0)]
    svg = roofline_panel(points, H200, 682.7).render("roofline")
    titles = texts(svg)
    for level, intensity in (("shared memory", "1.5"), ("L2, measured", "90"), ("DRAM, measured", "400")):
        assert f"6 vectorized, {level}: {intensity} FLOP/byte" in titles
        assert level in titles, "in the legend"
    assert "cuBLAS: 51,000 GFLOP/s, 60.00 FLOP/byte" in titles
    line = texts(roofline_panel(points[:1], H200, 682.7, baseline=51000.0).render("roofline"))
    assert "cuBLAS 51,000" in line


# What they are drawn with.


def test_drawings_are_dark_on_dark_pages_but_for_ink_on_colours():
    drawing = Drawing()
    drawing.text(0, 10, "on paper")
    drawing.text(0, 20, "on orange", fill=ink_on(lane_color(31)))
    svg = drawing.render("")
    style = svg[svg.index("<style>") : svg.index("</style>")]
    dark = dict(re.findall(r'\[fill="(#\w+)"\]\{fill:(#\w+)\}', style))
    fills = {e.text: e.get("fill") for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")}
    assert dark["#ffffff"] != "#ffffff"
    assert fills["on paper"] in dark
    assert fills["on orange"] not in dark


def test_the_legends_say_what_a_figure_is_drawn_with():
    assert {"lane", "31", "several lanes", "a sector, 32 bytes"} <= set(texts(lane_legend(600).render("")))
    assert {"lane", "31", "x4", "4 lanes, same words", "nobody asks", "a bank conflict"} <= set(
        texts(bank_legend(600).render(""))
    )
    problem = Problem(128, 128, 16)
    assert "nobody asks" in texts(
        KernelFigure(find("vectorized"), find("vectorized").config(), problem).single("banks")
    )


def test_text_is_escaped_and_paper_is_white():
    drawing = Drawing()
    drawing.text(0, 10, "a < b & c", alarm=" > d")
    svg = drawing.render('"title"')
    assert "a < b & c > d" in texts(svg)
    assert 'fill="#ffffff"' in svg


def test_drawings_flow_into_lines():
    wide, small = Drawing(60, 10), Drawing(30, 20)
    assert (flow([wide, small], 100, 5).width, flow([wide, small], 100, 5).height) == (95, 20)
    assert (flow([wide, small], 80, 5).width, flow([wide, small], 80, 5).height) == (60, 35)


def test_lines_are_broken_between_words():
    assert re.findall(r">([^<]*)</text>", "".join(paragraph("one two three", 50).elements)) == ["one two", "three"]


def test_ink_is_legible_on_every_lane():
    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for lane in range(32):
        back, ink = luminance(lane_color(lane)), luminance(ink_on(lane_color(lane)))
        assert (max(back, ink) + 0.05) / (min(back, ink) + 0.05) > 4, lane


def test_lanes_in_words():
    assert spans([3, 0, 1, 2, 7]) == "0 to 3, 7"
