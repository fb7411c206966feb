"""The comparison with Nsight Compute: how it is made, kept, judged and shown."""

import copy
import json

import pytest

from studies.counters import validation
from studies.results import path
from tilewright.bench import ncu
from tilewright.core.errors import EngineUnavailableError, RecordsError
from tilewright.core.gpus import gpu_named

COALESCED = {
    "launch": {
        "kernel": "coalesced",
        "config": {"BLOCK": 32},
        "shape": "64x64x64",
        "dtype": "float32",
        "alpha": 1.0,
        "beta": 0.0,
    },
    # 2 warps a row of C and 64 k: of A 1 sector, of B 4.
    "ncu": {
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 2 * 128 * 64,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 5 * 128 * 64,
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 128,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 512,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 64**3,
    },
    "explained": None,
}


@pytest.fixture
def comparison(tmp_path):
    path = tmp_path / "comparison.json"
    environment = {"gpu": {"name": "NVIDIA H200", "compute_capability": "9.0"}}
    path.write_text(json.dumps({"environment": environment, "rows": [copy.deepcopy(COALESCED)]}))
    return path


@pytest.mark.further
def test_what_is_profiled_is_explained(comparison, capsys):
    facts = validation.compare(comparison, validation.SHAPES, explain_only=True)
    assert validation.load(comparison) == facts
    assert list(validation.failures(facts)) == []
    assert "coalesced 64x64x64: equal" in capsys.readouterr().out
    row = validation.markdown(facts).splitlines()[-1]
    assert row.startswith("| `coalesced` | 64x64x64 | 16,384 | 40,960 | 128 | 512 | 262,144 |")


def test_differences_are_told_and_shown(comparison, capsys):
    kept = json.loads(comparison.read_text())
    kept["rows"][0]["ncu"]["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] += 1
    comparison.write_text(json.dumps(kept))
    facts = validation.compare(comparison, validation.SHAPES, explain_only=True)
    assert list(validation.failures(facts)) == ["coalesced 64x64x64: global load sectors 40,960, not 40,961"]
    assert "40,961 (-0.00%)" in validation.markdown(facts)
    assert "global load sectors -0.00%" in capsys.readouterr().out


def test_shared_memory_may_be_off_by_a_twentieth():
    explained = {metric.path[0]: {"requests": 0, "sectors": 0, "wavefronts": 100} for metric in ncu.METRICS}
    explained |= {"ffma": 1, "fmul": 1, "fadd": 1}
    for group in ("shared_load", "shared_store"):
        explained[group]["bank_conflicts"] = 0
    metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    for theirs, failed in ((104, 0), (96, 0), (110, 1)):
        row = COALESCED | {"ncu": {metric: theirs}, "explained": explained}
        assert len(list(validation.failures({"rows": [row]}))) == failed


def test_rungs_1_to_12_on_an_aligned_and_an_odd_shape():
    listed = validation.launches((9, 0))
    assert len(listed) == 24
    assert {launch.shape for launch in listed} == {"256x256x256", "197x131x67"}
    assert listed[-1].kernel == "async_copy"


def test_it_needs_a_gpu_to_profile(tmp_path, monkeypatch):
    monkeypatch.setattr(ncu, "cuda_unavailable", lambda: "no driver")
    with pytest.raises(EngineUnavailableError, match="no driver"):
        validation.compare(tmp_path / "comparison.json", validation.SHAPES)


@pytest.mark.further
def test_the_committed_comparison_agrees_and_the_emulator_still_counts_so(request):
    """All of it as it was explained when it was made, and some of it explained anew."""
    facts = validation.load(request.config.rootpath / path("counters"))
    assert len(facts["rows"]) == 24
    assert list(validation.failures(facts)) == []
    gpu = gpu_named("H200")
    for row in facts["rows"]:
        launch = row["launch"]
        if launch["kernel"] in ("shared_tiled", "padded", "async_copy") and launch["shape"] == "197x131x67":
            assert validation.explained(ncu.ProfiledLaunch(**launch), gpu) == row["explained"]


@pytest.mark.parametrize("text", ["", "[]", '{"rows": []}', '{"environment": {}, "rows": [{}]}'])
def test_what_is_no_comparison_is_refused(tmp_path, text):
    path = tmp_path / "comparison.json"
    path.write_text(text)
    with pytest.raises(RecordsError, match="not a comparison"):
        validation.load(path)
    with pytest.raises(RecordsError, match="cannot read"):
        validation.load(tmp_path / "missing.json")
