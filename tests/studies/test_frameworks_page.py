"""The tables of docs/frameworks.md."""

from pathlib import Path

from studies.frameworks import comparisons as kinds
from studies.frameworks import page as frameworks
from studies.frameworks.comparisons import compared
from studies.record import Measurements
from studies.results import paths
from studies.templates import fill


def comparison(kind, of, ours, alone, facts=None, control=None):
    return compared("F 1", kind, of, (ours, alone), facts, control)


def test_the_committed_page_is_what_its_records_make():
    page = Path("docs/frameworks.md").read_text()
    assert fill(page, frameworks.sections([Measurements.load(path) for path in paths("frameworks")])) == page


def test_ratios_are_those_of_the_times_as_printed():
    found = [
        *comparison(kinds.WALL, "64", 2.04, 4.96),
        *comparison(kinds.HOST, "64", 1.0, 3.0),
        *comparison(kinds.WALL, "128", 10.0, 20.0),
        *comparison(
            kinds.EAGER,
            "M",
            1999.0,
            3999.0,
            {"loss_difference": 2e-7, "peak_mib": 1000.0, "held_mib": 1200.0},
            {"peak_mib": 1001.0, "held_mib": 1100.0},
        ),
        *comparison(
            kinds.NOTHING_IS_FASTER, "M", 10_100.0, 10_000.0, None, {"fastest_us": 9_950.0, "slowest_us": 10_204.0}
        ),
    ]
    run = Measurements(
        environment={"gpu": {"name": "G"}, "date": "2026-11-25T01:00:00", "revision": "abc"}, measurements=found
    )
    sections = frameworks.sections([run])
    assert "| 64 | 5.0 | 2.0 | 2.50x | 3.0 | 1.0 | 3.00x |" in sections["cupy"]
    assert "| 128 | 20.0 | 10.0 | 2.00x |  |  |  |" in sections["cupy"]
    assert "| M | 4.00 | 2.00 | 2.00x |  |  |  | 2e-07 | 1,001, 1,000 | 1,100, 1,200 |" in sections["torch"]
    assert "| M | 10.00 | 10.10 | 0.99x | 9.95, 10.20 |" in sections["torch"]
    narrow = run.model_copy(
        update={"measurements": comparison(kinds.BF16, "M", 1000.0, 2000.0, {"loss_difference": 0.0})}
    )
    assert (
        "abc; what is in bfloat16 with F 1 on an G, 2026-11-25, revision abc"
        in frameworks.sections([run, narrow])["machine"]
    )
    assert sections["machine"].startswith("Measured with F 1 on an G, 2026-11-25, revision abc. Both")
