"""Tables and lines of text that fit the terminal without cutting a word or a number in two."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tilewright.tools.report.visible import visible, visible_text

_LEAST_GAP, _GAP = 2, 3
"""Columns between two columns of a table."""
_BETWEEN_FACTS = "   "

_UNIT = r"(?:[mun]?s|bytes?|W|[kKMGT](?:i?B|FLOP|Hz)?)(?:/s)?(?![\w-])"
_BREAKS = re.compile(rf"(?<=\S)(?!(?<=\d)\s+{_UNIT})\s+|,(?=[A-Z_]+=)")
"""Where a line of text may be broken."""


_Behind = Literal["", " ", ", "]


class Column(NamedTuple):
    """A column of a table. Headings may wrap between their words."""

    heading: str = ""
    justify: Literal["left", "right"] = "left"
    style: str = ""
    wraps: _Behind = ""
    """Text behind which the lines of a cell may be broken."""
    spare: bool = False
    """Whether the column is left out where not all cells have room in one line."""


class _FittedRow(NamedTuple):
    cells: tuple[Text, ...]
    style: str
    ends_section: bool


class FittedTable:
    """A table as wide as it needs to be, narrower where the terminal is, and a list where no table fits.

    Columns shrink no further than to their longest word. Where cells would be broken, spare columns are left out first,
    from the last to the first. Where the longest words have no room, each row becomes the cells that name it, and below
    them the others, each after its heading.
    """

    def __init__(
        self, *columns: Column, title: str = "", caption: str = "", names: int = 1, most_gap: int = _GAP
    ) -> None:
        """A table without rows.

        Args:
            columns: its columns.
            title: a line above it.
            caption: text below it.
            names: how many of the first columns name a row.
            most_gap: terminal columns between two columns where there is room.
        """
        self._columns = [one._replace(heading=visible(one.heading)) for one in columns]
        self._names = names
        self._title, self._caption = visible(title), visible(caption)
        self._gaps = range(most_gap, _LEAST_GAP - 1, -1)
        self._rows: list[_FittedRow] = []

    def add_row(self, *cells: str | Text, style: str = "", ends_section: bool = False) -> None:
        """Add a row of plain texts and of rich's; one that ends a section has a line below it."""
        self._rows.append(_FittedRow(tuple(map(visible_text, cells)), style, ends_section))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = list(range(len(self._columns)))
        spare = [index for index in shown if self._columns[index].spare]
        while True:
            for gap in self._gaps:
                room = options.max_width - 2 - gap * (len(shown) - 1)  # a space at either edge
                if widths := self._widths(shown, room, whole=bool(spare)):
                    yield self._table(shown, widths, gap)
                    return
            if not spare:
                yield from self._list(options.max_width)
                return
            shown.remove(spare.pop())

    def _widths(self, shown: Sequence[int], room: int, whole: bool) -> list[int] | None:
        """The widths of the columns of these indices; None where their longest words have no room, or, of whole cells,
        where one would be broken."""
        least = [self._needs(index, "" if whole else self._columns[index].wraps, " ") for index in shown]
        widths = [self._needs(index, "", "") for index in shown]
        if sum(least) > room:
            return None
        while sum(widths) > room:
            slack = [width - bound for width, bound in zip(widths, least, strict=True)]
            widths[slack.index(max(slack))] -= 1
        return widths

    def _needs(self, index: int, behind: _Behind, heading: _Behind) -> int:
        """The width of a column whose cells, and whose heading, are broken behind this; '': nowhere."""
        parts = _parts(Text(self._columns[index].heading), heading)
        return max(
            part.cell_len for part in parts + [one for row in self._rows for one in _parts(row.cells[index], behind)]
        )

    def _table(self, shown: Sequence[int], widths: Iterable[int], gap: int) -> Table:
        title = Text(self._title, "table.title") if self._title else None
        caption = Text(self._caption, "table.caption") if self._caption else None
        table = Table(
            title=title, caption=caption, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left",
            pad_edge=False, padding=(0, 1, 0, gap - 2),
        )  # fmt: skip
        columns = [self._columns[index] for index in shown]
        for column, width in zip(columns, widths, strict=True):
            table.add_column(Text(column.heading), justify=column.justify, style=column.style, width=width)
        for row in self._rows:
            cells = (
                Text("\n").join(_filled(_parts(cell, ", "), width, " ")) if column.wraps == ", " else cell
                for column, cell, width in zip(columns, (row.cells[index] for index in shown), widths, strict=True)
            )
            table.add_row(*cells, style=row.style, end_section=row.ends_section)
        return table

    def _list(self, width: int) -> Iterator[Text | Padding]:
        if self._title:
            yield Text(self._title + "\n", "table.title")
        for row in self._rows:
            named = zip(self._columns, row.cells, strict=True)
            facts = [
                Text.assemble((f"{column.heading}: " if column.heading else "", "dim"), cell)
                for column, cell in list(named)[self._names :]
                if cell
            ]
            names = [cell for cell in row.cells[: self._names] if cell]
            yield Text("  ", style=f"bold {row.style}").join(names)
            for line in _filled(facts, width - 2, _BETWEEN_FACTS):
                yield Padding(line, (0, 0, 0, 2), style=row.style)
        yield Text(f"\n{self._caption}" if self._caption else "", "table.caption")


def wrapped(text: Text, width: int, indent: int = 0) -> Iterator[Text]:
    """The lines of a text, broken between words, but not between a number and its unit, and between the parameters of
    configs such as 'BM=64,BN=64'.

    Args:
        text: one line or several.
        width: what fits a line.
        indent: spaces before what continues a line.
    """
    for line in text.split("\n"):
        start = fits = 0
        cuts: list[int] = []
        for place in [cut.end() for cut in _BREAKS.finditer(line.plain)] + [len(line)]:
            before = indent if cuts else 0
            if fits > start and before + cell_len(line.plain[start:place].rstrip()) > width:
                cuts.append(fits)
                start = fits
            fits = place
        for number, part in enumerate(line.divide(cuts)):
            part.rstrip()
            yield Text(" " * indent) + part if number else part


def _parts(text: Text, behind: _Behind) -> list[Text]:
    """Parts of a text between the places at which it may be broken, and between the ends of its lines."""
    places = {"": r"\n", " ": r"\s+", ", ": r", |\n"}[behind]
    parts = list(text.divide([place.end() for place in re.finditer(places, text.plain)]))
    for part in parts:
        part.rstrip()
    return parts


def _filled(parts: Iterable[Text], width: int, between: str) -> Iterator[Text]:
    """Lines with as many parts each as they hold."""
    line = Text()
    for part in parts:
        if line and line.cell_len + len(between) + part.cell_len > width:
            yield line
            line = Text()
        line = Text(between).join([line, part]) if line else part
    if line:
        yield line
