"""The page on tuning, made from tables and journals."""

import re

import pytest

from studies.results import paths
from studies.tuning import page as tuning
from tilewright.core.errors import RecordsError
from tilewright.select.tables.entry import Entry
from tilewright.tools.tune.journal import Journal, Trial


def trial(at_s, gflops, outcome="timed", **config):
    return Trial(
        device="GPU", digest="d", kernel="vectorized", config={"BM": 64, "BN": 64, "TM": 4, "TN": 4} | config,
        m=64, n=64, k=64, case="NN float32", outcome=outcome, at_s=at_s,
        time_us=2 * 64**3 / gflops / 1e3 if gflops else None,
    )  # fmt: skip


TRIALS = [
    trial(1.0, 100.0),
    trial(2.0, 90.0, BM=128),
    trial(3.0, None, outcome="wrong", BM=128, BN=128),
    trial(4.0, 150.0, outcome="stopped", BN=128),
    trial(10.0, 200.0, TM=8),
    trial(50.0, 120.0, TN=8),
]


def entry(m, kernel, gflops, baseline=None, error=None, n=1):
    return Entry(m=m, n=n, k=n, case="NN float32", kernel=kernel, config={"BLOCK": 32}, gflops=gflops,
                 baseline_gflops=baseline, error_ratio=error)  # fmt: skip


def test_winners_are_the_fastest_that_err_little_in_the_order_of_their_work():
    entries = [
        entry(9, "naive", 3),
        entry(2, "coalesced", 1.0, 2.0, 0.75),
        entry(9, "padded", 4),
        entry(9, "vectorized", 5, error=1.6),
    ]
    assert tuning.fastest(entries) == [entries[1], entries[2]]


def test_winners_are_shown_for_the_suites_and_counted_by_kernel_for_all_problems():
    in_suite = entry(64, "naive", 3, 2, 0.5, n=64)
    entries = [in_suite, entry(9, "coalesced", 4, 2), entry(2, "naive", 1.0, 2.0), entry(3, "naive", 8.0, 1.0)]
    assert tuning.winners(entries).splitlines()[2:] == [
        "| 64x64x64 | NN float32 | `naive` | BLOCK=32 | 3.000 | 2.000 | 1.50x | 0.50x |  |"
    ]
    assert tuning.kernels(entries).splitlines()[2:] == [
        "| NN float32 | `naive` | 3 | 2x1x1 | 64x64x64 | 1.82x |",
        "| NN float32 | `coalesced` | 1 | 9x1x1 | 9x1x1 | 2.00x |",
    ]


def test_the_best_so_far_counts_what_was_timed_in_full():
    assert tuning.best_so_far(TRIALS) == [(1.0, pytest.approx(100)), (10.0, pytest.approx(200))]
    curve = tuning.best_so_far(TRIALS)
    assert [round(tuning.found_by(curve, seconds)) for seconds in (0.5, 5, 10, 60)] == [0, 100, 200, 200]


def test_a_landscape_holds_the_best_of_each_pair_and_gaps():
    _, _, columns, rows, cells = tuning.landscape(TRIALS, "BM", "BN")
    assert (columns, rows) == ([64, 128], [64, 128])
    assert cells == [[pytest.approx(200), pytest.approx(90)], [pytest.approx(150), None]]


def test_a_search_is_drawn_until_all_have_ended():
    svg = tuning.search_chart({"one": tuning.best_so_far(TRIALS), "other": [(1.0, 50.0), (20.0, 60.0)]}, "title")
    assert all(f">{text}<" in svg for text in ("title", "one", "other", "a tenth of the time", "seconds of searching"))


@pytest.mark.further
def test_the_page_is_made_from_the_table_and_both_journals(tmp_path, monkeypatch, request):
    page = tmp_path / tuning.PAGE
    page.parent.mkdir()
    page.write_text((request.config.rootpath / tuning.PAGE).read_text())
    monkeypatch.chdir(tmp_path)
    for path, trials in zip(paths("searches"), (TRIALS, TRIALS[4:]), strict=True):
        journal = Journal(path)
        for one in trials:
            journal.append(one)
    tuning.write()
    text = page.read_text()
    assert re.search(r"!\[Maps of GFLOP/s, .*\.\]\(tuning-landscape\.svg\)", text)
    assert "tried 6 configs in 50 s and found 200 GFLOP/s. In a tenth of that time it had found 50.0% of it" in text
    assert (tmp_path / tuning.LANDSCAPE).exists()
    assert (tmp_path / tuning.SEARCH).exists()


@pytest.mark.further
def test_the_committed_page_is_what_its_data_make(tmp_path, monkeypatch, request):
    root = request.config.rootpath
    (tmp_path / "results").symlink_to(root / "results")
    (tmp_path / "docs").mkdir()
    (tmp_path / tuning.PAGE).write_bytes((root / tuning.PAGE).read_bytes())
    monkeypatch.chdir(tmp_path)
    tuning.write()
    assert (tmp_path / tuning.PAGE).read_text() == (root / tuning.PAGE).read_text(), "out of date: run make docs"


def test_journals_that_cannot_be_compared_are_refused():
    with pytest.raises(RecordsError, match="must be of one kernel on one problem and GPU, got 2"):
        tuning.of_one_problem([TRIALS[0], TRIALS[0].model_copy(update={"m": 65})])
    with pytest.raises(RecordsError, match="no config that was timed"):
        tuning.best_so_far([TRIALS[2]])


@pytest.mark.further
def test_a_missing_page_is_an_error(tmp_path, monkeypatch, request):
    (tmp_path / "results").symlink_to(request.config.rootpath / "results")
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"tuning\.md"):
        tuning.write()
