"""Measured speeds of a launch."""

from dataclasses import replace

import pytest

from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Problem
from tilewright.kernels import find, recorded
from tilewright.select.tables import store
from tilewright.select.tables.cases import problem_of
from tilewright.tools.report import course
from tilewright.tools.report.measured import find_measured

H200 = gpu_named("H200")


def test_the_rungs_of_the_course():
    measured = course.measured()
    (one,) = (rung for rung in measured.rungs if rung.kernel == "naive")
    kernel = find(one.kernel)
    config, problem = recorded(one.kernel, one.config), Problem.parse(one.shape)
    found = find_measured(kernel, config, problem, H200)
    assert found.gflops == one.gflops
    assert found.source == f"the bench of {one.date} on an NVIDIA H200"
    assert find_measured(kernel, {**config, "BLOCK_X": 3}, problem, H200) is None
    assert find_measured(kernel, config, replace(problem, m=4097), H200) is None
    assert find_measured(kernel, config, problem, gpu_named("A100 80GB")) is None


def test_the_shipped_tables():
    entry = next(entry for table in store.shipped() for entry in table.entries if table.gpu == "NVIDIA H200")
    kernel = find(entry.kernel)
    problem = problem_of(entry.m, entry.n, entry.k, entry.case, entry.batch)
    found = find_measured(kernel, kernel.config(entry.config), problem, H200)
    assert found.gflops == pytest.approx(entry.gflops)
    assert "table" in found.source
