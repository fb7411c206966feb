"""Files of records and journals, as a report reads them."""

import json
from pathlib import Path

import pytest

from tilewright.core.errors import RecordsError
from tilewright.core.gpus import find_gpu
from tilewright.tools.bench.records import Error, Run, Times
from tilewright.tools.report.html.sources import Source, load


@pytest.fixture
def saved(tmp_path, make_run):
    """Write a run under a name."""

    def save(name, run=None):
        (run or make_run()).save(tmp_path / name)
        return tmp_path / name

    return save


def test_records_and_journals_are_distinguished(saved, write_journal, tmp_path):
    inputs = load([saved("run.json"), write_journal(tmp_path / "search.txt")], [write_journal(tmp_path / "b.jsonl")])
    assert [source.label for source in inputs.sources] == ["run"]
    assert len(inputs.trials) == 12


def test_labels_are_as_long_as_it_takes_to_tell_files_apart(saved):
    names = ("before/h200/run.json", "after/h200/run.json", "one.json", "one.txt")
    paths = [saved(name) for name in names]
    labels = [source.label for source in load(paths).sources]
    assert labels == ["before/h200/run", "after/h200/run", *map(str, paths[2:])]


def test_a_source_knows_its_gpu_by_what_the_driver_calls_it(make_run):
    source = Source("run", make_run())
    assert (source.device, source.gpu) == ("NVIDIA H200", find_gpu("NVIDIA H200", (9, 0)))
    assert source.clocks == "SM 1980 MHz, memory 3201 MHz"
    assert not source.emulated
    assert Source("run", make_run(gpu="NVIDIA H999")).gpu is None


@pytest.mark.parametrize("environment", [{}, {"gpu": "H200", "cpu": 3}, {"gpu": {"compute_capability": "new"}}])
def test_an_environment_need_say_nothing(environment, make_run):
    source = Source("run", Run(environment=environment, records=make_run().records))
    assert source.gpu is None
    assert source.clocks == ""
    assert "GPU" in source.device


def test_emulated_records_are_of_no_gpu(make_run):
    records = make_run(engine="emulator").records
    source = Source("run", Run(environment={"cpu": {"name": "EPYC"}}, records=records))
    assert source.emulated
    assert (source.device, source.gpu) == ("emulator on EPYC", None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.json", None, "there is no file .*missing.json"),
        ("cut.json", '{"environment": {', "cut.json is not a file of records"),
        ("other.json", '{"a": 1}', "other.json is not a file of records"),
        ("empty.json", '{"format": 2, "environment": {}, "records": []}', "empty.json holds no records"),
        ("binary.json", b"\xff\xfe\x00", "binary.json is not a file of records"),
        ("cut.jsonl", '{"device": "x"', "cut.jsonl is not a journal of tilewright tune: it holds no trial"),
    ],
)
def test_files_that_are_neither_are_refused(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RecordsError, match=message):
        load([tmp_path / name])


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(RecordsError, match="RECORDS must be files, got the folder"):
        load([tmp_path])


def test_records_given_as_a_journal_are_refused(saved):
    with pytest.raises(RecordsError, match=r"--journal takes a journal of tilewright tune, got .*run\.json"):
        load([], [saved("run.json")])


def test_a_file_named_twice_is_refused(saved):
    path = saved("run.json")
    with pytest.raises(RecordsError, match=r"RECORDS must name each file once, got .*run\.json several times"):
        load([path, Path(path)])


def test_records_of_what_cannot_be_computed_are_refused(saved, make_record):
    path = saved("run.json", Run(environment={}, records=[make_record(dtype="float8")]))
    with pytest.raises(RecordsError, match=r"run\.json is not a file of records: dtype must be one of .* got 'float8'"):
        load([path])


@pytest.mark.parametrize("field", ["gflops", "ratio"])
def test_speeds_that_are_no_numbers_are_refused(saved, field):
    path = saved("run.json")
    facts = json.loads(path.read_text())
    facts["records"][1][field] = float("nan")
    path.write_text(json.dumps(facts))
    with pytest.raises(RecordsError, match=r"records\.1\.\w+: Input should be a finite number"):
        load([path])


def test_an_error_that_is_no_number_is_what_a_wrong_result_may_have(saved, make_record, make_run):
    wrong = make_record(
        error=Error(relative_frobenius=None, limit=1e-6), verified=False, time_us=Times(min=1, median=1)
    )
    [source] = load([saved("run.json", Run(environment={}, records=[wrong]))]).sources
    assert not all(one.verified for one in source.run.every_result)
