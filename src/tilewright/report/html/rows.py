"""The tables of a page: every record, what two files share, and the environments side by side."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tilewright.bench.records import Record, Result
from tilewright.report.html.comparison import Comparison
from tilewright.report.html.series import scalars, work
from tilewright.report.html.sources import Source
from tilewright.report.tables import duration


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    key: float | str | None = None
    """What its column is sorted by; None where the cell says nothing, which sorts last."""
    style: str = ""
    """Classes of the page's style sheet."""


class Heading(NamedTuple):
    """A column of a table that can be sorted."""

    heading: str
    numeric: bool = False
    parameter: bool = False
    """Whether it has a parameter of configs, which a filter finds as in 'BM=64'."""


class SortableTable(NamedTuple):
    """A table that can be sorted and filtered."""

    name: str
    columns: Sequence[Heading]
    rows: Sequence[Sequence[Cell]]


def records(sources: Sequence[Source]) -> SortableTable:
    """Every record and result of every file, with a column for each parameter of their configs.

    The emulator's have no speed and no ratio: its times are not a GPU's. What was not timed has no time either.
    """
    several, real = len(sources) > 1, not all(source.emulated for source in sources)
    columns = [
        Heading("rung", numeric=True), Heading("kernel"), *[Heading("file")] * several,
        Heading("m x n x k", numeric=True), Heading("type"),
        *[Heading("GFLOP/s", numeric=True), Heading("of baseline", numeric=True)] * real,
        Heading("median", numeric=True), Heading("fastest", numeric=True), Heading("baseline"),
        Heading("error", numeric=True),
    ]  # fmt: skip
    parameters = list(
        dict.fromkeys(name for source in sources for one in source.run.every_result for name in one.config)
    )
    columns += [Heading(name, numeric=True, parameter=True) for name in parameters]
    rows = []
    for source in sources:
        for record in source.run.every_result:
            baseline = record.baseline if isinstance(record, Record) else None
            rounded = [record.precision] if record.precision else []
            case = record.case.removeprefix("NN ")
            kind = ", ".join([case, *rounded, *scalars(record.alpha, record.beta)])
            speeds, times = _speeds(record)
            rows.append(
                [
                    Cell(str(record.rung or ""), record.rung),
                    Cell(record.title, record.title, "name"),
                    *[Cell(source.label, source.label)] * several,
                    Cell(record.shape, work(record)[0]),
                    Cell(kind, kind),
                    *speeds * real,
                    *times,
                    Cell(f"{baseline.name} {baseline.version}", baseline.name) if baseline else Cell(""),
                    _error(record),
                    *(_parameter(record.config.get(name)) for name in parameters),
                ]
            )
    return SortableTable("records", columns, rows)


def changes(comparison: Comparison, name: str) -> SortableTable:
    """What two files share: both speeds, both ratios to the baseline, and how many times as fast the second is."""
    before, after = comparison.before.label, comparison.after.label
    unit = "emulator time" if comparison.emulated else "GFLOP/s"
    columns = [Heading("kernel"), Heading("m x n x k", numeric=True)]
    columns += [Heading(f"{unit}, {label}", numeric=True) for label in (before, after)]
    columns += [Heading("times as fast", numeric=True)]
    columns += [Heading(f"of baseline, {label}", numeric=True) for label in (before, after)] * (not comparison.emulated)
    columns += [Heading("config")]
    kernels = list(dict.fromkeys(change.title for change in comparison.changes))
    rows = []
    for change in comparison.changes:
        sides = (change.before, change.after)
        if comparison.emulated:
            times = [side.timed.time_us.median for side in sides]
            speeds, ratios = [Cell(duration(time), time, "emulated") for time in times], []
        else:
            speeds = [_speed(side.timed.gflops) for side in sides]
            ratios = [_percent(None if side.of_baseline else side.record.ratio) for side in sides]
        style = "faster" if change.is_faster else "slower" if change.is_slower else ""
        rows.append(
            [
                Cell(change.title, f"{kernels.index(change.title):04}", "name"),
                Cell(change.before.shape, comparison.shapes.index(change.before.shape)),
                *speeds,
                Cell(f"{change.ratio:.3f}", change.ratio, style),
                *ratios,
                Cell(change.config, change.config or None, "config"),
            ]
        )
    return SortableTable(name, columns, rows)


def environments(sources: Sequence[Source]) -> list[tuple[str, list[str], bool]]:
    """A row a fact: its name, what it is in each file (empty where a file does not say), and whether files differ."""
    facts = [dict(_flat(source.run.environment)) for source in sources]
    names = dict.fromkeys(name for one in facts for name in one)
    rows = [(name, [one.get(name, "") for one in facts]) for name in names]
    return [(name, values, len(set(values)) > 1) for name, values in rows]


def _flat(facts: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}: ")
        else:
            yield f"{prefix}{name}", str(value)


def _speeds(record: Result) -> tuple[list[Cell], list[Cell]]:
    """Cells of the speed and the share of the baseline's, and of the median and the shortest time."""
    nothing = [Cell(""), Cell("")]
    if not isinstance(record, Record):
        return nothing, nothing
    emulated = record.engine == "emulator"
    times = [
        Cell(duration(time) + " emulated" * emulated, time, "emulated" if emulated else "")
        for time in (record.time_us.median, record.time_us.min)
    ]
    return nothing if emulated else [_speed(record.gflops), _percent(record.ratio)], times


def _speed(gflops: float | None) -> Cell:
    return Cell("") if gflops is None else Cell(f"{gflops:,.0f}" if gflops >= 10 else f"{gflops:.2f}", gflops)


def _parameter(value: int | None) -> Cell:
    return Cell("") if value is None else Cell(str(value), value, "config")


def _percent(ratio: float | None) -> Cell:
    return Cell("") if ratio is None else Cell(f"{100 * ratio:.1f}%", ratio)


def _error(result: Result) -> Cell:
    """The error of a result; NaN of a wrong one sorts as the largest."""
    error = result.error.relative_frobenius
    if result.verified:
        return Cell(str(result.error), error)
    return Cell(f"{result.error} WRONG", sys.float_info.max if error is None else error, "wrong")
