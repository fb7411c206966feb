"""Comparisons with frameworks: JAX and CuPy's interface on the host, files, and the command."""

import numpy as np
import pytest

from studies.frameworks import comparisons as kinds
from studies.frameworks import measuring as command
from studies.frameworks import of_cupy
from studies.frameworks.comparisons import Comparison, Comparisons
from tilewright.bench import end_to_end
from tilewright.bench.records import PerCall
from tilewright.engines.registry import cuda_unavailable
from tilewright.errors import LaunchError, RecordsError


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(end_to_end, "WALL_S", 1e-4)
    monkeypatch.setattr(end_to_end, "HOST_SAMPLES", 5)


def test_jax():
    pytest.importorskip("jax")
    from studies.frameworks import of_jax  # noqa: PLC0415

    found = list(of_jax.comparisons((16,)))
    assert [(one.kind, one.what) for one in found] == [(kinds.CALL, "16"), (kinds.PROGRAM, "16")]
    assert all(one.us.ours > 0 and one.us.baseline > 0 for one in found)


def test_a_library_of_numpys_interface():
    found = list(of_cupy.compared(np, "NumPy", lambda: None, (16, 24)))
    assert [(one.kind, one.what) for one in found] == [
        (kind, what) for what in ("16", "24") for kind in (kinds.WALL, kinds.HOST)
    ]


def test_results_that_differ_are_an_error(monkeypatch):
    monkeypatch.setattr(of_cupy, "matmul", lambda a, b: 2 * (a @ b))
    with pytest.raises(LaunchError, match=r"NumPy, 16: .* differs from the framework's by 1.0e\+00"):
        list(of_cupy.compared(np, "NumPy", lambda: None, (16,)))


def test_files_keep_comparisons(tmp_path):
    us = PerCall(ours=2.0, baseline=3.0)
    one = Comparison(framework="F 1", kind=kinds.CALL, what="16", us=us, control_us=(2.5, 3.5))
    run = Comparisons(environment={"gpu": {"name": "G"}}, comparisons=[one])
    run.save(tmp_path / "run.json")
    assert Comparisons.load(tmp_path / "run.json") == run
    assert one.ratio == 1.5
    (tmp_path / "other.json").write_text('{"records": []}')
    with pytest.raises(RecordsError, match=r"other\.json is not a file of records"):
        Comparisons.load(tmp_path / "other.json")


@pytest.mark.skipif(not cuda_unavailable(), reason="there is a GPU")
def test_the_command_says_what_is_missing(capsys, tmp_path):
    assert command.main(["--json", str(tmp_path / "run.json")]) == 1
    assert "error: the cuda engine cannot run here" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
