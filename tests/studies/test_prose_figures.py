"""Measured values are never typed: figures with units in words written by hand are constants of the code."""

import re
from pathlib import Path

import pytest

from studies.scaling import page as scaling
from studies.scaling.out_of_core import LIMIT
from tilewright.api.planned_call import LENT_BYTES
from tilewright.frameworks.dividing import LANE_STEP_US, STEP_US
from tilewright.frameworks.torch.distributed.watchdog import GRACE_S
from tilewright.runtime.cuda import REPLAY_MS
from tilewright.select.tables.entry import ACCURATE_WITHIN
from tilewright.tools.bench.end_to_end import WALL_S
from tilewright.tools.machine.probes import MOST_BYTES, PAGE_BYTES

ROOT = Path(__file__).parents[2]
DOCS = ("docs/*.md", "docs/tools/*.md", "docs/worklog/measured.md", "docs/worklog/text/*.md")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", *DOCS, "examples/*.md")

UNITS = r"us|ms|s|seconds|minutes|GB/s|[GT]FLOP/s|[MG]iB|GB|MHz|W"
FIGURE = re.compile(rf"\b(\d[\d,]*(?:\.\d+)?(?:%| ?(?:{UNITS})\b| times (?:as|faster)\b))")

CONSTANTS = {
    f"{scaling.LINKS.link_gb_s:.0f} GB/s",
    f"{scaling.LINKS.network_gb_s:.0f} GB/s",
    f"{scaling.MEASURED_LINKS.link_gb_s:.0f} GB/s",
    f"{STEP_US:.0f} us",
    f"{LANE_STEP_US:.0f} us",
    f"{100 * scaling.PAYS:.0f}%",
    f"{LENT_BYTES >> 20} MiB",
    f"{LIMIT / 1e9:.0f} GB",
    f"{GRACE_S:.0f} s",
    f"{MOST_BYTES >> 30} GiB",
    f"{PAGE_BYTES >> 20} MiB",
    f"{REPLAY_MS:.0f} ms",
    f"{1000 * WALL_S:.0f} ms",
    f"{ACCURATE_WITHIN} times as",
}


def by_hand(page: str) -> str:
    """A page without what generators fill in, without code, and without links."""
    for made in (
        r"<!-- (\w[\w ]*) -->\n.*?<!-- end \1 -->",
        r"^```.*?^```",
        r"\{\{.*?\}\}",
        r"`[^`\n]*`",
        r"\]\([^)\s]*\)",
    ):
        page = re.sub(made, "", page, flags=re.DOTALL | re.MULTILINE)
    return page


@pytest.mark.parametrize("pattern", PAGES)
def test_figures_in_words_are_constants_of_the_code(pattern):
    for page in ROOT.glob(pattern):
        typed = set(FIGURE.findall(by_hand(page.read_text())))
        assert typed <= CONSTANTS, f"{page.name}: measured figures come from records, by a generator"


@pytest.mark.parametrize("text", ["takes 4.2 us", "3% less", "1.19 times as long", "at 4,800 GB/s"])
def test_a_typed_figure_is_seen(text):
    assert FIGURE.findall(by_hand(f"A loop {text} on an H200.\n"))
    assert not FIGURE.findall(by_hand(f"<!-- some -->\n\nA loop {text}.\n\n<!-- end some -->\n"))
