"""Tables of what `matmul` picks: a line for each case, and the problems that say most."""

from pathlib import Path

import pytest

from studies import templates
from studies.performance import picks
from tilewright.core.errors import RecordsError
from tilewright.kernels import find
from tilewright.tools.bench.records import Baseline, Run, Times

GPU = {
    "gpu": {"name": "NVIDIA H200", "compute_capability": "9.0"},
    "date": "2026-11-24T09:47:14+00:00",
    "revision": "abc1234",
}


@pytest.fixture(autouse=True)
def today(monkeypatch):
    """Today split_k is picked, with its defaults, but on problems of 512 rows."""
    other = find("naive")

    def pick(problem, capability, device, cached):
        assert (capability, device, cached) == ((9, 0), "NVIDIA H200", None)
        kernel = other if problem.m == 512 else find("split_k")
        return kernel, kernel.config()

    monkeypatch.setattr(templates, "select", pick)


@pytest.fixture
def runs(make_record):
    """Seven square problems of one case, of ratios 1.1 to 1.7, in no order, and one of a case that cuBLAS lacks."""

    def picked(size, ratio):
        baseline = Baseline(name="cuBLAS", version="13", time_us=Times(min=1, median=1), gflops=1000.0)
        fields = {"m": size, "n": size, "k": size, "gflops": 1000.0 * ratio, "ratio": ratio, "baseline": baseline}
        return make_record(kernel="best", picked="split_k", config=dict(find("split_k").config()), **fields)

    sizes = {8192: 1.1, 4096: 1.4, 2048: 1.3, 1024: 1.2, 512: 1.7, 256: 1.6, 128: 1.5}
    types = {"dtype": "float8_e4m3fn", "out_dtype": "bfloat16", "layout": "NT"}
    none = make_record(kernel="best", picked="gemm_fp8", baseline=None, ratio=None, **types)
    records = [*(picked(size, ratio) for size, ratio in sizes.items()), none]
    return {Path("results/h200/some.json"): Run(environment=GPU, records=records)}


def test_a_case_is_a_line(runs):
    link = "[some](../results/h200/some.json), 2026-11-24, abc1234"
    assert picks.glance(runs, "float32").splitlines()[2:] == [
        f"| NN float32 | H200 | 7 | 1.10 | 8192x8192x8192 | 1.40 | 1.70 | 512x512x512 | 1 | {link} |",
    ]
    assert picks.glance(runs, "float8").splitlines()[2:] == [
        f"| NT float8_e4m3fn->bfloat16 | H200 | 1 | no product in cuBLAS |  |  |  |  | 1 | {link} |",
    ]


def test_a_kind_of_product_is_a_line_of_the_summary(runs):
    (path, run), *_ = runs.items()
    compared = {path: run.model_copy(update={"records": run.records[:-1]})}
    assert picks.summary(compared).splitlines()[2:] == [
        "| float32 | H200 | 1 | 7 | 1.10 | 8192x8192x8192 NN | 1.40 | 1.70 | 512x512x512 NN | 1 | 2026-11-24 |"
    ]


def test_a_record_belongs_to_one_kind(make_record):
    assert picks.kind_of(make_record()) == "float32"
    assert picks.kind_of(make_record(promise="fp16x3")) == "parts of 16 bits"
    assert picks.kind_of(make_record(promise="tf32")) == "TF32"
    assert picks.kind_of(make_record(dtype="bfloat16")) == "16 bits"
    assert picks.kind_of(make_record(dtype="float8_e5m2")) == "float8"


def test_the_slowest_the_fastest_and_4096_are_listed_in_the_order_of_the_suites(runs):
    first, _, *lines = picks.chosen(runs).splitlines()
    assert first == (
        "[some](../results/h200/some.json), 5 of 8 problems, on an H200, 2026-11-24, revision abc1234; today `matmul` "
        "picks otherwise on 2 of 8 (†):"
    )
    assert [line.split(" | ")[1] for line in lines[2:]] == [f"{n}x{n}x{n}" for n in (512, 1024, 2048, 4096, 8192)]
    assert lines[3].startswith("| NN float32 | 1024x1024x1024 | `split_k` | float32 |")
    assert lines[2] == "| NN float32 | 512x512x512 | `split_k` † | float32 | 1,700 | 1,000 | 1.70 |  |"


def test_every_problem_of_a_run_is_listed_in_that_order(runs):
    (run,) = runs.values()
    rows = picks.every(run.model_copy(update={"records": run.records[:-1]})).splitlines()[4:]
    assert [row.split("x")[0] for row in rows] == [f"| {n}" for n in (128, 256, 512, 1024, 2048, 4096, 8192)]


def test_a_ratio_of_another_run_is_refused(make_record):
    run = Run(environment=GPU, records=[make_record(kernel="best", picked="naive", ratio=0.9)])
    with pytest.raises(RecordsError, match="ratios must come from one run"):
        picks.glance({Path("some.json"): run}, "float32")


def test_a_pick_is_stale_where_its_kernel_or_its_config_is_another_today(runs):
    (run,) = runs.values()
    stale = {record.m for record in run.records if templates.is_stale(record, run)}
    assert stale == {512, 64}, "64: that of another kernel"
    other = run.records[0].model_copy(update={"config": {**run.records[0].config, "WORKERS": 1}})
    assert templates.is_stale(other, run)
