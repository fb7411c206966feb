"""Tables of what a caller sees: times of calls of `matmul`, next to the framework's own in the same run."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tilewright.tools.bench.records import PerCall, Record
from tilewright.tools.report.fitted import Column, FittedTable

HEADS = ("host, ours", "theirs", "ours over theirs", "wall, ours", "theirs", "times as fast")
FORMS = ("new result", "out=")
CAPTION = "host: until the call returns. wall: calls back to back, until the GPU is done."


class CallRow(NamedTuple):
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


def rows(records: Iterable[Record]) -> Iterator[CallRow]:
    """Two for each record that has times end to end."""
    for record in records:
        for form, found in zip(FORMS, (record.end_to_end, record.end_to_end_out), strict=True):
            if found:
                yield CallRow(record, form, found.framework, _printed(found.host_us), _printed(found.wall_us))


def calls_table(records: Iterable[Record]) -> FittedTable | None:
    """A terminal table of one problem's records; None where no calls were timed."""
    found = list(rows(records))
    if not found:
        return None
    table = FittedTable(
        Column("kernel", style="bold"),
        Column("call"),
        *(Column(heading, "right") for heading in HEADS),
        title=f"A call of matmul and of {found[0].framework}, in microseconds",
        caption=CAPTION,
        names=2,
    )
    for row in found:
        prepared = ", b prepared" if row.record.prepared else ""
        table.add_row(f"{row.record.picked or row.record.kernel}{prepared}", row.form, *row.cells)
    return table


def _printed(times: PerCall) -> tuple[float, float]:
    return round(times.ours, 2), round(times.baseline, 2)
