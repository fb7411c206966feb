"""Configs that pages compare: which there are, how they are measured, and what tables are made of them."""

from types import SimpleNamespace

import pytest

from studies import published
from studies.record import Measurement, Measurements
from studies.results import runs
from studies.runner import run
from studies.worklog import alone, casts, measuring, varying
from studies.worklog import variations as tables
from studies.worklog.facts import shape_of
from studies.worklog.varying import SPLIT_SHAPES, SWEPT_SHAPES, Task, presets, swept
from tilewright.core.errors import LaunchError
from tilewright.core.problem import Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import BEST, LADDER, find
from tilewright.kernels.kernel import Choice
from tilewright.tools.bench.records import Baseline, LaunchedKernel, Run, Times
from tilewright.tools.bench.run import NumpyBaseline

H100 = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}
ENVIRONMENT = {"gpu": H100, "date": "2026-11-25T01:00:00", "revision": "abc1234"}


def tasks():
    return varying.tasks(SimpleNamespace(capability=(9, 0)))


def of(tasks, shape):
    return [choice for task in tasks if task.problem.shape == shape for choice in task.choices if choice != BEST]


def test_every_task_can_be_computed():
    for task in tasks():
        for kernel, _ in (choice for choice in task.choices if choice != BEST):
            kernel.check(task.problem)


