"""Times of calls of `matmul` next to the framework's own, of many problems."""

import statistics
from collections.abc import Iterator, Sequence

from studies.markdown import table
from tilewright.bench.records import Record
from tilewright.report.calls import CAPTION, FORMS, HEADS, Row, rows


def markdown(records: Sequence[Record]) -> str:
    """The same of many problems as Markdown: means over each case, and calls that return a new result, of row-major
    factors. Empty where no calls were timed."""
    found = list(rows(records))
    if not found:
        return ""
    ratios = [theirs / ours for ours, theirs in (row.wall for row in found)]
    least = min(found, key=lambda row: row.wall[1] / row.wall[0])
    summary = (
        f"In microseconds, next to {found[0].framework}. {CAPTION} By wall time matmul is "
        f"{statistics.geometric_mean(ratios):.2f} times as fast in the geometric mean, and {min(ratios):.2f} times at "
        f"the least, on {least.record.shape} {least.record.case}, {least.form}."
    )
    shown = [row for row in found if (row.record.layout, row.form) == ("NN", FORMS[0])]
    heads = ("case", "call", "problems", "host, ours over theirs", "wall, times as fast", "at the least", "on")
    cells = [(row.record.shape, row.record.case, *row.cells) for row in shown]
    return "\n\n".join(
        (
            summary,
            "Means over the problems of a case:",
            table(heads, _means(found), "llrrrrl"),
            f"Of row-major factors, a {FORMS[0]}:",
            table(("m x n x k", "case", *HEADS), cells, "llrrrrrr"),
        )
    )


def _means(found: Sequence[Row]) -> Iterator[tuple[object, ...]]:
    """Of each case and form of call: geometric means, and where a call is slowest next to the framework's."""
    for case, form in dict.fromkeys((row.record.case, row.form) for row in found):
        of_case = [row for row in found if (row.record.case, row.form) == (case, form)]
        host = statistics.geometric_mean(row.host[0] / row.host[1] for row in of_case)
        wall = statistics.geometric_mean(row.wall[1] / row.wall[0] for row in of_case)
        least = min(of_case, key=lambda row: row.wall[1] / row.wall[0])
        cells = (f"{host:.2f}", f"{wall:.2f}", f"{least.wall[1] / least.wall[0]:.2f}", least.record.shape)
        yield case, f"`{form}`", len(of_case), *cells
