"""Tables of what `matmul` picks: a line for each case, and the problems that say most."""

from pathlib import Path

import pytest

from studies.performance import picks
from tilewright.bench.records import Baseline, Run, Times
from tilewright.core.errors import RecordsError

GPU = {"gpu": {"name": "NVIDIA H200", "compute_capability": "9.0"}}


@pytest.fixture
def runs(make_record):
    """Seven square problems of one case, of ratios 1.1 to 1.7, in no order, and one of a case that cuBLAS lacks."""

    def picked(size, ratio):
        baseline = Baseline(name="cuBLAS", version="13", time_us=Times(min=1, median=1), gflops=1000.0)
        fields = {"m": size, "n": size, "k": size, "gflops": 1000.0 * ratio, "ratio": ratio, "baseline": baseline}
        return make_record(kernel="best", picked="split_k", config={"BM": 64}, **fields)

    sizes = {8192: 1.1, 4096: 1.4, 2048: 1.3, 1024: 1.2, 512: 1.7, 256: 1.6, 128: 1.5}
    types = {"dtype": "float8_e4m3fn", "out_dtype": "bfloat16", "layout": "NT"}
    none = make_record(kernel="best", picked="gemm_fp8", baseline=None, ratio=None, **types)
    records = [*(picked(size, ratio) for size, ratio in sizes.items()), none]
    return {Path("results/h200/some.json"): Run(environment=GPU, records=records)}


def test_a_case_is_a_line(runs):
    link = "[some](../results/h200/some.json)"
    assert picks.glance(runs).splitlines()[2:] == [
        f"| NN float32 | H200 | 7 | 1.10 | 8192x8192x8192 | 1.40 | 1.70 | 512x512x512 | {link} |",
        f"| NT float8_e4m3fn->bfloat16 | H200 | 1 | no product in cuBLAS |  |  |  |  | {link} |",
    ]


def test_the_slowest_the_fastest_and_4096_are_listed_in_the_order_of_the_suites(runs):
    first, _, *lines = picks.chosen(runs).splitlines()
    assert first == "[some](../results/h200/some.json), 5 of 8 problems, on an H200:"
    assert [line.split(" | ")[1] for line in lines[2:]] == [f"{n}x{n}x{n}" for n in (512, 1024, 2048, 4096, 8192)]
    assert lines[2] == "| NN float32 | 512x512x512 | `split_k` | float32 | 1,700 | 1,000 | 1.70 |  |"


def test_every_problem_of_a_run_is_listed_in_that_order(runs):
    (run,) = runs.values()
    rows = picks.every(run.records[:-1]).splitlines()[2:]
    assert [row.split("x")[0] for row in rows] == [f"| {n}" for n in (128, 256, 512, 1024, 2048, 4096, 8192)]


def test_a_ratio_of_another_run_is_refused(make_record):
    run = Run(environment=GPU, records=[make_record(kernel="best", picked="naive", ratio=0.9)])
    with pytest.raises(RecordsError, match="ratios must come from one run"):
        picks.glance({Path("some.json"): run})
