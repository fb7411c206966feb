"""The comparison with Nsight Compute: how it is made, kept, judged and shown."""

import pytest

from studies.counters import validation
from studies.record import Measurement, Measurements
from studies.results import path
from tilewright.core.errors import EngineUnavailableError
from tilewright.emulator.engine import EmulatorEngine
from tilewright.tools.bench import ncu

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
}
GPU = {"name": "NVIDIA H200", "compute_capability": "9.0"}
ENVIRONMENT = {"gpu": GPU, "date": "2026-11-25T01:00:00", "revision": "abc1234"}


def comparison(**changes):
    """A run of one launch, with some counts of the profiler changed."""
    facts = COALESCED | {"ncu": COALESCED["ncu"] | changes}
    one = Measurement(what={"shape": "64x64x64"}, way="coalesced", facts=facts)
    return validation.explained_anew(Measurements(environment=ENVIRONMENT, measurements=[one]))


@pytest.mark.further
def test_what_is_profiled_is_explained():
    run = comparison()
    (one,) = run.measurements
    assert one.right and one.facts["differ"] == "none"
    assert list(validation.failures(one)) == []
    row = validation.markdown(run).splitlines()[-1]
    assert row.startswith("| `coalesced` | 64x64x64 | 16,384 | 40,960 | 128 | 512 | 262,144 |")


def test_differences_are_reported_and_shown():
    run = comparison(**{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 40_961})
    (one,) = run.measurements
    assert list(validation.failures(one)) == ["coalesced 64x64x64: global load sectors 40,960, not 40,961"]
    assert "40,961 (-0.00%)" in validation.markdown(run)
    assert "global load sectors -0.00%  WRONG" in str(one)


def test_shared_memory_may_be_off_by_a_twentieth():
    explained = {metric.path[0]: {"requests": 0, "sectors": 0, "wavefronts": 100} for metric in ncu.METRICS}
    explained |= {"ffma": 1, "fmul": 1, "fadd": 1}
    for group in ("shared_load", "shared_store"):
        explained[group]["bank_conflicts"] = 0
    metric = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    for theirs, failed in ((104, 0), (96, 0), (110, 1)):
        facts = COALESCED | {"ncu": {metric: theirs}, "explained": explained}
        one = Measurement(what={"shape": "64x64x64"}, way="coalesced", facts=facts)
        assert len(list(validation.failures(one))) == failed


def test_rungs_1_to_12_on_an_aligned_and_an_odd_shape():
    listed = validation.launches((9, 0))
    assert len(listed) == 24
    assert {launch.shape for launch in listed} == {"256x256x256", "197x131x67"}
    assert listed[-1].kernel == "async_copy"


def test_it_needs_a_gpu_to_profile(monkeypatch):
    monkeypatch.setattr(ncu, "cuda_unavailable", lambda: "no driver")
    with pytest.raises(EngineUnavailableError, match="no driver"):
        next(validation.measurements(EmulatorEngine(), None))


@pytest.mark.further
def test_the_committed_comparison_agrees_and_the_emulator_still_counts_so(request):
    """All of it as it was explained when it was made, and some of it explained anew."""
    run = Measurements.load(request.config.rootpath / path("counters"))
    assert len(run.measurements) == 24
    assert all(one.right and not list(validation.failures(one)) for one in run.measurements)
    some = [
        one
        for one in run.measurements
        if one.way in ("shared_tiled", "padded", "async_copy") and one.what["shape"] == "197x131x67"
    ]
    anew = validation.explained_anew(run.model_copy(update={"measurements": some})).measurements
    assert len(some) == 3
    assert [one.facts["explained"] for one in anew] == [one.facts["explained"] for one in some]
