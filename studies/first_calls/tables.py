"""The host's time in first calls of shapes, from the record of a run."""

from pathlib import Path

from studies.first_calls.measuring import FirstCallsRun
from studies.markdown import table

RECORDS = Path("results/h200/first_calls.json")
"""A run of `python -m studies.first_calls.measuring`, which there may be."""


def section() -> str:
    """The paragraph and its table; empty where nothing was measured.

    Raises:
        RecordsError: the file is none of such records.
    """
    return markdown(FirstCallsRun.load(RECORDS)) if RECORDS.exists() else ""


def markdown(run: FirstCallsRun) -> str:
    """What was measured, a row for each kind of product."""
    found, facts = run.first_calls[0], run.environment
    heads = ("case", "first call, ours", "theirs", "second call, ours", "theirs")
    rows = [
        (one.case, *(f"{us:.1f}" for of in (one.first_us, one.again_us) for us in (of.ours, of.baseline)))
        for one in run.first_calls
    ]
    where = ", ".join((facts["gpu"]["name"], facts["date"][:10], f"revision {facts['revision']}"))
    return (
        f"First and second calls of shapes, their code loaded: the host's microseconds, in the median of "
        f"{found.shapes} products with sizes drawn from {found.smallest} to {found.largest}, next to {found.framework} "
        f"({where}).\n\n" + table(heads, rows, "lrrrr")
    )
