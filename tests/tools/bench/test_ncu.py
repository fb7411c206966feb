"""Nsight Compute: its output, the counters' names, and what is said where it cannot run."""

import json
import stat
import sys

import pytest

from tilewright.core.errors import EngineUnavailableError
from tilewright.core.problem import Problem, Scalars, orders
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import KERNELS, find
from tilewright.tools.bench import ncu, ncu_target

PRINTED = """==PROF== Connected to process 661
==PROF== Profiling "naive" - 0: 0%....50%....100% - 5 passes
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","661","naive","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","17,301,504"
"0","661","naive","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum","inst","16,777,216"
"0","661","naive","smsp__average_warps_issue_stalled_wait_per_issue_active.ratio","inst","0.25"
"1","661","vectorized","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","32,768"
"1","661","vectorized","smsp__inst_executed_op_ldgsts.sum","inst","n/a"
==PROF== Disconnected from process 661
"""

STAND_IN = """#!{python}
import json, sys
options = dict(part.lstrip("-").split("=", 1) for part in sys.argv[1:-4] if "=" in part)
metrics = options["metrics"].split(",")
{refusal}
launches = json.load(open(sys.argv[-1]))
with open(options["log-file"], "w") as log:
    print('"ID","Kernel Name","Metric Name","Metric Value"', file=log)
    for number, launch in enumerate(launches):
        names = ["gemm<4>(Params)", "splitK"] if launch["kernel"] == "cuBLAS" else [launch["kernel"]]
        for count, name in enumerate(names):
            for metric in metrics:
                print(f'"{{number + count}}","{{name}}","{{metric}}","1,00{{number + count}}"', file=log)
"""

REFUSES_SASS = """
for name in metrics:
    if "sass_l1tex" in name:
        sys.exit(f"==ERROR== Failed to find metric {name}")
"""
REFUSES_ALL = 'sys.exit("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")'

LAUNCHES = [
    ncu.ProfiledLaunch.of(find(name), find(name).config(), Problem(64, 64, 64), Scalars(beta=0.5))
    for name in ("naive", "vectorized")
]


PROFILED = [kernel for kernel in KERNELS if not kernel.support.block_scales]  # launches have no scales


