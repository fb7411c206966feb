"""`bench best`: what the selector picks, measured."""

import json
import sys

import pytest

from tilewright.core.problem import Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import BEST, find
from tilewright.kernels.kernel import Choice
from tilewright.select.selector import select
from tilewright.tools.bench.records import Run
from tilewright.tools.bench.run import bench
from tilewright.tools.cli import bench as cli_bench
from tilewright.tools.cli import main

ENGINE = EmulatorEngine()


@pytest.mark.further
def test_each_problem_gets_its_own_pick_and_its_record_names_it():
    problems = [Problem.parse("8"), Problem.parse("64x128x16")]
    coalesced = Choice(find("coalesced"), find("coalesced").config())
    runs = list(bench(ENGINE, [([BEST, coalesced], problem) for problem in problems], samples=1, library=None))
    for problem, (best, other) in zip(problems, runs, strict=True):
        kernel, config = select(problem, None)
        assert (best.kernel, best.picked, best.rung, best.config) == (BEST, kernel.name, kernel.rung, dict(config))
        assert best.verified
        assert (other.kernel, other.picked) == ("coalesced", None)
    assert runs[0][0].picked != runs[1][0].picked


def test_the_command_line_takes_it_and_records_are_read_back(monkeypatch, capsys, tmp_path):
    path = tmp_path / "run.json"
    arguments = ["tilewright", "bench", "best", "naive", "--shape", "8", "--engine", "emulator", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert not stop.value.code
    assert "best: coalesced" in capsys.readouterr().out
    first, second = json.loads(path.read_text())["results"]
    assert (first["kernel"], first["picked"], first["rung"], first["config"]) == ("best", "coalesced", 2, {"BLOCK": 32})
    assert (second["kernel"], second["picked"]) == ("naive", None)
    assert Run.load(path).results[0].picked == "coalesced"


def test_a_config_for_it_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tilewright", "bench", "best", "--config", "BM=64", "--engine", "emulator"])
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 2
    assert "--config needs kernels whose parameters it sets" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("precision", ["ieee", "fp16x3"])
def test_a_precision_is_asked_of_the_selector_and_recorded(monkeypatch, capsys, tmp_path, precision):
    path = tmp_path / "run.json"
    arguments = ["bench", "best", "--precision", precision, "--shape", "8", "--engine", "emulator", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", ["tilewright", *arguments])
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert not stop.value.code
    assert f"8x8x8, float32:{precision}" in capsys.readouterr().out
    (record,) = Run.load(path).results
    assert (record.promise, record.precision, record.picked) == (precision, None, "coalesced")
    assert record.case == f"NN float32:{precision}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["best", "--precision", "fp16x"], "did you mean 'fp16x3'?"),
        (["best", "--precision", "ieee", "--dtype", "bfloat16"], "precision is for float32 factors"),
        (["gemm_bf16x3", "--precision", "fp16x3"], "gemm_bf16x3 makes products of bf16x3, got precision 'fp16x3'"),
        (["gemm_sm90", "--precision", "ieee"], "gemm_sm90 takes float16, bfloat16, got float32"),
    ],
)
def test_a_precision_that_cannot_be_kept_is_refused(monkeypatch, capsys, arguments, words):
    command = ["tilewright", "bench", *arguments, "--shape", "8", "--engine", "emulator"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.further
def test_with_a_precision_and_no_name_it_is_the_kernels_that_keep_it(monkeypatch, tmp_path):
    path = tmp_path / "run.json"
    promising = {"coalesced": True, "wmma_f16": False, "gemm_tf32": False, "gemm_bf16x3": False, "gemm_fp16x3": True}
    monkeypatch.setattr(cli_bench, "KERNELS", tuple(map(find, promising)))
    arguments = ["bench", "--all", "--precision", "fp16x3", "--shape", "9", "--engine", "emulator", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", ["tilewright", *arguments])
    with pytest.raises(SystemExit):
        main.main()
    records = Run.load(path).results
    assert {record.kernel for record in records} == {name for name, keeps in promising.items() if keeps}
    assert {record.promise for record in records} == {"fp16x3"}


@pytest.mark.further
def test_with_b_prepared_each_choice_is_measured_twice_in_one_run(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run.json"
    arguments = ["bench", "best", "gemm_bf16x6", "--prepared", "--shape", "130x90x70", "--engine", "emulator"]
    monkeypatch.setattr(sys, "argv", ["tilewright", *arguments, "--json", str(path)])
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert not stop.value.code
    records = Run.load(path).results
    assert [(record.kernel, record.prepared) for record in records] == [
        ("best", False),
        ("best", True),
        ("gemm_bf16x6", False),
        ("gemm_bf16x6", True),
    ]
    assert records[2].error == records[3].error
    assert all(record.verified for record in records)
    assert capsys.readouterr().out.count("prepared") == 2
