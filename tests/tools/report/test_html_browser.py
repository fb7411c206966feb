"""The page of a report in a real browser.

A browser takes seconds to read the chart library in, so tests share three pages, and leave them as they found them.
"""

import itertools
import re

import pytest
from playwright.sync_api import expect

from tilewright.tools.report.html import page
from tilewright.tools.report.html.sources import Inputs, Source
from tilewright.tools.tune.journal import read

pytestmark = pytest.mark.browser

INK = "() => getComputedStyle(document.querySelector('#chart-speed .legendtext')).fill"
PAPER = "() => getComputedStyle(document.body).backgroundColor"
LINE = "() => getComputedStyle(document.querySelector('#chart-speed .point')).fill"


@pytest.fixture(scope="module")
def show(browser, tmp_path_factory):
    """Open the page of some sources in a theme; it fails where a page complains or asks for another file."""
    complaints, contexts, pages, requests = [], [], set(), set()

    def open_page(*sources, trials=(), theme="light"):
        path = tmp_path_factory.mktemp("page") / "report.html"
        page.write(Inputs(sources, trials), path)
        pages.add(path.as_uri())
        context = browser.new_context(color_scheme=theme, viewport={"width": 1400, "height": 900}, offline=True)
        contexts.append(context)
        shown = context.new_page()
        shown.on("console", lambda message: complaints.append(message.text))
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.on("request", lambda request: requests.add(request.url))
        shown.goto(path.as_uri())
        assert complaints == []
        assert requests == pages
        return shown

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert requests == pages


@pytest.fixture(scope="module")
def trials(tmp_path_factory, write_journal):
    """Two searches: of vectorized, and of padded, which has timed configs alone."""
    folder = tmp_path_factory.mktemp("journals")
    others = read(write_journal(folder / "b.jsonl", kernel="padded"))
    return read(write_journal(folder / "a.jsonl")) + [trial for trial in others if trial.outcome == "timed"]


@pytest.fixture(scope="module")
def one(show, make_run, trials):
    """The page of a run on a GPU, of one on the emulator, and of the searches."""
    return show(Source("run", make_run()), Source("cpu", make_run(engine="emulator")), trials=trials)


@pytest.fixture(scope="module")
def two(show, make_run):
    """The page of a run, and of one on another GPU in which every kernel is a quarter faster."""
    return show(Source("before", make_run()), Source("after", make_run(1.25, gpu="NVIDIA L4")))


MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"


@pytest.fixture(scope="module")
def dark(show, make_run):
    """The page of a run with markup in its names, on a dark system."""
    return show(Source(MARKUP, make_run(kernels=((MARKUP, 1, 500.0),))), theme="dark")


def column(shown, table, index):
    return shown.locator(f"#{table} tbody tr:visible td:nth-child({index})").all_inner_texts()


def hover(shown, chart, selector):
    """Text shown where the mouse is put on the middle of an element of a chart."""
    shown.locator(f"#chart-{chart}").scroll_into_view_if_needed()
    box = shown.locator(f"#chart-{chart} {selector}").bounding_box()
    shown.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    label = shown.locator(f"#chart-{chart} .hoverlayer .hovertext").first
    label.wait_for()
    return label.text_content()


def legend(shown, chart):
    return shown.locator(f"#chart-{chart} .legendtext").all_text_contents()


def is_dark(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3])) < 3 * 128


def test_all_charts_are_drawn(one):
    drawn = {
        chart.get_attribute("id"): chart.locator(".scatterlayer .point, .heatmaplayer image").count()
        for chart in one.locator(".chart").all()
    }
    assert drawn == {
        "chart-speed": 3 * 4, "chart-ratios": 1, "chart-roofline": 3 * 4, "chart-emulator": 3 * 4, "landscape": 1,
        "trials": 5,
    }  # fmt: skip
    assert legend(one, "speed") == ["1 naive", "10 warptiled", "cuBLAS"]
    assert "roof of H200" in legend(one, "roofline")
    assert "They are not GPU times" in one.locator("#emulator .warning").inner_text()


def test_speeds_have_a_linear_scale_where_that_is_wanted(one):
    ticks = "() => [...document.querySelectorAll('#chart-speed .ytick text')].map((tick) => tick.textContent)"
    before = one.evaluate(ticks)
    assert "0" not in before
    one.locator(".linear[data-figure=speed]").check()
    labels = [int(label.replace(",", "")) for label in one.evaluate(ticks)]
    assert labels[0] == 0
    assert len({b - a for a, b in itertools.pairwise(labels)}) == 1, "the steps are equal"
    one.locator(".linear[data-figure=speed]").uncheck()
    assert one.evaluate(ticks) == before


def test_hovering_shows_the_details_of_a_point(one):
    text = hover(one, "speed", ".scatterlayer .trace:nth-child(1) .point:nth-child(3)")
    assert "1 naive4096x4096x4096, float32500 GFLOP/s, median 274.88 ms, fastest 247.39 ms" in text
    assert "1.0% of cuBLASLt 13.1.0BM=64 BN=1error 1.0e-07, right up to 1.0e-06" in text
    assert "run: NVIDIA H200SM 1980 MHz, memory 3201 MHz" in text


