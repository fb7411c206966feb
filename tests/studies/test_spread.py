"""cuBLAS from run to run."""

from studies.performance import page
from tilewright.tools.bench.records import Baseline, Run, Times


def run(make_record, *speeds, **changes):
    records = []
    for m, gflops in enumerate(speeds, 1):
        baseline = Baseline(name="cuBLAS", version="13", time_us=Times(min=1, median=1), gflops=gflops)
        records.append(make_record(m=m, baseline=baseline, **changes))
    return Run(environment={}, records=records)


def test_each_run_counts_once_and_few_runs_do_not(make_record):
    runs = [run(make_record, 500.0, 90.0), run(make_record, 550.0, 80.0), run(make_record, 525.0)]
    runs[0].records.append(runs[0].records[0])
    assert page.spread(runs).splitlines()[2:] == [
        "| 1x64x64 | float32 | 3 | 500.0 | 550.0 | 1.100 |",
    ]


def test_only_the_same_work_is_compared(make_record):
    others = [
        run(make_record, 700.0, layout="NT"),
        run(make_record, 800.0, precision="tf32"),
        run(make_record, 900.0, dtype="bfloat16", out_dtype="bfloat16"),
        run(make_record, 9.0, engine="emulator"),
    ]
    runs = [*(run(make_record, gflops) for gflops in (500.0, 510.0, 505.0)), *others]
    found = page.speeds(runs)
    assert found["1x64x64", "float32"] == [500.0, 510.0, 505.0]
    assert found["1x64x64", "tf32"] == [800.0]
    assert found["1x64x64", "bfloat16, results bfloat16"] == [900.0]
    assert len(found) == 3
