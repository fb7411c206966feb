"""How far picks are from the fastest known, on the emulator."""

import json

import pytest

from tilewright.engines.emulator import EmulatorEngine
from tilewright.kernels import find
from tilewright.problem import Problem
from tilewright.tuning import regret
from tilewright.tuning.regret import Choice, Regret, draw, known, mean, regrets

ENGINE = EmulatorEngine()


def test_problems_are_drawn_alike_by_the_same_seed():
    problems = draw(200, seed=1)
    assert problems == draw(200, seed=1)
    assert problems != draw(200, seed=2)
    sizes = [size for problem in problems for size in (problem.m, problem.n, problem.k)]
    assert 64 <= min(sizes) < 80
    assert 3300 < max(sizes) <= 4096
    assert all(problem.n % 32 == 0 for problem in problems[1::2])
    assert any(problem.n % 4 for problem in problems[::2])


def test_known_are_the_defaults_of_what_takes_the_problem():
    names = {choice.kernel.name for choice in known(Problem(64, 64, 64), ENGINE)}
    assert {"naive", "warptiled"} <= names
    assert "wmma_tf32" not in names


def test_a_regret_is_the_picks_time_over_the_fastest(monkeypatch, tmp_path, capsys):
    few = [Choice(find(name), find(name).config()) for name in ("naive", "coalesced")]
    monkeypatch.setattr(regret, "known", lambda problem, engine: few)
    (found,) = regrets(ENGINE, [Problem(16, 16, 16)], samples=2)
    assert found.shape == "16x16x16"
    assert found.picked == "coalesced:BLOCK=32"
    assert found.factor >= 1
    assert (found.factor == 1) == (found.picked == found.fastest)
    assert {words.split(":")[0] for words in found.times_us} == {"naive", "coalesced"}
    assert found.factor == found.times_us[found.picked] / min(found.times_us.values())
    path = tmp_path / "regret.json"
    assert regret.main(["--problems", "2", "--largest", "8", "--engine", "emulator", "--json", str(path)]) == 0
    assert "2 problems:" in capsys.readouterr().out
    written = json.loads(path.read_text())
    assert [set(one) for one in written["regrets"]] == [{"shape", "picked", "fastest", "factor", "times_us"}] * 2
    assert [one._asdict() for one in regret.load(path)[1]] == written["regrets"]
    assert regret.main(["--problems", "1", "--largest", "8", "--engine", "emulator", "--json", str(path / "x")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_the_mean_is_geometric():
    assert mean([Regret("", "", "", 1.0), Regret("", "", "", 4.0)]) == pytest.approx(2)
