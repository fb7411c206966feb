"""What faster products are worth to programs: a table of their times and errors, from one run's records."""

from collections.abc import Sequence
from pathlib import Path

from studies.clients.outcomes import Clients, Outcome
from studies.markdown import table

RECORDS = Path("results/h200/clients.json")
"""A run of `python -m studies.clients`, which there may be."""


def section() -> str:
    """The table; empty where nothing was measured.

    Raises:
        RecordsError: the file is none of outcomes.
    """
    return markdown(Clients.load(RECORDS).outcomes) if RECORDS.exists() else ""


def markdown(outcomes: Sequence[Outcome]) -> str:
    """A row for each outcome, compared with the first of the same program and size."""
    heads = ["program", "size", "products", "seconds", "times as fast", "steps", "error"]
    first: dict[tuple[str, str], Outcome] = {}
    rows = []
    for one in outcomes:
        base = first.setdefault((one.client, one.size), one)
        ratio = float(_seconds(base)) / float(_seconds(one))
        rows.append([one.client, one.size, one.way, _seconds(one), f"{ratio:.2f}", one.steps or "", f"{one.error:.1e}"])
    return table(heads, rows, "lllrrrr") if rows else ""


def _seconds(one: Outcome) -> str:
    """To four digits that count."""
    return f"{one.seconds:#.4g}"
