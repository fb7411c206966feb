"""Tables of results that were not timed, and the last lines of a bench."""

import io
import re

import pytest
from rich.console import Console

from tilewright.kernels import LADDER
from tilewright.tools.bench.records import Error, Result
from tilewright.tools.report import course
from tilewright.tools.report.ratios import speed
from tilewright.tools.report.verified import count, course_table, fastest, results_table


@pytest.fixture
def rungs(make_record):
    """A right result of each rung in its own arithmetic, on one shape."""
    found = []
    for kernel in LADDER:
        arithmetic = kernel.support.arithmetic()
        facts = {"dtype": arithmetic.factors, "out_dtype": arithmetic.result, "precision": kernel.support.precision}
        one = make_record(kernel=kernel.name, rung=kernel.rung, engine="emulator", **facts)
        found.append(Result(**{name: value for name, value in one if name in Result.model_fields}))
    return found


def lines(table, columns=100):
    console = Console(width=columns, file=io.StringIO())
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_each_rung_has_one_line_with_its_idea_and_its_speed(rungs, columns):
    shown = lines(course_table(rungs, course.measured()), columns)
    assert max(map(len, shown)) <= columns
    speeds = {one.kernel: one for one in course.measured().rungs}
    for kernel in LADDER:
        (line,) = (one for one in shown if one.split()[:2] == [str(kernel.rung), kernel.name])
        assert kernel.brief and f"  {kernel.brief}  " in line
        assert re.search(r"  1\.0e-07  1\.0e-06  ok(  |$)", line)
        measured = speeds.get(kernel.name)  # a rung that was added without a GPU has none
        assert measured is None or speed(measured.gflops) in line
        assert ("%" in line) == (measured is not None and columns > 80)


def test_a_wrong_result_stands_out(rungs):
    rungs[2] = rungs[2].model_copy(update={"error": Error(relative_frobenius=None, limit=1e-6), "verified": False})
    assert any(
        line.split()[-5:] == ["NaN", "1.0e-06", "WRONG", "9,064", "18%"]
        for line in lines(course_table(rungs, course.measured()), 120)
    )
    narrow = lines(course_table(rungs, course.measured()), 80)
    right = sum("ok" in line.split() for line in narrow)
    assert max(map(len, narrow)) <= 80 and right == len(LADDER) - 1, "it stays a table"
    assert "NaN" in " ".join(lines(results_table(rungs[2:3])))
    assert count(rungs) == f"{len(LADDER) - 1} of {len(LADDER)} rungs are right"


def test_what_is_counted_is_named(rungs):
    library = rungs[0].model_copy(update={"kernel": "gemm_mma", "rung": 0})
    assert count(rungs[:1]) == "1 of 1 rung is right"
    assert count([rungs[0], library]) == "2 of 2 kernels are right"
    assert count([rungs[0], rungs[0].model_copy(update={"m": 9})]) == "2 of 2 results are right"


def test_the_fastest_kernel_of_each_type_is_named_with_its_share_of_cublas(make_record):
    slow, fast = make_record(), make_record(kernel="interleaved", rung=29, gflops=2962.8, ratio=1.2)
    wrong = make_record(kernel="coalesced", gflops=9e9, verified=False)
    half = make_record(kernel="wmma_f16", dtype="float16", baseline=None, ratio=None)
    assert fastest([slow, fast, wrong, half]) == [
        "fastest in float32: interleaved on 64x64x64, 2,963 GFLOP/s, 120.0% of cuBLAS's",
        "fastest in float16: wmma_f16 on 64x64x64, 1,234 GFLOP/s",
    ]
    assert fastest([wrong]) == []
