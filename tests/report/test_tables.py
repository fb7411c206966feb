"""Terminal tables."""

import io

import pytest
from rich.console import Console

from tilewright.bench.records import Baseline, Error, Record, Times
from tilewright.report.tables import bench_table


def printed(*records):
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(bench_table(records))
    return " ".join(console.export_text().split())


def record(**changes):
    time = Times(min=1.0, median=2500.0)
    fields = {
        "kernel": "naive",
        "rung": 1,
        "config": {"BLOCK_X": 32},
        "m": 64,
        "n": 64,
        "k": 64,
        "dtype": "float32",
        "engine": "cuda",
        "time_us": time,
        "gflops": 1234.5,
        "baseline": Baseline(name="cuBLAS", version="13.1.0", time_us=time, gflops=2469.0),
        "ratio": 0.5,
        "error": Error(relative_frobenius=1e-7, limit=1e-6),
        "verified": True,
    }
    return Record(**(fields | changes))


def test_a_gpu_record_shows_speed_and_ratio():
    text = printed(record())
    assert "1 naive BLOCK_X=32 1.0e-07 ok 2.50 ms 1,234 50.0%" in text
    assert "cuBLAS version 13.1.0 2.50 ms 2,469 100.0%" in text


def test_an_emulator_record_shows_no_speed_and_says_why():
    text = printed(record(engine="emulator"))
    assert "emulator time" in text
    assert "They are not GPU times." in text
    assert "GFLOP/s" not in text
    assert "50.0%" not in text


def test_records_of_two_precisions_show_two_baselines_and_limits():
    time = Times(min=1.0, median=1000.0)
    other = Baseline(name="cuBLAS TF32", version="13.1.0", time_us=time, gflops=9999.0)
    rounded = {"kernel": "wmma_tf32", "error": Error(relative_frobenius=2e-4, limit=5e-4), "ratio": 0.25}
    text = printed(record(), record(baseline=other, **rounded))
    assert "of baseline" in text
    assert "50.0% (cuBLAS)" in text and "25.0% (cuBLAS TF32)" in text
    assert "cuBLAS version 13.1.0 2.50 ms 2,469 100.0%" in text
    assert "cuBLAS TF32 version 13.1.0 1.00 ms 9,999 100.0%" in text
    assert "right up to 1.0e-06, of wmma_tf32 up to 5.0e-04" in text


def test_a_record_without_baseline_has_no_ratio():
    assert "%" not in printed(record(baseline=None, ratio=None))


@pytest.mark.parametrize(("error", "text"), [(3e-4, "3.0e-04 WRONG"), (None, "NaN WRONG")])
def test_a_wrong_result_stands_out(error, text):
    assert text in printed(record(error=Error(relative_frobenius=error, limit=1e-6), verified=False))
