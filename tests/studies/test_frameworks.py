"""Comparisons with frameworks: JAX and CuPy's interface on the host, and processes of their own."""

import numpy as np
import pytest

from studies.frameworks import __main__ as measuring
from studies.frameworks import comparisons as kinds
from studies.frameworks import of_cupy
from tilewright.core.errors import LaunchError
from tilewright.tools.bench import end_to_end


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(end_to_end, "WALL_S", 1e-4)
    monkeypatch.setattr(end_to_end, "HOST_SAMPLES", 5)


def test_jax():
    pytest.importorskip("jax")
    from studies.frameworks import of_jax  # noqa: PLC0415

    found = list(of_jax.comparisons((16,)))
    assert [(one.what["kind"], one.what["of"], one.way) for one in found] == [
        (kind, "16", way) for kind in (kinds.CALL, kinds.PROGRAM) for way in (kinds.OURS, kinds.ALONE)
    ]
    assert all(one.us > 0 for one in found)


def test_a_library_of_numpys_interface():
    found = list(of_cupy.of_library(np, "NumPy", lambda: None, (16, 24)))
    assert [(one.what["kind"], one.what["of"]) for one in found[::2]] == [
        (kind, of) for of in ("16", "24") for kind in (kinds.WALL, kinds.HOST)
    ]


def test_results_that_differ_are_an_error(monkeypatch):
    monkeypatch.setattr(of_cupy, "matmul", lambda a, b: 2 * (a @ b))
    with pytest.raises(LaunchError, match=r"NumPy, 16: .* differs from the framework's by 1.0e\+00"):
        list(of_cupy.of_library(np, "NumPy", lambda: None, (16,)))


def test_several_frameworks_run_in_processes_of_their_own(monkeypatch):
    monkeypatch.setattr(measuring, "in_a_process", lambda *started: [started])
    assert list(measuring.measurements(None, ["jax", "cupy"])) == [
        ("frameworks", ["--framework", "jax"]),
        ("frameworks", ["--framework", "cupy"]),
    ]


def test_one_framework_runs_in_this_process(monkeypatch):
    monkeypatch.setattr(of_cupy, "comparisons", lambda: iter([1, 2]))
    assert list(measuring.measurements(None, ["cupy"])) == [1, 2]
