"""Grouped products next to PyTorch's, from the record of a run."""

from pathlib import Path

from studies.grouped.measuring import LOOP, OURS, THEIRS, Grouped, GroupedRun
from studies.markdown import table
from tilewright.report.ratios import quotient, speed

RECORDS = Path("results/h200/grouped.json")
"""A run of `python -m studies.grouped.measuring`, which there may be."""


def section() -> str:
    """The paragraph and its table; empty where nothing was measured.

    Raises:
        RecordsError: the file is none of such records.
    """
    return markdown(GroupedRun.load(RECORDS)) if RECORDS.exists() else ""


def markdown(run: GroupedRun) -> str:
    """What was measured: a row for the groups and rows of a layer, with columns for each order of the factors."""
    facts = run.environment
    orders = dict.fromkeys(one.layout for one in run.grouped)
    by_row: dict[tuple[object, ...], dict[str, Grouped]] = {}
    for one in run.grouped:
        row = (f"{one.layer}, {one.n} x {one.k}", one.groups, one.rows, one.spread)
        by_row.setdefault(row, {})[one.layout] = one
    rows = [(*row, *(_times(of.get(order), name) for order in orders for name in _NAMES)) for row, of in by_row.items()]
    heads = ("layer", "groups", "rows", "sizes", *(f"{order}: {name}" for order in orders for name in _NAMES))
    where = ", ".join((facts["gpu"]["name"], facts["date"][:10], f"revision {facts['revision']}"))
    return (
        "`grouped_matmul` in bfloat16 next to `torch._grouped_mm` and to a loop of `torch.mm`, which is told sizes "
        f"({where}). In each cell the GPU's microseconds of that way, ours, and how many times as fast ours is.\n\n"
        + table(heads, rows, "lrrl" + "r" * len(_NAMES) * len(orders))
    )


_NAMES = {"torch._grouped_mm": THEIRS, "loop": LOOP}


def _times(one: Grouped | None, name: str) -> str:
    if one is None:
        return ""
    times = {way.name: way.time_us.median for way in one.ways}
    theirs, ours = (times[way] for way in (_NAMES[name], OURS))
    return f"{speed(theirs)} / {speed(ours)} = {quotient(theirs, ours):.2f}"
