"""`tilewright explain` on the command line."""

import json

import pytest
from typer.testing import CliRunner

from tilewright.bench import ncu
from tilewright.cli import explain as command
from tilewright.cli.main import app
from tilewright.errors import EngineUnavailableError, GpuNotFoundError
from tilewright.gpus import gpu_named

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(command, "present_gpu", lambda: None)


def explain(*arguments):
    result = RUNNER.invoke(app, ["explain", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_tables_and_the_sentence_on_what_binds():
    text = explain("shared_tiled", "--shape", "256").output
    assert "on one H200" in text
    assert "Shared memory binds" in text
    assert "shared loads" in text
    assert "shared_tiled.cu:" in text
    assert "Roofline" in text
    assert "64 of 64 warps" in text
    assert "note:" in text
    assert "merges the shared loads" in text


def test_json_with_config_gpu_and_scalars(tmp_path):
    path = tmp_path / "explained.json"
    explain(
        "6", "--shape", "100x200x100", "--config", "BM=64,BN=64", "--gpu", "a100 80gb", "--alpha", "2", "--beta", "0.5",
        "--json", str(path),
    )  # fmt: skip
    facts = json.loads(path.read_text())
    assert (facts["kernel"], facts["shape"], facts["gpu"], facts["arch"]) == (
        "vectorized", "100x200x100", "A100 80GB", "sm_80",
    )  # fmt: skip
    assert (facts["config"]["BM"], facts["alpha"], facts["beta"]) == (64, 2.0, 0.5)
    assert facts["edges"]
    assert not facts["extrapolated"]
    for group, counters in {
        "global_load": ("requests", "sectors"),
        "global_store": ("requests", "sectors"),
        "shared_load": ("requests", "wavefronts"),
        "shared_store": ("requests", "wavefronts"),
    }.items():
        assert all(isinstance(facts[group][counter], int) for counter in counters)


def test_4096_and_the_h200_are_the_defaults(tmp_path):
    path = tmp_path / "explained.json"
    output = explain("coalesced", "--json", str(path)).output
    facts = json.loads(path.read_text())
    assert (facts["shape"], facts["gpu"]) == ("4096x4096x4096", "H200")
    assert facts["global_load"] | {"requests": 2 * 4096**3 // 32, "sectors": 5 * 4096**3 // 32} == facts["global_load"]
    assert "extrapolated" in output


def test_beside_the_profiler(monkeypatch, tmp_path):
    counted = {
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 16384,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 40960,
    }
    monkeypatch.setattr(ncu, "check_available", lambda: None)
    monkeypatch.setattr(ncu, "profile", lambda launches: [counted for _ in launches])
    path = tmp_path / "explained.json"
    text = explain("coalesced", "--shape", "64", "--ncu", "--json", str(path)).output
    assert "Nsight Compute" in text
    row = next(line for line in text.splitlines() if "global load sectors" in line)
    assert row.split()[-3:] == ["40,960", "40,960", "none"]
    assert json.loads(path.read_text())["ncu"] == counted


def test_what_it_cannot_do_it_says(monkeypatch):
    monkeypatch.setattr(ncu, "cuda_unavailable", lambda: "none here")
    with pytest.raises(EngineUnavailableError, match="none here"):
        explain("naive", "--ncu")
    with pytest.raises(GpuNotFoundError, match="did you mean 'H100'"):
        explain("naive", "--gpu", "H101")


def test_this_machines_gpu_comes_first(monkeypatch):
    monkeypatch.setattr(command, "_present_gpu", lambda: gpu_named("L4"))
    assert "on one L4" in explain("naive", "--shape", "64").output


def test_a_kernel_of_terms_is_explained_without_their_making():
    text = explain("gemm_fp16x3", "--shape", "256", "--gpu", "h200").output
    assert "256x256x256, float32" in text
    assert "without the relayout of A and B beforehand" in text
    assert "by tensor cores" in text
