"""Times of calls of `matmul` next to the framework's own, of many problems."""

import statistics
from collections.abc import Sequence

from studies.templates import block
from tilewright.bench.records import Record
from tilewright.report.calls import CAPTION, FORMS, HEADS, Row, rows


def markdown(records: Sequence[Record]) -> str:
    """The same of many problems as Markdown: means over each case, and calls that return a new result, of row-major
    factors. Empty where no calls were timed."""
    found = list(rows(records))
    if not found:
        return ""
    cases = _by_case(found).values()
    first = [row for row in found if (row.record.layout, row.form) == ("NN", FORMS[0])]
    given = {"caption": CAPTION, "heads": HEADS, "form": FORMS[0], "mean": statistics.geometric_mean}
    return block("performance/page.md.j2", "calls", rows=found, cases=cases, row_major=first, slowest=_slowest, **given)


def _by_case(found: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """By case and form of call."""
    by_case: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        by_case.setdefault((row.record.case, row.form), []).append(row)
    return by_case


def _slowest(found: Sequence[Row]) -> Row:
    """Where a call is slowest by wall time, next to the framework's."""
    return min(found, key=lambda row: row.wall[1] / row.wall[0])
