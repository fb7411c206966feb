"""The model is held to what was measured: the records of squares, and the sources' figures."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from studies.counters import nearness
from studies.record import Measurements
from studies.results import path
from studies.templates import fill
from studies.worklog.rungs import is_measured
from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Problem
from tilewright.kernels import LADDER, find
from tilewright.tools.explain.cost.prediction import predict
from tilewright.tools.explain.explanation import explain

H200 = gpu_named("H200")
OTHER_CODE = {("padded", "4092x4092x4092")}
"""Launches whose records are of other machine code: the records' compiler, NVRTC 13.0, gives 128 registers to a thread
with bounds checks, so that a multiprocessor holds two blocks; NVRTC 13.5 gives it 148, and it holds one."""
ONE_TILE = ("64x64x64", "128x128x128")
"""Products of one tile or less, which wgmma computes in a few microseconds: the model takes up to twice as long."""
FEW_TILES = ("wgmma_int8", "256x256x256")
"""Four tiles, of which each is as short."""

ROWS = Measurements.load(path("predicted")).measurements
RECORDS = nearness.of_us(ROWS)
SOURCES = [row for row in ROWS if row not in RECORDS]


def test_it_is_near_the_records_of_all_rungs_and_library_kernels():
    assert len(RECORDS) > 250
    measured = {kernel.rung for kernel in LADDER if is_measured(kernel)}
    assert measured - {row.facts["rung"] for row in RECORDS} == {17}, "no record has squares of their configs of today"
    assert {"gemm_sm90", "gemm_tf32", "gemm_bf16x6", "gemm_bf16x3", "gemm_fp16x3"} <= {row.way for row in RECORDS}
    assert nearness.mean(RECORDS) < 0.108
    known = [row for row in RECORDS if (row.way, row.what["shape"]) not in OTHER_CODE]
    of_one_tile = [row for row in known if row.what["shape"] in ONE_TILE or (row.way, row.what["shape"]) == FEW_TILES]
    furthest = nearness.worst(row for row in known if row not in of_one_tile)
    assert 1 / 1.4 < nearness.ratio(furthest) < 1.4, furthest
    furthest = nearness.worst(of_one_tile)
    assert 1 / 1.4 < nearness.ratio(furthest) < 2.3, furthest


def test_no_kernel_is_far_off_in_the_mean():
    by_kernel = {}
    for row in RECORDS:
        if row.what["shape"] not in ONE_TILE:
            by_kernel.setdefault(row.way, []).append(row)
    off = {kernel: nearness.mean(rows) for kernel, rows in by_kernel.items()}
    assert max(off.values()) < 0.235, off
    assert off["naive"] < 0.05


def test_it_is_near_the_figures_of_the_sources():
    for gpu, most in (("RTX A6000", 0.2), ("GH200", 0.1), ("RTX 3060", 0.12)):
        rows = [row for row in SOURCES if row.what["gpu"] == gpu]
        assert len(rows) >= 7
        assert nearness.mean(rows) < most
        assert abs(math.log(nearness.ratio(nearness.worst(rows)))) < math.log(1.4), nearness.worst(rows)


@pytest.mark.further
def test_with_the_registers_of_the_records_compiler_it_is_near_what_other_code_took():
    (row,) = (row for row in RECORDS if (row.way, row.what["shape"]) in OTHER_CODE)
    kernel, problem = find(row.way), Problem.parse(row.what["shape"])
    one = explain(kernel, kernel.config(row.facts["config"]), problem, H200)
    as_then = predict(kernel, one.config, problem, H200, replace(one.report, registers=128), one.demand)
    assert 1 / 1.3 < as_then.us / row.facts["measured_us"] < 1.3


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("async_copy", "256"),
        ("specialised", "1024"),  # whose registers are not asked for
    ],
)
def test_it_is_what_an_explanation_says(name, shape):
    kernel = find(name)
    problem, config = Problem.parse(shape, arithmetic=kernel.support.arithmetic()), kernel.config()
    assert nearness.predicted_us(kernel, config, problem, H200) == explain(kernel, config, problem, H200).predicted.us


@pytest.fixture(scope="module")
def explained():
    """One row of records of each family of the cost model, of rungs and of the library, and of rungs of parts, and
    today's prediction of `explain`. Rows take turns at the sizes."""
    among = {}
    for row in RECORDS:
        if row.what["shape"] in ("256x256x256", "1024x1024x1024", "4096x4096x4096"):
            kernel = find(row.way)
            folder = kernel.source.parent.name
            if folder == "ladder" or not kernel.split:  # the library's of parts take five seconds to compile
                among.setdefault((type(kernel.cost), folder, bool(kernel.split)), []).append(row)
    rows = [of[number % len(of)] for number, of in enumerate(among.values())]
    assert len(rows) > 5
    problems = [
        Problem.parse(row.what["shape"], arithmetic=find(row.way).support.arithmetic(row.what["dtype"])) for row in rows
    ]
    return [
        (row, explain(find(row.way), find(row.way).config(row.facts["config"]), problem, H200))
        for row, problem in zip(rows, problems, strict=True)
    ]


@pytest.mark.further
def test_what_is_called_a_least_time_is_no_longer_than_what_was_measured(explained):
    for row, one in explained:
        assert max(one.times_us.values()) <= min(row.facts["measured_us"], one.predicted.us), (row, one.times_us)


@pytest.mark.further
def test_the_committed_predictions_and_page_are_those_of_today(explained):
    """But for what another version of the compiler does to registers."""
    assert [row.model_copy(update={"us": None}) for row in ROWS] == [one.measurement() for one in nearness.measured()]
    apart = [abs(one.predicted.us / row.us - 1) for row, one in explained]
    assert sum(one > 0.01 for one in apart) <= 1
    page = Path("docs/counters.md").read_text()
    assert fill(page, {"nearness": nearness.section()}) == page
