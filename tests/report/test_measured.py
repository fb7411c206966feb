"""What was measured of a launch."""

from dataclasses import replace

import pytest

from tilewright.bench.records import Run
from tilewright.gpus import gpu_named
from tilewright.kernels import find
from tilewright.problem import Problem
from tilewright.report.measured import find_measured
from tilewright.tables import store
from tilewright.tables.cases import posed

H200 = gpu_named("H200")
NAIVE = find("naive")


def test_records_of_the_same_launch_on_the_same_product(tmp_path, make_record):
    config = NAIVE.config()
    run = Run(
        environment={"gpu": {"name": "NVIDIA H200", "compute_capability": "9.0"}},
        records=[make_record(config=dict(config), gflops=321.0)],
    )
    run.save(tmp_path / "h200" / "ladder.json")
    (tmp_path / "h200" / "other.json").write_text("[]")
    problem = Problem(64, 64, 64)
    found = find_measured(NAIVE, config, problem, H200, tmp_path)
    assert (found.gflops, found.source) == (321.0, "h200/ladder.json")
    assert find_measured(NAIVE, NAIVE.config({"BLOCK_X": 16}), problem, H200, tmp_path) is None
    assert find_measured(NAIVE, config, replace(problem, m=65), H200, tmp_path) is None
    assert find_measured(NAIVE, config, problem, gpu_named("A100 80GB"), tmp_path) is None


def test_emulated_and_wrong_records_say_nothing(tmp_path, make_record):
    gpu = {"gpu": {"name": "NVIDIA H200", "compute_capability": "9.0"}}
    config = dict(NAIVE.config())
    Run(environment={}, records=[make_record(config=config)]).save(tmp_path / "emulator" / "a.json")
    Run(environment=gpu, records=[make_record(config=config, verified=False)]).save(tmp_path / "h200" / "b.json")
    assert find_measured(NAIVE, NAIVE.config(), Problem(64, 64, 64), H200, tmp_path) is None


def test_the_shipped_tables_are_looked_up_too(tmp_path):
    entry = next(entry for table in store.shipped() for entry in table.entries if table.gpu == "NVIDIA H200")
    kernel = find(entry.kernel)
    problem = posed(entry.m, entry.n, entry.k, entry.case, entry.batch)
    found = find_measured(kernel, kernel.config(entry.config), problem, H200, tmp_path)
    assert found.gflops == pytest.approx(entry.gflops)
    assert "table" in found.source
