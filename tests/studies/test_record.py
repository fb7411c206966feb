"""Measurements, their files, and the command that writes them."""

from functools import partial
from pathlib import Path

import pytest

from studies import runner
from studies.record import Measurement, Measurements
from studies.results import RECORDS, paths
from studies.runner import in_a_process, run
from studies.templates import section
from tilewright.api.engines import cuda_unavailable
from tilewright.core.errors import LaunchError, RecordsError

FOUND = [
    Measurement(what={"size": size, "layout": layout}, way=way, us=us, error=1e-7, limit=1e-6)
    for size in (64, 128)
    for layout in ("NN", "NT")
    for way, us in (("ours", 2.0), ("theirs", 3.0))
]


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(runner, "resolve_engine", lambda name: None)
    monkeypatch.setattr(runner, "environment", lambda engine: {"gpu": {"name": "G"}})


def command(path, found, *more, **named):
    def measure(engine):
        yield from found

    return run("some", "Something.", measure, arguments=["measure", "--out", str(path), *more], **named)


def test_rows_are_work_that_is_the_same():
    measured = Measurements(environment={}, measurements=FOUND)
    assert [row.what for row in measured.rows()] == [one.what for one in FOUND[::2]]
    assert [list(row.of) for row in measured.rows()] == [["ours", "theirs"]] * 4
    rows = measured.rows("layout")
    assert [row.what for row in rows] == [{"size": 64}, {"size": 128}]
    assert list(rows[1].of) == [(layout, way) for layout in ("NN", "NT") for way in ("ours", "theirs")]
    assert rows[1].of["NT", "ours"] is FOUND[-2]
    assert measured.values("layout") == ["NN", "NT"]


def test_an_error_beyond_its_limit_or_that_is_not_known_is_wrong():
    one = FOUND[0]
    assert one.right and str(one) == "64, NN  ours: 2.00 us error 1.00e-07"
    for error in (2e-6, None):
        wrong = one.model_copy(update={"error": error})
        assert not wrong.right and str(wrong).endswith("WRONG")
    assert one.model_copy(update={"error": None, "limit": None}).right


@pytest.mark.usefixtures("on_a_gpu")
def test_the_command_writes_what_is_measured_as_it_comes(tmp_path, capsys):
    path = tmp_path / "some.json"

    def broken():
        yield from FOUND
        raise LaunchError("a test says so")

    assert command(path, broken()) == LaunchError.status
    assert "error: a test says so" in capsys.readouterr().err
    assert Measurements.load(path) == Measurements(environment={"gpu": {"name": "G"}}, measurements=FOUND)
    assert command(path, FOUND) == 0
    assert command(path, [FOUND[0].model_copy(update={"error": 1.0})]) == 1
    assert "WRONG" in capsys.readouterr().out


@pytest.mark.usefixtures("on_a_gpu")
def test_options_of_a_study(tmp_path):
    given = []
    arguments = ["measure", "--out", str(tmp_path / "a.json"), "--samples", "3"]
    run(
        "some",
        None,
        lambda engine, samples: given.append(samples) or [],
        options=lambda parser: parser.add_argument("--samples", type=int),
        arguments=arguments,
    )
    assert given == [3]


def test_a_process_of_its_own(monkeypatch, tmp_path):
    started = []

    class Process:
        def __init__(self, command, status=0, **named):
            started.append(command[1:-1])
            Measurements(environment={}, measurements=FOUND).save(Path(command[-1]))
            self.status = status

        def wait(self, timeout=None):
            if timeout == 1:
                raise runner.subprocess.TimeoutExpired("", timeout)
            return self.status

        def kill(self):
            pass

    monkeypatch.setattr(runner.subprocess, "Popen", Process)
    assert in_a_process("some", ["--only", "a"]) == FOUND
    assert started == [["-m", "studies.some", "measure", "--only", "a", "--out"]]
    with pytest.raises(LaunchError, match="did not end within 1 s"):
        in_a_process("some", [], timeout=1)
    monkeypatch.setattr(runner.subprocess, "Popen", partial(Process, status=1))
    with pytest.raises(LaunchError, match="failed: see above"):
        in_a_process("some", [])


def test_a_page_is_written(capsys):
    def refuse():
        raise RecordsError("no such page")

    assert run("some", None, write=lambda: None, arguments=["write"]) == 0
    assert run("some", None, write=refuse, arguments=["write"]) == RecordsError.status
    assert "error: no such page" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run("some", None, write=refuse, arguments=["measure", "--out", "a"])


def test_a_file_of_another_kind_is_not_written_over(tmp_path, capsys):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    assert command(path, FOUND) != 0
    assert "error: " in capsys.readouterr().err
    assert path.read_text() == "mine"


@pytest.mark.skipif(not cuda_unavailable(), reason="there is a GPU")
def test_the_command_says_what_is_missing(capsys, tmp_path):
    assert command(tmp_path / "run.json", FOUND) == 1
    assert "error: the cuda engine cannot run here" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("study", ["clients", "first_calls", "float32_way", "grouped", "sustained"])
def test_sections_are_of_the_files_that_there_are(study, tmp_path, monkeypatch):
    assert section(study).count("| --- |") >= 1
    monkeypatch.chdir(tmp_path)
    assert section(study) == ""
    records = paths(study)[-1]
    records.parent.mkdir(parents=True)
    records.write_text('{"records": []}')
    with pytest.raises(RecordsError, match=f"{study}.json is not a file of records"):
        section(study)


NOT_MEASURED: set[str] = set()
"""Studies whose command has not run on a GPU: take out what has."""


def test_every_study_has_records():
    assert {study for study in RECORDS if not any(path.exists() for path in paths(study))} == NOT_MEASURED
