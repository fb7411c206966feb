"""Measured values are never typed: figures with units in words written by hand are constants of the code."""

import re
from pathlib import Path

import pytest

from studies.scaling import page as scaling
from studies.scaling.out_of_core import LIMIT
from tilewright.api.planned_call import LENT_BYTES
from tilewright.core.gpus import gpu_named
from tilewright.frameworks.dividing import LANE_STEP_US, STEP_US
from tilewright.frameworks.torch.distributed.watchdog import GRACE_S
from tilewright.runtime.cuda import REPLAY_MS
from tilewright.select.tables.entry import ACCURATE_WITHIN
from tilewright.tools.bench.end_to_end import WALL_S
from tilewright.tools.machine.probes import FAR_BYTES, MOST_BYTES, PAGE_BYTES

ROOT = Path(__file__).parents[2]
PAGES = ("*.md", "docs/**/*.md", "src/tilewright/**/*.md")

UNITS = r"ns|us|ms|s|seconds|minutes|[GT]i?B/s|[GT]FLOP/s|[KMG]i?B|[GM]Hz|W"
FIGURE = re.compile(rf"\b(\d[\d,]*(?:\.\d+)?(?:%| ?(?:{UNITS})\b| times (?:as|faster|slower|less|more|that)\b))")

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
    f"{49152 >> 10} KB",
    f"{gpu_named('RTX A6000').multiprocessor.shared_bytes >> 10} KiB",
    f"{gpu_named('H200').l2_bytes >> 20} MB",
    f"{FAR_BYTES >> 10} KiB",
    f"{128 * 128 * 4 >> 10} KiB",
    f"{4 * 4096 >> 10} KiB",
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
    pages = [page for page in ROOT.glob(pattern) if not (page.parent / "text" / page.name).exists()]
    assert pages, "the pattern finds pages; those made of words in text/ are left out"
    for page in pages:
        typed = set(FIGURE.findall(by_hand(page.read_text())))
        assert typed <= CONSTANTS, f"{page.name}: measured figures come from records, by a generator"


@pytest.mark.parametrize(
    "text", ["takes 4.2 us", "7 GiB/s", "1.5 times that", "3% less", "1.19 times as long", "at 4,800 GB/s"]
)
def test_a_typed_figure_is_seen(text):
    assert FIGURE.findall(by_hand(f"A loop {text} on an H200.\n"))
    assert not FIGURE.findall(by_hand(f"<!-- some -->\n\nA loop {text}.\n\n<!-- end some -->\n"))