def test_a_click_on_a_heading_sorts_by_it_and_empty_cells_come_last(one):
    heading = one.locator("#records th", has_text="GFLOP/s")
    speeds = ["40,000", "40,000", "20,000", "500", "500", "400", "250", "5.00"]
    assert column(one, "records", 6)[:4] == ["250", "500", "500", "5.00"]
    heading.locator("button").click()
    assert column(one, "records", 6) == speeds + [""] * 8
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert column(one, "records", 6) == speeds[::-1] + [""] * 8
    one.locator("#records th", has_text="kernel").locator("button").click()
    assert column(one, "records", 2) == ["naive"] * 8 + ["warptiled"] * 8
    assert heading.get_attribute("aria-sort") == "none"


def test_the_filter_keeps_rows_that_hold_all_words(one):
    one.locator("input[data-table=records]").fill("WARP 4096x run")
    assert column(one, "records", 2) == ["warptiled", "warptiled"]
    assert sorted(column(one, "records", 4)) == ["1x4096x4096", "4096x4096x4096"]
    assert one.locator(".count[data-table=records]").inner_text() == "2 of 16 rows"
    one.locator("input[data-table=records]").fill("BM=64 BN=1 4096x4096x4096")
    assert one.locator(".count[data-table=records]").inner_text() == "4 of 16 rows"
    one.locator("input[data-table=records]").fill("BN=64")
    assert one.locator(".count[data-table=records]").inner_text() == "0 of 16 rows"
    one.locator("input[data-table=records]").fill("")
    assert len(column(one, "records", 2)) == 16


def test_the_tuning_landscape_follows_what_is_chosen(one):
    def cells():
        return sorted(filter(None, one.locator("#landscape .heatmap-label").all_text_contents()))

    assert one.locator("#search-counts").inner_text() == "6 configs: 4 timed, 1 stopped, 1 wrong."
    assert cells() == ["100", "120", "150", "20", "200"]
    one.locator("#down").select_option(label="TM")
    assert cells() == ["150", "20", "200"]
    one.locator("#search").select_option(index=1)
    assert one.locator("#search-counts").inner_text() == "4 configs: 4 timed."
    assert cells() == ["100", "120", "150", "200"]


def test_a_light_page_turns_dark_with_its_button_and_with_the_system(one):
    def darknesses():
        return [is_dark(one.evaluate(colour)) for colour in (PAPER, INK)]

    assert darknesses() == [False, True]
    line = one.evaluate(LINE)
    one.emulate_media(color_scheme="dark")
    expect(one.locator("#theme span")).to_have_text("light")
    assert darknesses() == [True, False]
    assert one.evaluate(LINE) != line
    one.locator("#theme").click()
    assert darknesses() == [False, True]
    assert one.evaluate(LINE) == line


@pytest.mark.further
def test_a_dark_system_gets_a_dark_page_and_a_choice_is_kept(dark):
    assert [is_dark(dark.evaluate(colour)) for colour in (PAPER, INK)] == [True, False]
    dark.locator("#theme").click()
    dark.reload()
    assert [is_dark(dark.evaluate(colour)) for colour in (PAPER, INK)] == [False, True]
    dark.locator("#theme").click()


@pytest.mark.further
def test_a_comparison_shows_both_files(two):
    assert "1.250 times as fast in after as in before" in two.locator("#comparison .summary").inner_text()
    assert column(two, "changes-0", 5) == ["1.250"] * 8 + ["1.000"] * 4
    assert (column(two, "changes-0", 3)[3], column(two, "changes-0", 4)[3]) == ("500", "625")
    two.locator("input[data-table=changes-0]").fill("cuBLAS")
    assert column(two, "changes-0", 5) == ["1.000"] * 4
    text = hover(two, "comparison-0", ".heatmaplayer")
    assert "before: " in text and "after: " in text
    assert "NVIDIA L4" in two.locator("#comparison h3").inner_text()
    dashes = two.locator("#chart-speed .js-line").evaluate_all("all => all.map((one) => one.style.strokeDasharray)")
    assert len(set(dashes)) == 2


def test_a_file_can_be_switched_off_in_a_chart(two):
    points, before = two.locator("#chart-speed .point"), two.locator(".files[data-figure=speed] input").first
    expect(points).to_have_count(24)
    before.uncheck()
    expect(points).to_have_count(12)
    assert legend(two, "speed") == ["1 naive", "10 warptiled", "cuBLAS"]
    assert two.locator("#chart-roofline .point").count() == 24
    before.check()
    expect(points).to_have_count(24)


@pytest.mark.further
def test_a_click_in_the_legend_hides_a_kernel_of_all_files_whatever_the_theme(two):
    points, first = two.locator("#chart-speed .point"), two.locator("#chart-speed .legendtoggle").first
    first.click()
    expect(points).to_have_count(16)
    two.locator("#theme").click()
    expect(points).to_have_count(16)
    first.click()
    expect(points).to_have_count(24)


def test_markup_in_records_is_shown_as_text(dark):
    assert dark.locator("img").count() == 0
    assert legend(dark, "speed")[0] == f"1 {MARKUP}"
    assert f"1 {MARKUP}" in hover(dark, "speed", ".scatterlayer .trace:nth-child(1) .point:nth-child(3)")
    assert column(dark, "records", 2)[0] == MARKUP


@pytest.mark.further
def test_the_page_fits_a_narrow_screen(one):
    one.set_viewport_size({"width": 390, "height": 800})
    widths = "() => [...document.querySelectorAll('.pan')].every((part) => part.clientWidth < 390)"
    one.wait_for_function(widths)
    assert one.evaluate("() => document.documentElement.scrollWidth") <= 390
