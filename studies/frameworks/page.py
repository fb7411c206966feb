"""The tables of docs/frameworks.md."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.frameworks import comparisons as kinds
from studies.record import Measurement, Measurements
from studies.results import paths
from studies.templates import block, redraw

PAGE = Path("docs/frameworks.md")


def write() -> None:
    """Redraw the page.

    Raises:
        RecordsError: a file of records is missing, or none of measurements.
        OSError: the page cannot be read or written.
    """
    redraw(PAGE, sections([Measurements.load(path) for path in paths("frameworks")]))


def sections(runs: Sequence[Measurements]) -> dict[str, str]:
    """The page's tables, by name, of runs of different comparisons."""
    by_kind: dict[str | int, dict[str | int, Mapping[Any, Measurement]]] = defaultdict(dict)
    for run in runs:
        for row in run.rows():
            by_kind[row.what["kind"]][row.what["of"]] = row.of
    given = {"runs": runs, "by_kind": by_kind, "kinds": kinds}
    return {name: block("frameworks/page.md.j2", name, **given) for name in ("machine", "torch", "jax", "cupy")}
