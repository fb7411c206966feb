"""What a prepared factor gains: products with b prepared next to the same without, from one run's records."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tilewright.bench.records import Record, Run
from tilewright.report.markdown import table
from tilewright.report.ratios import quotient, ratio, speed

RECORDS = Path("results/h200/prepared.json")
"""A run of `tilewright bench best --prepared`, which there may be."""


def section() -> str:
    """The table; empty where nothing was measured.

    Raises:
        RecordsError: the file is none of records, or a ratio is of another run.
    """
    if not RECORDS.exists():
        return ""
    run = Run.load(RECORDS)
    found = markdown(run.records)
    return f"On an {run.environment['gpu']['name']}:\n\n{found}" if found else ""


def markdown(records: Sequence[Record]) -> str:
    """A row for each record with b prepared and the one before it, which is the same product without."""
    heads = ["m x n x k", "case", "without: GFLOP/s / cuBLAS's", "b prepared: GFLOP/s / cuBLAS's", "times as fast"]
    rows = [
        (one.shape, one.case, _cell(usual), _cell(one), f"{quotient(one.gflops, usual.gflops):.2f}")
        for usual, one in pairwise(records)
        if one.prepared
    ]
    return table(heads, rows, "llrrr") if rows else ""


def _cell(record: Record) -> str:
    """Speed over cuBLAS's with the quotient; a star where CUDA cores computed."""
    star = "" if record.precision else "*"
    if record.baseline is None:
        return f"{speed(record.gflops)}{star}"
    return f"{speed(record.gflops)} / {speed(record.baseline.gflops)} = {ratio(record):.2f}{star}"
