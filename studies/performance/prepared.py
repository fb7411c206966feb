"""What a prepared factor gains: products with b prepared next to the same without, from one run's records."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from studies.markdown import table
from tilewright.bench.records import Record, Run
from tilewright.report.ratios import quotient, ratio, speed

RECORDS = (Path("results/h200/prepared.json"), Path("results/h100/prepared_fp16x3.json"))
"""Runs of `tilewright bench best --prepared`, of which there may be some."""


def section() -> str:
    """A table for each run; empty where nothing was measured.

    Raises:
        RecordsError: the file is none of records, or a ratio is of another run.
    """
    runs = [Run.load(path) for path in RECORDS if path.exists()]
    tables = [(run.environment["gpu"]["name"], markdown(run.records)) for run in runs]
    return "\n\n".join(f"On an {gpu}:\n\n{found}" for gpu, found in tables if found)


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
