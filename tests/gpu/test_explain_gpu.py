"""Explained counters next to Nsight Compute's, on this machine's GPU."""

import pytest

from tilewright.core.errors import EngineUnavailableError
from tilewright.core.gpus import find_gpu
from tilewright.core.problem import Problem, Scalars
from tilewright.kernels import find
from tilewright.tools.bench import ncu
from tilewright.tools.explain.explanation import explain, to_json

LAUNCHES = [
    ("naive", Problem(100, 60, 64), Scalars()),
    ("vectorized", Problem(200, 136, 68), Scalars(beta=0.5)),  # aligned rows that tiles do not divide
    ("async_copy", Problem(130, 140, 150), Scalars()),
]
EXACT = ("requests", "sectors", "ffma of threads")


def test_global_memory_and_multiply_adds_are_equal_to_the_last_unit(engine):
    listed = [ncu.ProfiledLaunch.of(find(name), find(name).config(), *what) for name, *what in LAUNCHES]
    try:
        counted = ncu.profile(listed)
    except EngineUnavailableError as reason:
        assert "Nsight Compute" in str(reason)  # it is not installed, or may not count
        return
    gpu = find_gpu(engine.device_name, engine.capability)
    for (name, problem, scalars), counts in zip(LAUNCHES, counted, strict=True):
        kernel = find(name)
        explained = explain(kernel, kernel.config(), problem, gpu, scalars=scalars)
        for row in ncu.compare(to_json(explained), counts):
            if row.theirs is None:
                continue
            if row.name.endswith(EXACT) and "shared" not in row.name:
                assert row.ours == row.theirs, (name, row)
            elif row.name.endswith(ncu.BY_INSTRUCTION):
                assert row.ours == pytest.approx(row.theirs, rel=0.05), (name, row)
