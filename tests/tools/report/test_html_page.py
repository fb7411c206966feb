"""The page of a report, as text, and the command that writes it."""

import html
import html.parser
import json
import re
import sys
from pathlib import Path

import pytest

from tilewright.core.errors import LibraryError, RecordsError
from tilewright.tools.bench.records import Error, Result, Run
from tilewright.tools.cli import main, report
from tilewright.tools.report.html import charts, page
from tilewright.tools.report.html.sources import Inputs, Source, load

ADVERSARIAL = "</script><img src=x onerror=alert(1)>&amp;\"'"


class Elements(html.parser.HTMLParser):
    """Which elements a page has, and what its scripts say."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)


def records_table(*sources):
    """Headings of the page's table of records, those of parameters, and the texts of its rows."""
    text = page.render(Inputs(sources, []))
    table = text[text.index('<table id="records"') :]
    head, *rows = table[: table.index("</table>")].split("<tr>")[1:]
    headings = re.findall(r"<button[^>]*>(.*?)</button>", head)
    parameters = re.findall(r'class="number parameter"[^>]*><button[^>]*>(.*?)</button>', head)
    return headings, parameters, [list(map(html.unescape, re.findall(r"<td[^>]*>(.*?)</td>", row))) for row in rows]


def card(source):
    """Facts about a file that the page shows at a glance: names and values."""
    text = page.render(Inputs([source], []))
    return [tuple(map(html.unescape, one)) for one in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text)]


