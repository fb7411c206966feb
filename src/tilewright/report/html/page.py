"""The page: its template filled with charts, tables and the chart library, in one file that needs no other."""

import json
from collections.abc import Sequence, Sized
from itertools import groupby
from pathlib import Path
from typing import Any

from tilewright.core.errors import LibraryError, RecordsError
from tilewright.core.files import Kind, save
from tilewright.report.html import charts, colours, rows
from tilewright.report.html.comparison import Comparison, compare
from tilewright.report.html.landscape import searches
from tilewright.report.html.series import Point, points
from tilewright.report.html.sources import Inputs, Source

KIND = Kind("a page of records", lambda content: b"<title>tilewright" in content)

_TEMPLATES = Path(__file__).parent / "templates"


def write(inputs: Inputs, path: Path) -> None:
    """Write the page of these inputs. The file appears whole or not at all.

    Raises:
        RecordsError: there is nothing to show, or the file cannot be written.
        LibraryError: plotly or Jinja2 is not installed.
    """
    save(path, render(inputs).encode(), f"the report to {path}")


def render(inputs: Inputs) -> str:
    """The page of these inputs, as HTML; the same for the same inputs.

    Raises:
        RecordsError: there is nothing to show.
        LibraryError: plotly or Jinja2 is not installed.
    """
    if not inputs.sources and not inputs.trials:
        raise RecordsError("RECORDS must name at least one file of records or journal of tilewright tune")
    try:
        from jinja2 import Environment, FileSystemLoader  # noqa: PLC0415 of the `report` extra, and so is plotly
        from plotly.offline import get_plotlyjs  # noqa: PLC0415
    except ImportError as error:
        raise LibraryError(f"a report needs {error.name}, which is not installed: pip install Jinja2 plotly") from error
    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    found = points(inputs.sources)
    others = (compare(inputs.sources[0], source, found) for source in inputs.sources[1:])
    comparisons = [comparison for comparison in others if comparison]
    figures = _figures(inputs.sources, found, comparisons)
    series_count = len(charts.in_order(found))
    return templates.get_template("page.html.j2").render(
        sources=inputs.sources,
        summaries=[summary(source, found) for source in inputs.sources],
        comparisons=[(one, rows.changes(one, f"changes-{index}")) for index, one in enumerate(comparisons)],
        records=rows.records(inputs.sources),
        environments=rows.environments(inputs.sources),
        figures=figures,
        roofless=[source for source in inputs.sources if not source.emulated and source.gpu is None],
        several=charts.in_several_files([point for point in found if not point.source.emulated]),
        has_trials=bool(inputs.trials),
        series={theme: colours.series(series_count, *of) for theme, of in colours.SERIES.items()},
        style=(_TEMPLATES / "page.css").read_text(encoding="utf-8"),
        scripts=[(_TEMPLATES / name).read_text(encoding="utf-8") for name in ("charts.js", "search.js", "tables.js")],
        plotly=get_plotlyjs(),
        data=_as_json({"figures": figures, "searches": searches(inputs.trials)}),
    )


def summary(source: Source, some: Sequence[Point]) -> list[tuple[str, str]]:
    """What to know of a file at a glance: a name and a value each."""
    facts, records = source.run.environment, source.run.every_result
    kernels, shapes = {record.kernel for record in records}, {record.shape for record in records}
    lines = [("measured on", source.device)]
    lines += [("date", str(facts["date"]).replace("T", " ").replace("+00:00", " UTC"))] if "date" in facts else []
    lines += [("revision", str(facts["revision"]))] if "revision" in facts else []
    lines += [("records", f"{len(records)}, {_count(kernels, 'kernel')} on {_count(shapes, 'shape')}")]
    wrong = sum(not record.verified for record in records)
    lines += [("results", f"{wrong} of {len(records)} wrong" if wrong else "all verified")]
    if source.emulated:
        return lines
    fastest: dict[str, Point] = {}
    for point in sorted((point for point in some if point.source is source), key=lambda point: -point.record.gflops):
        fastest.setdefault(point.series.kind, point)
    lines += [(f"fastest in {kind}", _fastest(point)) for kind, point in fastest.items()]
    return lines


def _fastest(point: Point) -> str:
    """A point's speed, its share of the peak of what its kernel computes in, its kernel and its sizes."""
    record, gpu = point.record, point.source.gpu
    peak = gpu and gpu.peak_tflops(record.arithmetic)
    share = f", {record.gflops / peak / 10:.0f}% of the {record.arithmetic} peak" if peak else ""
    return f"{record.gflops:,.0f} GFLOP/s{share}: {record.picked or record.kernel} on {point.shape}"


def _count(some: Sized, name: str) -> str:
    return f"{len(some)} {name}{'s' * (len(some) != 1)}"


def _figures(
    sources: Sequence[Source], some: Sequence[Point], comparisons: Sequence[Comparison]
) -> dict[str, charts.Figure]:
    """The charts there is data of, by the names of their places in the page."""
    by_engine = groupby(sorted(some, key=lambda point: point.source.emulated), lambda point: point.source.emulated)
    measured = {emulated: list(group) for emulated, group in by_engine}
    figures: dict[str, charts.Figure] = {}
    if real := measured.get(False):
        figures["speed"] = charts.speed(real, sources)
        if any(point.record.ratio for point in real):
            figures["ratios"] = charts.ratios(real)
        figures["roofline"] = charts.roofline(real, sources)
    if emulated := measured.get(True):
        figures["emulator"] = charts.emulator_times(emulated, sources)
    figures |= {f"comparison-{index}": one.figure for index, one in enumerate(comparisons)}
    return figures


def _as_json(data: dict[str, Any]) -> str:
    """JSON that may be put inside a script element: no '<' is left that could end it."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
