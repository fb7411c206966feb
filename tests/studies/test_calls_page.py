"""Tables of calls, of many problems."""

import pytest

from studies.performance import page
from tilewright.tools.bench.records import EndToEnd, PerCall, Run


def markdown(records):
    return page.calls([Run(environment={}, records=records)])


def each(records):
    return page.each_call([Run(environment={}, records=records)])


def times(host, wall, framework="PyTorch 2.11"):
    pairs = (PerCall(ours=ours, baseline=theirs) for ours, theirs in (host, wall))
    return EndToEnd(framework=framework, host_us=next(pairs), wall_us=next(pairs))


@pytest.fixture
def records(make_record):
    new, out = times((5.004, 10.0), (8.0, 12.0)), times((4.0, 10.0), (8.0, 10.0))
    first = make_record(kernel="best", picked="split_k", end_to_end=new, end_to_end_out=out)
    slower = times((20.0, 10.0), (16.0, 12.0))
    return [first, make_record(layout="NT", end_to_end=slower, end_to_end_out=slower), make_record()]


def test_calls_of_row_major_factors_have_a_row_whose_ratios_divide(records):
    lines = each(records).splitlines()
    assert lines[-1] == "| 64x64x64 | NN float32 | 5.00 | 10.00 | 0.50 | 8.00 | 12.00 | 1.50 |"
    assert "| NT float32 |" not in lines[-2]


def test_each_case_and_form_of_call_has_its_means_and_where_it_is_slowest(records, make_record):
    faster = times((5.0, 10.0), (4.0, 24.0))
    lines = markdown([*records, make_record(m=128, end_to_end=faster)]).splitlines()
    start = lines.index("Means over the problems of a case:") + 4
    assert lines[start : start + 4] == [
        "| NN float32 | `new result` | 2 | 0.50 | 3.00 | 1.50 | 64x64x64 |",
        "| NN float32 | `out=` | 1 | 0.40 | 1.25 | 1.25 | 64x64x64 |",
        "| NT float32 | `new result` | 1 | 2.00 | 0.75 | 0.75 | 64x64x64 |",
        "| NT float32 | `out=` | 1 | 2.00 | 0.75 | 0.75 | 64x64x64 |",
    ]


def test_the_mean_and_the_worst_are_said(records):
    assert "Next to PyTorch 2.11." in markdown(records)
    assert "matmul is 1.01 times as fast in the geometric mean, and 0.75 times at the least" in markdown(records)
    assert "on 64x64x64 NT float32, new result." in markdown(records)


def test_without_calls_there_is_no_table(make_record):
    assert markdown([make_record()]) == each([make_record()]) == ""