@pytest.fixture
def tilewright(monkeypatch, capsys):
    """Run the command line; gives exit status and standard error, white space evened."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tilewright", *map(str, arguments)])
        status = 0
        try:
            main.main()
        except SystemExit as stop:
            status = stop.code or 0
        return status, " ".join(capsys.readouterr().err.split())

    return run


def test_results_that_were_not_timed_have_errors_and_no_times(tilewright, tmp_path, make_record):
    timed = make_record()
    result = Result(**{name: value for name, value in timed if name in Result.model_fields} | {"engine": "emulator"})
    Run(environment={}, records=[], results=[result]).save(tmp_path / "run.json")
    assert tilewright("report", tmp_path / "run.json", "-o", tmp_path / "page.html")[0] == 0
    text = (tmp_path / "page.html").read_text()
    assert "1, 1 kernel on 1 shape" in text and "all verified" in text and "1.0e-07" in text
    *_, [row] = records_table(Source("run", Run(environment={}, records=[], results=[result])))
    assert row == ["1", "naive", "64x64x64", "float32", "", "", "", "1.0e-07", "32"]


def test_the_command_writes_one_page_of_all_its_files(tilewright, tmp_path, make_run, write_journal):
    make_run().save(tmp_path / "before.json")
    make_run(1.1).save(tmp_path / "after.json")
    journal = write_journal(tmp_path / "search.jsonl")
    output = tmp_path / "pages" / "report.html"
    status, err = tilewright(
        "report", tmp_path / "before.json", tmp_path / "after.json", "--journal", journal, "-o", output
    )
    assert (status, err) == (0, f"wrote {output}")
    text = output.read_text()
    for section in ("speed", "comparison", "ratios", "roofline", "tuning", "table", "environment"):
        assert f'<section id="{section}">' in text
    assert '<section id="emulator">' not in text
    assert [path.name for path in output.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize("content", [None, "{", '{"environment": {}, "records": []}'])
def test_a_bad_file_leaves_an_earlier_page_as_it_was(tilewright, tmp_path, content):
    output, records = tmp_path / "report.html", tmp_path / "run.json"
    output.write_text("<title>tilewright: earlier</title>")
    if content is not None:
        records.write_text(content)
    status, err = tilewright("report", records, "-o", output)
    assert status == 2
    assert err.startswith("error:") and "run.json" in err
    assert output.read_text() == "<title>tilewright: earlier</title>"


def test_the_page_replaces_neither_records_nor_another_file(tilewright, tmp_path, make_run):
    records, foreign = tmp_path / "run.json", tmp_path / "index.html"
    make_run().save(records)
    foreign.write_text("<!doctype html><title>mine</title>")
    before = records.read_bytes()
    (tmp_path / "linked.json").symlink_to(records)
    for output, reason in (
        (records, f"--output must name a file of its own, got {records}, which is read"),
        (tmp_path / "linked.json", f"--output must name a file of its own, got {records}, which is read"),
        (foreign, f"--output takes a path for a page of records, got {foreign}, which is there and holds something"),
    ):
        status, err = tilewright("report", records, "-o", output)
        assert status == 2
        assert reason in err
    assert records.read_bytes() == before
    assert foreign.read_text().endswith("<title>mine</title>")
    page_of_ours = tmp_path / "report.html"
    assert tilewright("report", records, "-o", page_of_ours)[0] == 0
    assert tilewright("report", records, "-o", page_of_ours)[0] == 0, "a page replaces an earlier one"


@pytest.mark.parametrize("command", ["explain", "sass", "check"])
def test_a_file_that_another_command_wrote_is_called_what_it_is(tilewright, tmp_path, command):
    path = tmp_path / "facts.json"
    assert tilewright(command, "naive", "--shape", "64", "--json", path)[0] == 0
    status, err = tilewright("report", path, "-o", tmp_path / "report.html")
    what = {"explain": "an explanation", "sass": "counts of machine code", "check": "findings of a check"}[command]
    assert (status, f"RECORDS must be files of records or journals of tune, got {path}, {what}" in err) == (2, True)


def test_a_page_a_figure_and_other_records_are_called_what_they_are(tilewright, tmp_path, make_run):
    make_run().save(tmp_path / "run.json")
    assert tilewright("report", tmp_path / "run.json", "-o", tmp_path / "page.html")[0] == 0
    (tmp_path / "figure.svg").write_text("<svg/>")
    files = {"page.html": "a page of records", "figure.svg": "a figure"}
    for what in ("measurements", "regrets"):
        (tmp_path / f"{what}.json").write_text(f'{{"environment": {{}}, "{what}": []}}')
        files[f"{what}.json"] = f"a file of {what}"
    for name, what in files.items():
        status, err = tilewright("report", tmp_path / name, "-o", tmp_path / "report.html")
        assert status == 2
        assert what in err


RESULTS = Path(__file__).parents[3] / "results"
NO_RECORDS = {
    "h100/distributed.json": "a file of measurements",
    "h100/precisions.json": "a file of measurements",
    "emulator/counts.json": "a file of counts",
    "emulator/errors.json": "a file of measurements",
    "emulator/predicted.json": "a file of measurements",
    "emulator/sources.json": "a file of accesses and presets and sweep",
}


@pytest.mark.parametrize("name", NO_RECORDS)
def test_files_of_the_repository_that_are_no_records_are_called_what_they_are(tilewright, tmp_path, name):
    status, err = tilewright("report", RESULTS / name, "-o", tmp_path / "report.html")
    assert status == 2
    assert f"got {RESULTS / name}, {NO_RECORDS[name]}" in err


@pytest.mark.further
def test_every_file_of_results_is_records_or_called_what_it_is():
    for path in RESULTS.rglob("*.json"):
        try:
            report._refuse_others(path)
        except RecordsError as error:
            assert "RECORDS must be files of records or journals of tune" in str(error)
        else:
            assert load([path]).sources, path


def test_a_place_that_cannot_be_written_is_an_error(tilewright, tmp_path, make_run):
    make_run().save(tmp_path / "run.json")
    status, err = tilewright("report", tmp_path / "run.json", "-o", tmp_path)
    assert status == 2
    assert f"--output takes a path for a page of records, got {tmp_path}, which is a folder" in err


def test_no_file_at_all_is_wrong_usage(tilewright):
    assert tilewright("report")[0] == 2
    with pytest.raises(RecordsError, match="RECORDS must name at least one file"):
        page.render(Inputs([], []))


@pytest.mark.parametrize("library", ["plotly.offline", "jinja2"])
def test_a_missing_library_is_named_with_what_installs_it(monkeypatch, make_run, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(LibraryError, match=rf"needs {library}.*pip install Jinja2 plotly"):
        page.render(Inputs([Source("run", make_run())], []))


def test_the_same_records_make_the_same_page(make_run):
    one, other = (page.render(Inputs([Source("run", make_run())], [])) for _ in range(2))
    assert one == other


def test_the_page_refers_to_nothing_outside_itself(make_run, tmp_path, write_journal):
    journal = load([write_journal(tmp_path / "a.jsonl")])
    elements = Elements(page.render(Inputs([Source("run", make_run())], journal.trials)))
    for tag, attributes in elements.tags:
        assert not {"src", "srcset", "data", "action"} & set(attributes), tag
        assert tag != "link"
        assert attributes.get("href", "#").startswith("#")


def test_whatever_records_say_is_text(make_run, tmp_path, write_journal):
    run = make_run(kernels=((ADVERSARIAL, 1, 500.0),), gpu=ADVERSARIAL)
    run = Run(environment=run.environment | {ADVERSARIAL: ADVERSARIAL, "date": ADVERSARIAL}, records=run.records)
    trials = load([write_journal(tmp_path / "a.jsonl", kernel=ADVERSARIAL, note=ADVERSARIAL)]).trials
    elements = Elements(page.render(Inputs([Source(ADVERSARIAL, run), Source("b", run)], trials)))
    assert "img" not in {tag for tag, _ in elements.tags}
    assert not any(name.startswith("on") for _, attributes in elements.tags for name in attributes)
    data = json.loads(elements.scripts[0])
    assert "&lt;img src=x" in data["figures"]["speed"]["data"][0]["text"][0]
    assert data["searches"][0]["trials"][0]["note"] == ADVERSARIAL


def test_the_table_holds_every_record_with_what_was_picked_and_what_is_wrong(make_record):
    wrong = make_record(error=Error(relative_frobenius=None, limit=1e-6), verified=False)
    best = make_record(kernel="best", picked="split_k", precision="tf32", beta=0.5, config={"BK": 16})
    headings, parameters, [first, second] = records_table(Source("run", Run(environment={}, records=[wrong, best])))
    assert headings[:5] == ["rung", "kernel", "m x n x k", "type", "GFLOP/s"]
    assert first == [
        "1", "naive", "64x64x64", "float32", "1,234", "50.0%", "2.50 ms", "1.00 us", "cuBLAS 13.1.0", "NaN WRONG",
        "32", "",
    ]  # fmt: skip
    assert parameters == ["BLOCK_X", "BK"]
    assert second[-2:] == ["", "16"]
    assert second[1:4] == ["best: split_k", "64x64x64", "float32, tf32, beta=0.5"]


def test_emulated_records_are_labelled_and_have_no_speed(make_run):
    emulated, real = Source("cpu", make_run(engine="emulator")), Source("gpu", make_run())
    headings, *_ = records_table(emulated)
    assert "GFLOP/s" not in headings and "of baseline" not in headings
    *_, [row, *_] = records_table(emulated, real)
    assert row[2:8] == ["cpu", "1024x1024x1024", "float32", "", "", "8.59 ms emulated"]
    text = page.render(Inputs([emulated, real], []))
    assert "They are not GPU times, and say nothing of one." in text
    assert "there is nothing to compare" in text


def test_two_emulated_files_are_compared_by_their_times(make_run):
    sources = [Source("a", make_run(engine="emulator")), Source("b", make_run(2.0, engine="emulator"))]
    text = page.render(Inputs(sources, []))
    assert "The kernels run 2.000 times as fast in b as in a" in text
    assert "emulator time, a" in text and "GFLOP/s, a" not in text
    assert '<section id="speed">' not in text


def test_environments_stand_side_by_side_and_differences_are_marked(make_run):
    one, other = make_run(), make_run(gpu="NVIDIA L4")
    found = page.environments([Source("a", one), Source("b", other)])
    facts = {name: (values, differs) for name, values, differs in found}
    assert facts["revision"] == (["abc1234", "abc1234"], False)
    assert facts["gpu: name"] == (["NVIDIA H200", "NVIDIA L4"], True)


def test_a_card_tells_a_file_at_a_glance(make_run, make_record):
    run = make_run()
    run = Run(environment=run.environment, records=[*run.records, make_record(verified=False, gflops=1e9)])
    source = Source("run", run)
    lines = dict(card(source))
    assert lines["date"] == "2026-11-21 09:47:14 UTC"
    assert lines["records"] == "9, 2 kernels on 5 shapes"
    assert lines["results"] == "1 of 9 wrong"
    assert lines["fastest in float32"] == "40,000 GFLOP/s, 60% of the float32 peak: warptiled on 2048x2048x2048"


def test_a_card_names_the_fastest_points_of_the_chart(make_run, make_record):
    """Products of float32 on tensor cores too, and other kinds by themselves, the fastest kind first."""
    picked = {"kernel": "best", "rung": 0, "picked": "gemm_bf16x6", "m": 8192, "n": 8192, "k": 4096}
    wrong = make_record(verified=False, gflops=1e9)
    one = make_record(**picked, precision="bf16x6", gflops=119_902.5)
    other = make_record(**picked | {"picked": "gemm_fp16x3"}, precision="fp16x3", promise="fp16x3", gflops=235_263.0)
    source = Source("run", Run(environment=make_run().environment, records=[wrong, make_record(), one, other]))
    found = page.points([source])
    assert card(source)[-2:] == [
        ("fastest in float32:fp16x3", "235,263 GFLOP/s, 66% of the fp16x3 peak: gemm_fp16x3 on 8192x8192x4096"),
        ("fastest in float32", "119,902 GFLOP/s, 67% of the bf16x6 peak: gemm_bf16x6 on 8192x8192x4096"),
    ]
    drawn = [speed for trace in charts.speed(found, [source])["data"] for speed in trace["y"]]
    assert (max(drawn), 119_902.5 in drawn) == (235_263.0, True)


def test_wrong_results_alone_make_a_page_without_charts(make_record):
    run = Run(environment={}, records=[make_record(verified=False)])
    text = page.render(Inputs([Source("run", run)], []))
    assert re.search(r"<dd>1 of 1 wrong</dd>", text)
    assert '<section id="speed">' not in text


def test_a_journal_alone_makes_a_page(tmp_path, write_journal):
    text = page.render(load([write_journal(tmp_path / "a.jsonl")]))
    assert '<section id="tuning">' in text
    assert '<section id="table">' not in text
