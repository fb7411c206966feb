"""The names of the kernels that cuBLAS runs, on a real GPU."""

import json
import sys

import numpy as np
import pytest

from starting import start
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.runtime.captured_kernels import captured_kernels
from tilewright.tools.bench.cublas import CublasBaseline
from tilewright.tools.cli import main


@pytest.fixture(scope="module")
def baseline(engine):
    pytest.importorskip("nvmath.bindings.cublas", reason="pip install nvmath-python nvidia-cublas")
    return CublasBaseline(engine)


def operands(engine, m, n, k):
    random = np.random.default_rng(0)
    return [engine.upload(random.random(shape, dtype=np.float32)) for shape in ((m, k), (k, n), (m, n))]


def test_a_kernel_of_our_own_is_named_and_not_run(engine):
    kernel = find("coalesced")
    problem, config = Problem(64, 96, 32), find("coalesced").config()
    a, b, _ = operands(engine, 64, 96, 32)
    c = engine.upload(np.full((64, 96), 7, np.float32))

    def work(index, stream):
        start(engine, plan, a, b, c, stream)
        start(engine, plan, a, b, c, stream)

    plan = engine.plan(kernel, config, problem)
    with engine.current:
        launched = captured_kernels(work, engine.stream)
    (step,) = plan.steps
    assert launched == [("coalesced", step.grid, step.block)] * 2
    assert (engine.download(c) == 7).all(), "a captured kernel has run"


@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (64, 64, 65536), (100, 99, 98), (1, 4096, 64)])
@pytest.mark.parametrize("precision", [None, "tf32"])
def test_every_work_of_cublas_has_kernels(engine, baseline, shape, precision):
    problem = Problem(*shape)
    sets = [operands(engine, *shape)]
    for name, work in baseline.works(problem, sets, precision).items():
        launched = baseline.kernels(work)
        assert launched, name
        for kernel in launched:
            assert kernel.name and not kernel.name.startswith(("_Z", "void "))
            assert min(kernel.grid) >= 1 and 1 <= np.prod(kernel.block) <= 1024


def test_a_failing_work_leaves_the_stream_usable(engine, baseline):
    def broken(index, stream):
        raise ValueError("broken")

    with engine.current, pytest.raises(ValueError, match="broken"):
        captured_kernels(broken, engine.stream)
    sets = [operands(engine, 64, 64, 64)]
    assert all(map(baseline.kernels, baseline.works(Problem(64, 64, 64), sets).values()))


def test_bench_shows_and_records_them(baseline, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    path = tmp_path / "run.json"
    arguments = ["bench", "warptiled", "--shape", "1024", "--samples", "2", "--show-baseline-kernel"]
    monkeypatch.setattr(sys, "argv", ["tilewright", *arguments, "--json", str(path)])
    with pytest.raises(SystemExit):
        main.main()
    (record,) = json.loads(path.read_text())["records"]
    printed = "".join(capsys.readouterr().out.split())
    assert record["baseline"]["kernels"]
    for kernel in record["baseline"]["kernels"]:
        assert kernel["name"].replace(" ", "")[:60] in printed
