"""Tables of calls."""

import io

from rich.console import Console

from tilewright.tools.bench.records import EndToEnd, PerCall
from tilewright.tools.report.calls import calls_table


def times(host, wall, framework="PyTorch 2.11"):
    pairs = (PerCall(ours=ours, baseline=theirs) for ours, theirs in (host, wall))
    return EndToEnd(framework=framework, host_us=next(pairs), wall_us=next(pairs))


def test_each_form_of_call_has_a_row_whose_ratios_divide(make_record):
    new, out = times((5.004, 10.0), (8.0, 12.0)), times((4.0, 10.0), (8.0, 10.0))
    record = make_record(kernel="best", picked="split_k", end_to_end=new, end_to_end_out=out)
    console = Console(width=160, file=io.StringIO())
    console.print(calls_table([record]))
    text = " ".join(console.file.getvalue().split())
    assert "A call of matmul and of PyTorch 2.11, in microseconds" in text
    assert "split_k new result 5.00 10.00 0.50 8.00 12.00 1.50 split_k out= 4.00 10.00 0.40 8.00 10.00 1.25" in text


def test_without_calls_there_is_no_table(make_record):
    assert calls_table([make_record()]) is None
