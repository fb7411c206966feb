"""Terminal tables."""

import io

import pytest
from rich.console import Console

from tilewright.tools.bench.records import Baseline, Error, LaunchedKernel, Times
from tilewright.tools.report.tables import baseline_kernels_table, bench_table


def printed(*records):
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(bench_table(records))
    return " ".join(console.export_text().split())


def test_a_gpu_record_shows_speed_and_ratio(make_record):
    text = printed(make_record())
    assert "1 naive BLOCK_X=32 1.0e-07 ok 2.50 ms 1,234 50.0%" in text
    assert "cuBLAS version 13.1.0 2.50 ms 2,469 100.0%" in text


def test_an_emulator_record_shows_no_speed_and_says_why(make_record):
    text = printed(make_record(engine="emulator"))
    assert "emulator time" in text
    assert "They are not GPU times." in text
    assert "GFLOP/s" not in text
    assert "50.0%" not in text


def test_records_of_two_precisions_show_two_baselines_and_limits(make_record):
    time = Times(min=1.0, median=1000.0)
    other = Baseline(name="cuBLAS TF32", version="13.1.0", time_us=time, gflops=9999.0)
    rounded = {"kernel": "wmma_tf32", "error": Error(relative_frobenius=2e-4, limit=5e-4)}
    rounded |= {"gflops": 2500.0, "ratio": 2500 / 9999}
    text = printed(make_record(), make_record(baseline=other, **rounded))
    assert "of baseline" in text
    assert "50.0% (cuBLAS)" in text and "25.0% (cuBLAS TF32)" in text
    assert "cuBLAS version 13.1.0 2.50 ms 2,469 100.0%" in text
    assert "cuBLAS TF32 version 13.1.0 1.00 ms 9,999 100.0%" in text
    assert "right up to 1.0e-06, of wmma_tf32 up to 5.0e-04" in text


def test_a_record_without_baseline_has_no_ratio(make_record):
    assert "%" not in printed(make_record(baseline=None, ratio=None))


@pytest.mark.parametrize(("error", "text"), [(3e-4, "3.0e-04 WRONG"), (None, "NaN WRONG")])
def test_a_wrong_result_stands_out(error, text, make_record):
    assert text in printed(make_record(error=Error(relative_frobenius=error, limit=1e-6), verified=False))


def test_the_kernels_of_the_baselines_are_listed(make_record):
    launched = [
        LaunchedKernel(name="sgemm<128, 64>", grid=(32, 16, 2), block=(256, 1, 1)),
        LaunchedKernel(name="splitKreduce", grid=(4, 1, 1), block=(64, 2, 1)),
    ]
    exact = make_record().baseline.model_copy(update={"kernels": launched})
    rounded = exact.model_copy(update={"name": "cuBLAS TF32", "kernels": launched[1:]})
    console = Console(width=160, file=io.StringIO())
    console.print(baseline_kernels_table([make_record(baseline=exact)] * 2 + [make_record(baseline=rounded)]))
    text = " ".join(console.file.getvalue().split())
    assert "cuBLAS sgemm<128, 64> 32x16x2 256x1x1 splitKreduce 4x1x1 64x2x1 cuBLAS TF32 splitKreduce" in text
    assert text.count("sgemm") == 1


@pytest.mark.parametrize("kernels", [None, []])
def test_without_known_kernels_there_is_no_list(kernels, make_record):
    baseline = make_record().baseline.model_copy(update={"kernels": kernels})
    assert baseline_kernels_table([make_record(baseline=baseline), make_record(baseline=None)]) is None


@pytest.mark.parametrize("columns", [60, 80])
def test_a_narrow_table_of_a_gpu_cuts_nothing(columns, make_record):
    time = Times(min=1.0, median=1234567.0)
    config = {"BM": 64, "BN": 128, "K_SLICES": 2, "A_BUFFERS": 2, "UNROLL": 32, "MIN_BLOCKS": 2}
    other = Baseline(name="cuBLAS TF32", version="13.1.0", time_us=time, gflops=9999.0)
    best = make_record(kernel="best", picked="double_buffered", rung=11, config=config)
    console = Console(width=columns, file=io.StringIO())
    console.print(bench_table([best, make_record(config=config, baseline=other, time_us=time, ratio=1234.5 / 9999)]))
    words = console.file.getvalue().split()
    assert max(map(len, console.file.getvalue().splitlines())) <= columns
    assert {"double_buffered", "1.23", "1,234", "1.0e-07", "50.0%", "TF32)", "9,999"} <= set(words)
    assert [word for word in words if "=" in word] == 2 * [f"{name}={value}" for name, value in config.items()]
