"""Times of calls of `matmul` next to the framework's own, of many problems."""

import statistics
from collections.abc import Sequence
from typing import Any

from studies.templates import block, is_stale
from tilewright.bench.records import Run
from tilewright.report.calls import CAPTION, FORMS, HEADS, Row, rows


def markdown(runs: Sequence[Run]) -> str:
    """What a caller sees on one GPU: means over each case, and calls that return a new result, of row-major factors.
    Empty where no calls were timed."""
    found = [(row, is_stale(row.record, run)) for run in runs for row in rows(run.records)]
    if not found:
        return ""
    by_case: dict[tuple[str, str], list[Row]] = {}
    for row, _ in found:
        by_case.setdefault((row.record.case, row.form), []).append(row)
    shown = [(row, stale) for row, stale in found if (row.record.layout, row.form) == ("NN", FORMS[0])]
    given: dict[str, Any] = {
        "runs": runs,
        "rows": [row for row, _ in found],
        "cases": by_case.values(),
        "row_major": shown,
    }
    given |= {"caption": CAPTION, "heads": HEADS, "form": FORMS[0], "mean": statistics.geometric_mean}
    return block("performance/page.md.j2", "calls", slowest=_slowest, **given)


def _slowest(found: Sequence[Row]) -> Row:
    """Where a call is slowest by wall time, next to the framework's."""
    return min(found, key=lambda row: row.wall[1] / row.wall[0])