@pytest.mark.parametrize("kernel", PROFILED, ids=lambda kernel: kernel.name)
def test_what_is_profiled_is_what_is_explained(kernel):
    """Launches of every kernel in every type and order that it supports."""
    for dtype in kernel.support.factors:
        for layout in kernel.support.layouts:
            a, b = orders(layout)
            problem = Problem(64, 72, 80, kernel.support.arithmetic(dtype), a=a, b=b)
            launch = ncu.ProfiledLaunch(
                **json.loads(json.dumps(ncu.ProfiledLaunch.of(kernel, kernel.config(), problem).model_dump()))
            )
            assert launch.problem == problem
            assert kernel.why_not(launch.problem) is None


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Puts a program that prints numbers of its own in the place of the profiler, on a machine with a GPU."""

    def install(refusal=""):
        program = tmp_path / "ncu"
        program.write_text(STAND_IN.format(python=sys.executable, refusal=refusal))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setattr(ncu, "cuda_unavailable", lambda: None)

    return install


def test_its_table_is_read_between_its_other_words():
    naive, vectorized = ncu.read(PRINTED)
    assert naive.kernel == "naive"
    assert naive.counters == {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 17301504,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 16777216,
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": 0.25,
    }
    assert vectorized == ("vectorized", {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 32768})
    assert ncu.read("==ERROR== nothing was profiled") == []


def test_launches_are_profiled_in_their_order(stand_in):
    stand_in()
    first, second = ncu.profile(LAUNCHES)
    assert set(first) == {*(name for metric in ncu.METRICS for name in metric.ncu), *ncu.SEEN}
    assert set(first.values()) == {1000}
    assert set(second.values()) == {1001}


def test_counters_that_a_version_lacks_are_left_out(stand_in):
    stand_in(REFUSES_SASS)
    first, _ = ncu.profile(LAUNCHES)
    known = {*(name for metric in ncu.METRICS for name in metric.ncu), *ncu.SEEN}
    assert set(first) == {name for name in known if "sass_l1tex" not in name}


def test_all_kernels_of_cublas_are_profiled(stand_in):
    stand_in()
    found = ncu.profile_cublas(Problem(64, 64, 64))
    assert [one.kernel for one in found] == ["gemm<4>", "splitK"]
    assert [set(one.counters.values()) for one in found] == [{1000}, {1001}]


def test_the_target_runs_its_launches(tmp_path, monkeypatch):
    """On the emulator, in place of the GPU."""
    launched = []
    engine = EmulatorEngine()
    start = engine.start
    monkeypatch.setattr(engine, "start", lambda plan, *given: (launched.append(plan), start(plan, *given)))
    monkeypatch.setattr(ncu_target, "CudaEngine", lambda: engine)
    kernels = [find(name) for name in ("naive", "wmma_f16", "gemm_mma")]
    listed = [
        ncu.ProfiledLaunch.of(one, one.config(), Problem(64, 64, 64, one.support.arithmetic())) for one in kernels
    ]
    (tmp_path / "launches.json").write_text(json.dumps([one.model_dump() for one in listed]))
    monkeypatch.setattr(sys, "argv", ["target", str(tmp_path / "launches.json")])
    ncu_target.main()
    assert [(plan.kernel, plan.problem) for plan in launched] == [
        (kernel, one.problem) for kernel, one in zip(kernels, listed, strict=True)
    ]


def test_cublas_in_tf32_is_another_kernel_of_the_target(stand_in):
    stand_in()
    launch = ncu.ProfiledLaunch.of(ncu.CUBLAS_TF32, {}, Problem(64, 64, 64))
    assert (launch.kernel, launch.problem) == ("cuBLAS TF32", Problem(64, 64, 64))
    assert len(ncu.profile_cublas(launch.problem, ncu.CUBLAS_TF32)) == 1


def test_why_it_may_not_count(stand_in):
    stand_in(REFUSES_ALL)
    with pytest.raises(EngineUnavailableError, match="may not read this GPU's counters"):
        ncu.profile(LAUNCHES)


def test_without_a_gpu_or_a_profiler_it_says_which(monkeypatch):
    monkeypatch.setattr(ncu, "cuda_unavailable", lambda: "no driver")
    with pytest.raises(EngineUnavailableError, match="needs a GPU to profile on: no driver"):
        ncu.check_available()
    monkeypatch.setattr(ncu, "cuda_unavailable", lambda: None)
    monkeypatch.setattr(ncu.shutil, "which", lambda name: None)
    monkeypatch.setattr(ncu, "_INSTALLED", ())
    with pytest.raises(EngineUnavailableError, match="not installed"):
        ncu.check_available()


def test_counters_are_next_to_each_other():
    facts = {
        metric.path[0]: {"requests": 5, "sectors": 7, "wavefronts": 9, "bank_conflicts": 1} for metric in ncu.METRICS
    }
    facts |= {"ffma": 11, "fmul": None, "fadd": 0}
    rows = {row.name: row for row in ncu.compare(facts, {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 8})}
    assert (rows["global load sectors"].ours, rows["global load sectors"].theirs) == (7, 8)
    assert (rows["ffma of threads"].ours, rows["ffma of threads"].theirs) == (11, None)
    assert rows["fmul of threads"].ours is None
    assert rows["asynchronous copies, sectors"].theirs is None, "one of its two counters is not there"
    rows = {row.name: row for row in ncu.compare(facts, dict.fromkeys(ncu.METRICS[-1].ncu, 3))}
    assert rows["asynchronous copies, sectors"].theirs == 6


def test_waits_for_other_traffic_are_no_bank_conflicts():
    facts = {
        metric.path[0]: {"requests": 5, "sectors": 7, "wavefronts": 12288, "bank_conflicts": 4096}
        for metric in ncu.METRICS
    } | {"ffma": 0, "fmul": 0, "fadd": 0}
    counted = {
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 12752,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 4560,
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 12288,
    }
    rows = {row.name: row for row in ncu.compare(facts, counted)}
    assert rows["shared store bank conflicts"] == ("shared store bank conflicts", 4096, 4560)
    assert rows["shared store bank conflicts, by instruction"].theirs == 4096
    assert "shared load bank conflicts, by instruction" not in rows


def test_a_launch_survives_json():
    launch = ncu.ProfiledLaunch(**json.loads(json.dumps(LAUNCHES[0].model_dump())))
    assert (launch.problem, launch.alpha, launch.beta) == (Problem(64, 64, 64), 1.0, 0.5)
    assert find(launch.kernel).config(launch.config) == find("naive").config()
    kernel = find("wgmma")
    problem = Problem(64, 64, 64, kernel.support.arithmetic())
    launch = ncu.ProfiledLaunch.of(kernel, kernel.config(), problem)
    assert launch.problem == problem
    assert problem.result == "bfloat16"
