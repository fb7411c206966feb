"""cuBLAS's kernels: a table of records, a sweep of sizes and its command."""

from pathlib import Path

import pytest

from studies.record import Measurements
from studies.runner import run
from studies.worklog import cublas_kernels, measuring
from tilewright.tools.bench.records import Baseline, LaunchedKernel, Run, Times
from tilewright.tools.bench.run import NumpyBaseline

ENVIRONMENT = {
    "gpu": {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"},
    "date": "2026-11-25T01:00:00",
    "revision": "abc1234",
}


def launched(name):
    return LaunchedKernel(name=name, grid=(4, 2, 1), block=(128, 1, 1))


class Library(NumpyBaseline):
    """NumPy, as a library whose kernels differ from 128 on, in two ways that launch the same."""

    def works(self, problem, sets, precision=None, scalars=None):
        self.size = problem.m
        (work,) = super().works(problem, sets).values()
        return {"cuBLAS": work, "cuBLASLt": work}

    def kernels(self, work):
        names = ["small"] if self.size < 128 else ["large", "splitKreduce_kernel<32, 16>"]
        return [launched(name) for name in names]


def baseline(us, *names):
    kernels = [launched(name) for name in names]
    return Baseline(name="cuBLASLt", version="13", time_us=Times(min=1, median=us), gflops=2469.0, kernels=kernels)


def test_kernels_have_their_grid_and_the_time_of_a_call(make_record):
    cutlass = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>"
    records = [
        make_record(m=size, n=size, k=size, baseline=baseline(size / 10, *names), ratio=None, **types)
        for size, names, types in (
            (128, [cutlass, "splitKreduce_kernel<32, 16>"], {}),
            (128, ["rounds"], {"precision": "tf32"}),
            (4096, [cutlass], {}),
            (8192, ["other"], {}),
        )
    ]
    lines = cublas_kernels.table(Run(environment=ENVIRONMENT, records=records)).splitlines()
    short = "`cutlass_80_simt_sgemm_128x64_8x5_nn_align1`"
    assert lines[2:5] == [
        f"| 128 | 32x32, sliced along k | {short}, then `splitKreduce_kernel` | 4x2x1, 4x2x1 | 12.8 us |",
        f"| 4096 | 128x64 | {short} | 4x2x1 | 409.6 us |",
        "| 8192 |  | `other` | 4x2x1 | 819.2 us |",
    ]
    assert "2 different kernels at the 2 of these sizes up to 4096" in lines[6]
    assert lines[-1].endswith("which it is at 3 of 3 sizes.")


@pytest.fixture
def swept(monkeypatch, tmp_path):
    """A sweep of three sizes by the command, in the file that the page reads."""
    monkeypatch.setattr(cublas_kernels, "SIZES", (64, 128, 192))
    monkeypatch.setattr(measuring, "baseline_library", lambda engine: Library())
    monkeypatch.setattr(cublas_kernels, "path", lambda study: tmp_path / f"{study}.json")
    arguments = ["measure", "--cublas", "--out", str(tmp_path), "--samples", "1", "--engine", "emulator"]
    assert run("worklog", "", fill=measuring.measure, options=measuring.options, arguments=arguments) == 0
    return tmp_path


def test_the_command_measures_each_way_at_each_size_and_nothing_else(swept):
    assert [file.name for file in Path(swept).iterdir()] == ["cublas.json"]
    found = Measurements.load(swept / "cublas.json").measurements
    sizes_and_ways = [(one.what["size"], one.way) for one in found]
    assert sizes_and_ways == [(size, way) for size in (64, 128, 192) for way in ("cuBLAS", "cuBLASLt")]
    assert all(one.us > 0 for one in found)
    assert [[kernel["name"] for kernel in one.facts["kernels"]] for one in found[::4]] == [
        ["small"],
        ["large", "splitKreduce_kernel<32, 16>"],
    ]


def test_different_kernels_are_counted_once_there_is_a_sweep(swept):
    run = Measurements.load(swept / "cublas.json")
    Measurements(environment=ENVIRONMENT, measurements=run.measurements).save(swept / "cublas.json")
    words = cublas_kernels.swept()
    assert words.endswith("revision abc1234, cuBLAS ran 3 different kernels; cuBLASLt ran 3 different kernels.")
    (swept / "cublas.json").unlink()
    assert "is not on record yet: `python -m studies.worklog measure --cublas --out " in cublas_kernels.swept()
