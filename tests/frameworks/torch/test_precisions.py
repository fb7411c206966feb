"""Speed against error of what a float32 product may be computed in: PyTorch on the CPU stands in for a GPU."""

import math
import sys

import pytest
import torch

from studies import runner
from studies.precisions import BASELINE, OWN, adversarial, measuring, ways
from studies.precisions.measuring import Scale
from studies.record import Measurements
from tilewright.core.problem import PRECISIONS
from tilewright.emulator.engine import EmulatorEngine
from tilewright.tools.bench import end_to_end
from tilewright.tools.bench.suites import SuiteSize

pytestmark = pytest.mark.further

SMALL = Scale("cpu", (SuiteSize(48, 40, 32), SuiteSize(24, 16, 64)), side=24, depths=(16,))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(end_to_end, "WALL_S", 1e-4)


def every(scale=SMALL, among=None):
    among = among or [*ways.of_torch(), *ways.of_tilewright()]
    return {one.way: one for one in measuring.choices(scale, among, scale.shapes[0])}


def test_each_way_is_next_to_the_baseline_of_its_run(capsys):
    found = every()
    baseline = found[BASELINE]
    assert len(found) == 11 and not capsys.readouterr().out
    for one in found.values():
        assert one.us > 0 and one.what == {"m": 48, "n": 40, "k": 32}
    assert found["PyTorch bf16"].error > 100 * baseline.error
    assert found["PyTorch fp16"].error < found["PyTorch bf16"].error
    assert found["tilewright float32"].error < 1e-6


def test_a_way_that_is_refused_is_left_out_and_said(capsys):
    def refuse(a, b):
        raise ValueError("no such algorithm\nand more")

    found = every(among=[next(ways.of_torch()), ways.of_products("new", "New 1", refuse)])
    assert list(found) == [BASELINE]
    assert capsys.readouterr().out == f"new at {SMALL.shapes[0]}: ValueError: no such algorithm\n"


def test_pytorchs_setting_is_what_it_was():
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    with ways.multiplying("tf32"):
        assert settings.fp32_precision == "tf32"
    assert settings.fp32_precision == before


def test_a_library_that_is_missing_is_said(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "studies.precisions.of_jax", None)
    monkeypatch.setitem(sys.modules, "studies.precisions.of_triton", None)
    assert {way.library.split()[0] for way in measuring.all_ways()} == {"PyTorch", "tilewright"}
    said = capsys.readouterr().out.splitlines()
    assert [text.partition(":")[0] for text in said] == ["without jax", "without triton"]


def test_jax(capsys):
    pytest.importorskip("jax")
    from studies.precisions import of_jax  # noqa: PLC0415

    found = every(among=[next(ways.of_torch()), *of_jax.ways()])
    said = capsys.readouterr().out.splitlines()
    assert found["JAX highest"].error < 1e-6
    assert len(found) + len(said) == 4, "what XLA lacks on a CPU is said"


def test_adversarial_inputs_of_every_class_have_errors_next_to_pytorchs():
    cases = list(measuring.adversarial_cases(SMALL, 16))
    names = [*adversarial.ORDINARY, *adversarial.EXACT, *adversarial.EXTREME]
    every_way = [BASELINE, *(f"{OWN} {precision}" for precision in PRECISIONS)]
    assert [(case.what["inputs"], case.way) for case in cases] == [(name, way) for name in names for way in every_way]
    for case in cases:
        assert case.facts["element"] < 2e-6, case
        assert case.what["inputs"] not in adversarial.EXACT or case.facts["element"] == case.error == 0


def test_errors_of_what_is_not_finite_are_none():
    a, b = torch.full((2, 2), math.inf), torch.eye(2)
    way = next(ways.of_torch())
    assert measuring._errors(way, a, b, a.double() @ b.double(), a.double() @ b.double()) == (None, None)


def measured(monkeypatch, path, *options):
    """Measurements that the command writes, of small products on the host."""
    monkeypatch.setattr(runner, "resolve_engine", lambda name: EmulatorEngine())
    monkeypatch.setattr(measuring, "H200", SMALL)
    monkeypatch.setattr(measuring, "_OTHERS", {})
    arguments = ["measure", "--out", str(path), *options]
    assert runner.run("precisions", None, measuring.measurements, options=measuring.options, arguments=arguments) == 0
    return Measurements.load(path)


def test_the_command_writes_both_parts(monkeypatch, tmp_path, capsys):
    run = measured(monkeypatch, tmp_path / "precisions.json")
    errors = [one for one in run.measurements if "inputs" in one.what]
    assert len(errors) == 6 * len(adversarial.ORDINARY | adversarial.EXACT | adversarial.EXTREME)
    assert len(run.measurements) - len(errors) == 2 * 11
    assert run.environment["engine"] == "emulator"
    assert "24, 16, 64  tilewright fp16x3: " in capsys.readouterr().out


def test_a_part_of_the_command(monkeypatch, tmp_path):
    run = measured(monkeypatch, tmp_path / "precisions.json", "--part", "speeds")
    assert len(run.measurements) == 2 * 11 and run.values("inputs") == []
