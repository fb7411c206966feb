"""Tables of what a caller sees: times of calls of `matmul`, next to the framework's own in the same run."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tilewright.bench.records import PerCall, Record
from tilewright.report.fitted import Column, FittedTable
from tilewright.report.markdown import table

_HEADS = ("host, ours", "theirs", "ours over theirs", "wall, ours", "theirs", "times as fast")
_FORMS = ("new result", "out=")
_CAPTION = "host: until the call returns. wall: calls back to back, until the GPU is done."


class Row(NamedTuple):
    """One form of call of one record."""

    record: Record
    form: str
    framework: str
    host: tuple[float, float]
    """Microseconds of ours and theirs, as they are printed."""
    wall: tuple[float, float]

    @property
    def cells(self) -> tuple[str, ...]:
        """Times and ratios; each ratio is that of the two times before it."""
        (ours, theirs), (our_wall, their_wall) = self.host, self.wall
        host = (f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}")
        return *host, f"{our_wall:.2f}", f"{their_wall:.2f}", f"{their_wall / our_wall:.2f}"


def rows(records: Iterable[Record]) -> Iterator[Row]:
    """Two for each record that has times end to end."""
    for record in records:
        for form, found in zip(_FORMS, (record.end_to_end, record.end_to_end_out), strict=True):
            if found:
                yield Row(record, form, found.framework, _printed(found.host_us), _printed(found.wall_us))


def calls_table(records: Iterable[Record]) -> FittedTable | None:
    """A terminal table of one problem's records; None where no calls were timed."""
    found = list(rows(records))
    if not found:
        return None
    table = FittedTable(
        Column("kernel", style="bold"),
        Column("call"),
        *(Column(heading, "right") for heading in _HEADS),
        title=f"A call of matmul and of {found[0].framework}, in microseconds",
        caption=_CAPTION,
        names=2,
    )
    for row in found:
        prepared = ", b prepared" if row.record.prepared else ""
        table.add_row(f"{row.record.picked or row.record.kernel}{prepared}", row.form, *row.cells)
    return table


def markdown(records: Sequence[Record]) -> str:
    """The same of many problems as Markdown: means over each case, and calls that return a new result, of row-major
    factors. Empty where no calls were timed."""
    found = list(rows(records))
    if not found:
        return ""
    ratios = [theirs / ours for ours, theirs in (row.wall for row in found)]
    least = min(found, key=lambda row: row.wall[1] / row.wall[0])
    summary = (
        f"In microseconds, next to {found[0].framework}. {_CAPTION} By wall time matmul is "
        f"{statistics.geometric_mean(ratios):.2f} times as fast in the geometric mean, and {min(ratios):.2f} times at "
        f"the least, on {least.record.shape} {least.record.case}, {least.form}."
    )
    shown = [row for row in found if (row.record.layout, row.form) == ("NN", _FORMS[0])]
    heads = ("case", "call", "problems", "host, ours over theirs", "wall, times as fast", "at the least", "on")
    cells = [(row.record.shape, row.record.case, *row.cells) for row in shown]
    return "\n\n".join(
        (
            summary,
            "Means over the problems of a case:",
            table(heads, _means(found), "llrrrrl"),
            f"Of row-major factors, a {_FORMS[0]}:",
            table(("m x n x k", "case", *_HEADS), cells, "llrrrrrr"),
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


def _printed(times: PerCall) -> tuple[float, float]:
    return round(times.ours, 2), round(times.baseline, 2)