def test_what_pages_compare_is_measured():
    found = tasks()
    assert {choice.kernel.name for choice in of(found, "512x512x512")} == {"split_k"}
    for shape in SWEPT_SHAPES:
        assert {*swept(), *presets("rtx3060").values()} <= set(of(found, shape))
    assert set(presets("fastcuda").values()) <= set(of(found, "4096x4096x4096"))
    for shape in SPLIT_SHAPES:
        ways = {(c["K_SLICES"], c["WORKERS"]) for k, c in of(found, shape) if k.name == "split_k"}
        assert {(1, 0), (4, 0), (1, 2)} <= ways
    assert {1, 8, 16} <= {
        config["GROUP_M"] for kernel, config in of(found, varying.GROUP_SHAPE) if kernel.name == "gemm_sm90"
    }


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder for what is measured, of few small problems, of one revision."""
    naive, coalesced = (Choice(find(name), find(name).config()) for name in ("naive", "coalesced"))
    of_rungs = [Task(Problem(8, 8, size), [naive, coalesced]) for size in (4, 5)]
    varied = [Task(Problem(8, 8, 4), [coalesced]), Task(Problem(8, 8, 6), [BEST])]
    monkeypatch.setattr(measuring, "baseline_library", lambda engine: NumpyBaseline())
    monkeypatch.setattr(measuring, "ladder_tasks", lambda engine: of_rungs)
    monkeypatch.setattr(varying, "tasks", lambda engine: varied)
    monkeypatch.setattr(casts, "SHAPES", ("128x128x8",))
    monkeypatch.setenv("TILEWRIGHT_REVISION", "one")
    return tmp_path / "course"


def measured(folder, *more):
    arguments = ["measure", "--out", str(folder), "--samples", "1", "--engine", "emulator", *more]
    return run("worklog", "", fill=measuring.measure, options=measuring.options, arguments=arguments)


def of_file(folder, name):
    return [(one.title, one.k) for one in Run.load(folder / f"{name}.json").records]


def test_one_command_measures_all_records(folder, capsys):
    assert measured(folder) == 0
    assert of_file(folder, "ladder") == [("naive", 4), ("coalesced", 4), ("naive", 5), ("coalesced", 5)]
    assert of_file(folder, "variations") == [("coalesced", 4), ("best: coalesced", 6)]
    assert "8x8x5 NN float32  coalesced: " in capsys.readouterr().out


def test_the_command_goes_on_where_it_stopped(folder, monkeypatch, capsys):
    assert measured(folder) == 0
    whole = Run.load(folder / "ladder.json")
    Run(environment=whole.environment, records=whole.records[:2]).save(folder / "ladder.json")
    capsys.readouterr()
    assert measured(folder) == 0
    shapes = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shapes == ["8x8x5", "8x8x5"], "what is there is not measured again"
    assert of_file(folder, "ladder") == [("naive", 4), ("coalesced", 4), ("naive", 5), ("coalesced", 5)]
    monkeypatch.setenv("TILEWRIGHT_REVISION", "two")
    assert measured(folder) == 2
    assert "ladder.json has records of revision one, this is two: give another folder" in capsys.readouterr().err
    assert of_file(folder, "ladder") == [("naive", 4), ("coalesced", 4), ("naive", 5), ("coalesced", 5)]


def test_a_rung_is_measured_alone_next_to_others_and_shown_with_its_run(folder, monkeypatch):
    kernel, files = find("wgmma_int8"), [folder / f"wgmma_int8{end}.json" for end in ("", "_in_a_row")]
    monkeypatch.setattr(alone, "paths", lambda name: files)
    monkeypatch.setattr(alone, "MEASURED_SHAPES", ("40x72x136",))
    command = "`python -m studies.worklog measure --rung wgmma_int8 --out"
    assert command in alone.table(kernel)
    assert measured(folder, "--rung", "wgmma_int8") == 0
    run = Run.load(files[0])
    assert [(one.kernel, one.case, one.verified) for one in run.records] == [
        (choice.kernel.name, "NT int8->int32", True) for choice in alone.choices(kernel)
    ]
    speeds = {"tops": 1500.4, "tops_in_a_row": 1400.0, "sm_clock_mhz": 1900.0, "power_w": 650.0}
    state = Measurement(what={"shape": "8192x8192x8192"}, way="tensor cores alone", facts=speeds)
    Measurements(environment=run.environment, measurements=[state]).save(files[1])
    rows = alone.table(kernel).splitlines()
    assert rows[2].startswith("| m x n x k | wgmma_int8 128 x 192 | wgmma_int8 64 x 256 | wgmma_int8 128 x 128 |")
    assert rows[4].startswith("| 40x72x136 | ") and rows[4].count("|") == 8
    assert "| tensor cores alone | 1,500 | 1,400 | 1,900 | 650 |" in rows


def test_what_a_gpu_refuses_is_left_out(monkeypatch, capsys):
    engine = EmulatorEngine()
    naive, coalesced = (Choice(find(name), find(name).config()) for name in ("naive", "coalesced"))

    def plan(kernel, config, problem):
        if kernel is naive.kernel:
            raise LaunchError("too much shared memory")

    monkeypatch.setattr(engine, "plan", plan)
    tasks = [
        Task(Problem(8, 8, 4), [naive, coalesced]),
        Task(Problem(8, 8, 5), [naive]),
        Task(Problem(8, 8, 6), [BEST]),
    ]
    found = measuring.compiling(engine, tasks)
    assert [choices for _, choices in found] == [[coalesced], [BEST]]
    assert capsys.readouterr().err == "left out: too much shared memory\n" * 2


def test_each_rung_is_measured_once_a_problem():
    engine = SimpleNamespace(capability=(9, 0), device_name="NVIDIA H200")
    tasks = measuring.ladder_tasks(engine)
    assert len({task.problem for task in tasks}) == len(tasks)
    for kernel in LADDER:
        shapes = [task.problem.shape for task in tasks if kernel in [one.kernel for one in task.choices]]
        assert shape_of(kernel.name) in shapes
    for problem, choices in tasks:
        for kernel, _ in choices:
            kernel.check(problem)
    ampere = SimpleNamespace(capability=(8, 0), device_name="NVIDIA A100-SXM4-80GB")
    older = {one.kernel.name for task in measuring.ladder_tasks(ampere) for one in task.choices}
    assert {"naive", "wmma_f16"} <= older and not {"wgmma", "split"} & older


@pytest.fixture
def records(make_record):
    """A record of every config of every task, the later ones faster, next to a baseline of two kernels."""
    names = ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>", "splitKreduce_kernel<32, 16>")
    kernels = [LaunchedKernel(name=name, grid=(4, 2, 1), block=(128, 1, 1)) for name in names]
    made = []
    for task in tasks():
        for number, (kernel, config) in enumerate((one for one in task.choices if one != BEST), 1):
            baseline = Baseline(
                name="cuBLAS", version="13", time_us=Times(min=1, median=1), gflops=1e4, kernels=kernels
            )
            sizes = {"m": task.problem.m, "n": task.problem.n, "k": task.problem.k, "dtype": task.problem.dtype}
            speeds = {"gflops": 1000.0 * number, "ratio": number / 10, "baseline": baseline}
            made.append(make_record(kernel=kernel.name, rung=kernel.rung, config=dict(config), **sizes, **speeds))
    return Run(environment=ENVIRONMENT, records=made)


def test_the_committed_runs_are_of_one_gpu_and_revision():
    facts = [run.environment for name in ("ladder", "variations") for run in runs(name)]
    assert len({(one["gpu"]["name"], one["revision"]) for one in facts}) == 1


def test_the_notes_configs_are_next_to_their_shares(records):
    rows = tables.notes(records).splitlines()[4:]
    assert len(rows) == 2 * 3
    assert rows[0] == "| 8192x8192x4096 | 3 `shared_tiled:rtx3060` | 1,000 | 10,000 | 10.0% | 17.1% |"


def test_the_sweep_is_a_table_and_curves(records):
    rows = tables.sweep(records).splitlines()[4:]
    assert len(rows) == len(list(swept()))
    assert rows[0].startswith("| 4 thread_tiled_1d | 16 | 1 x 2 | ")
    text = tables.sweep_figure(records)
    assert "thread_tiled_2d, TILE 64" in text and "results of a thread" in text


def test_dividing_k_is_compared_with_k_whole(records):
    rows = tables.split(records).splitlines()[4:]
    assert rows[0] == "| 256x256x256 | 1,000 | 7,000 (7.000) | 9,000 (9.000) | 10,000 |"


def test_orders_of_tiles_differ_in_nothing_else(records, make_record):
    sizes = {"m": 4096, "n": 4096, "k": 4096, "kernel": "tma_packed"}
    configs = ({"BM": 1, "RASTER": 1}, {"BM": 1, "RASTER": 8}, {"BM": 2, "RASTER": 8}, {"BM": 3, "RASTER": 1})
    tuned = [make_record(config=config, gflops=500.0 + n, **sizes) for n, config in enumerate(configs)]
    varied = Run(environment=ENVIRONMENT, records=[*records.records, *tuned])
    rows = tables.orders(varied).splitlines()[2:]
    assert "| `tma_packed` | float32 | 4096x4096x4096 | 500.0 | 8 | 501.0 (1.002) |" in rows
    assert rows[-3] == "| `gemm_sm90` | bfloat16 | 8192x8192x8192 | 1,000 | 32 | 6,000 (6.000) |"
    assert rows[-1] == "Measured on an NVIDIA H100 80GB HBM3, 2026-11-25, revision abc1234."


def test_versions_of_fastcuda_are_found_by_their_presets(records):
    found = tables.fastcuda(records)
    assert {version.preset for version in published.FASTCUDA} <= set(found)
    assert all(record.baseline for record in found.values())
