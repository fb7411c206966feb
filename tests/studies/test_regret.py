"""How far picks are from the fastest known, on the emulator."""

import pytest

from studies.record import Measurements
from studies.runner import run
from studies.tuning import regret
from studies.tuning.regret import Choice, draw, known, regrets, words
from tilewright.core.problem import Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.select.tables.entry import Entry
from tilewright.select.tables.merging import KEEP_WITHIN
from tilewright.select.tables.table import Table
from tilewright.tools.bench.records import Run
from tilewright.tools.bench.run import NumpyBaseline

ENGINE = EmulatorEngine()


def table_of(problems):
    config = dict(find("naive").config())
    entries = [Entry(m=p.m, n=p.n, k=p.k, case=p.case, kernel="naive", config=config, gflops=1) for p in problems]
    return Table.of("X", (9, 0), entries)


def test_problems_are_drawn_alike_by_the_same_seed():
    problems = draw(200, seed=1)
    assert problems == draw(200, seed=1)
    assert problems != draw(200, seed=2)
    sizes = [size for problem in problems for size in (problem.m, problem.n, problem.k)]
    assert 64 <= min(sizes) < 80
    assert 3300 < max(sizes) <= 4096
    assert all(problem.n % 32 == 0 for problem in problems[1::2])
    assert any(problem.n % 4 for problem in problems[::2])
    assert draw(199, seed=1, tables=[table_of(problems[:1])]) != problems[:199]
    assert not {*draw(199, seed=1, tables=[table_of(problems)])} & {*problems}


def test_problems_are_of_the_type_and_the_orders_asked_for():
    problems = draw(5, seed=1, dtype="bfloat16", layout="NT")
    types = {(one.arithmetic.factors, one.arithmetic.result) for one in problems}
    assert (types, {one.layout for one in problems}) == ({("bfloat16", "bfloat16")}, {"NT"})
    assert [one.shape for one in problems] == [one.shape for one in draw(5, seed=1)]
    assert {one.arithmetic.result for one in draw(3, seed=1, dtype="float8_e4m3fn", layout="NT")} == {"float32"}


def test_known_are_the_defaults_of_what_takes_the_problem():
    names = {choice.kernel.name for choice in known(Problem(64, 64, 64), ENGINE)}
    assert {"naive", "warptiled"} <= names
    assert "wmma_tf32" not in names


@pytest.fixture
def few(monkeypatch):
    """Two kernels are all that is known."""
    choices = [Choice(find(name), find(name).config()) for name in ("naive", "coalesced")]
    monkeypatch.setattr(regret, "known", lambda problem, engine: choices)


def test_a_regret_is_the_picks_time_over_the_fastest(few):
    ((found, records),) = regrets(ENGINE, [Problem(16, 16, 16)], NumpyBaseline(), samples=2)
    assert found.problem.shape == "16x16x16"
    assert found.picked == "coalesced:BLOCK=32"
    assert found.factor >= 1
    assert {name.split(":")[0] for name in found.times_us} == {"naive", "coalesced"}
    assert found.factor == found.times_us[found.picked] / min(found.times_us.values())
    near = {name for name, time_us in found.times_us.items() if time_us <= KEEP_WITHIN * min(found.times_us.values())}
    assert {words(Choice(find(record.kernel), find(record.kernel).config(record.config))) for record in records} == near
    assert all(record.baseline for record in records)
    ((without, _),) = regrets(ENGINE, [Problem(16, 16, 16)], samples=2)
    assert found.ratio > 0
    assert without.ratio is None


def measure(*arguments):
    return run("tuning.regret", "", regret.measurements, options=regret.options, arguments=["measure", *arguments])


def test_what_is_found_is_written(few, tmp_path, capsys):
    path, records = tmp_path / "regret.json", tmp_path / "records.json"
    arguments = ["--problems", "2", "--largest", "8", "--engine", "emulator", "--records", str(records)]
    assert measure(*arguments, "--out", str(path)) == 0
    out = capsys.readouterr().out
    assert out.count(" factor ") == 2 and out.count(" ratio ") == 2
    written = Measurements.load(path).measurements
    assert [one.facts["configs"] for one in written][1] == [], "each config is named once"
    _, found = regret.load(path)
    assert [one.problem.shape for one in found] == [one.what["shape"] for one in written]
    for one in found:
        assert one.factor == pytest.approx(one.times_us[one.picked] / min(one.times_us.values()), rel=1e-4)
        assert {name.split(":")[0] for name in one.times_us} == {"naive", "coalesced"}
    assert {record.shape for record in Run.load(records).records} == {one.what["shape"] for one in written}
    assert measure(*arguments, "--out", str(path / "x")) == 2
    assert "--out takes a path for a file of measurements, got" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["--problems", "--largest"])
def test_there_must_be_something_to_draw(name, capsys):
    with pytest.raises(SystemExit):
        measure("--out", "a.json", name, "0")
    assert f"argument {name}: must be at least 1, got 0" in capsys.readouterr().err
