"""Grouped products next to PyTorch's, from the record of a run."""

from pathlib import Path

from tilewright.bench.grouped import LOOP, OURS, THEIRS, Grouped, GroupedRun
from tilewright.report.markdown import table

RECORDS = Path("results/h200/grouped.json")
"""A run of `python -m tilewright.bench.grouped`, which there may be."""


def section() -> str:
    """The paragraph and its table; empty where nothing was measured.

    Raises:
        RecordsError: the file is none of such records.
    """
    return markdown(GroupedRun.load(RECORDS)) if RECORDS.exists() else ""


def markdown(run: GroupedRun) -> str:
    """What was measured, a row for each product."""
    facts = run.environment
    heads = (
        "layer",
        "groups",
        "rows",
        "sizes",
        "order",
        "us",
        "TFLOP/s",
        "torch._grouped_mm us",
        "ratio",
        "loop us",
        "ratio",
    )
    where = ", ".join((facts["gpu"]["name"], facts["date"][:10], f"revision {facts['revision']}"))
    return (
        "`grouped_matmul` in bfloat16 next to `torch._grouped_mm` and to a loop of `torch.mm`, which is told sizes; "
        f"the GPU's microseconds, and theirs over ours ({where}).\n\n"
        + table(heads, map(_row, run.grouped), "lrrllrrrrrr")
    )


def _row(one: Grouped) -> tuple[object, ...]:
    ways = {way.name: way for way in one.ways}
    theirs, loop = (ways[name].time_us.median for name in (THEIRS, LOOP))
    return (
        f"{one.layer}, {one.n} x {one.k}",
        one.groups,
        one.rows,
        one.spread,
        one.layout,
        f"{ways[OURS].time_us.median:,.0f}",
        f"{ways[OURS].tflops:,.0f}",
        f"{theirs:,.0f}",
        f"{one.over(THEIRS):.2f}",
        f"{loop:,.0f}",
        f"{one.over(LOOP):.2f}",
    )
