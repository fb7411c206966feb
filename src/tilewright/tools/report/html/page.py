"""The page: its template filled with charts, tables and the chart library, in one file that needs no other."""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tilewright.core.errors import LibraryError, RecordsError
from tilewright.core.files import FileKind, save
from tilewright.core.problem import Scalars
from tilewright.tools.report.html import charts
from tilewright.tools.report.html.comparison import Comparison, compare
from tilewright.tools.report.html.series import Point, points, scalars, work
from tilewright.tools.report.html.sources import Inputs, Source
from tilewright.tools.report.tables import duration
from tilewright.tools.tune.journal import Trial

KIND = FileKind("a page of records", lambda content: b"<title>tilewright" in content)

_TEMPLATES = Path(__file__).parent / "templates"

_SERIES = {"light": (0.56, 0.15), "dark": (0.76, 0.13)}
"""Lightness and chroma of the series in each theme."""

_FIRST_HUE, _HUES = 300.0, 285.0
"""The hues run from violet through blue, green and yellow to red."""


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
    data = json.dumps({"figures": figures, "searches": searches(inputs.trials)}, allow_nan=False, separators=(",", ":"))
    return templates.get_template("page.html.j2").render(
        sources=inputs.sources,
        points=found,
        comparisons=comparisons,
        parameters=list(
            dict.fromkeys(name for source in inputs.sources for one in source.run.every_result for name in one.config)
        ),
        environments=environments(inputs.sources),
        figures=figures,
        roofless=[source for source in inputs.sources if not source.emulated and source.gpu is None],
        several=charts.in_several_files([point for point in found if not point.source.emulated]),
        has_trials=bool(inputs.trials),
        duration=duration,
        scalars=scalars,
        work=work,
        largest=sys.float_info.max,  # what NaN of a wrong result sorts as
        series={theme: colours(series_count, *of) for theme, of in _SERIES.items()},
        style=(_TEMPLATES / "page.css").read_text(encoding="utf-8"),
        scripts=[(_TEMPLATES / name).read_text(encoding="utf-8") for name in ("charts.js", "search.js", "tables.js")],
        plotly=get_plotlyjs(),
        data=data.replace("<", "\\u003c"),  # none is left that could end a script element
    )


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


def colours(count: int, lightness: float, chroma: float) -> list[str]:
    """This many colours as '#rrggbb', in the order of their hues, all equally light to the eye."""
    step = _HUES / max(count - 1, 1)
    return [_hex(lightness, chroma, _FIRST_HUE - index * step) for index in range(count)]


def _hex(lightness: float, chroma: float, hue: float) -> str:
    """A colour of the Oklab space (B. Ottosson, "A perceptual color space for image processing", 2020) in sRGB."""
    a, b = (chroma * turn(math.radians(hue)) for turn in (math.cos, math.sin))
    long, medium, short = (
        (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3,
        (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3,
        (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3,
    )
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(max(value, 0.0), 1.0))):02x}" for value in linear)


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def searches(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """One entry a search, that of the most trials first, as the page's script takes it.

    Each holds `title`; `parameters`, the names; `counts`, the outcomes in words; and `trials`, each with the `values`
    of the parameters, the `outcome`, `gflops` and `time_us` (None where it was not timed), `at_s`, the seconds of
    searching by then, `registers`, and `note`, what a compiler or engine said.
    """
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        words = [trial.kernel, trial.shape, trial.case, trial.device]
        if trial.scalars != Scalars():
            words.insert(3, f"alpha {trial.alpha:g}, beta {trial.beta:g}")
        title = ", ".join(words)
        groups.setdefault((title, trial.digest), []).append(trial)
    sources = Counter(title for title, _ in groups)
    return [
        {"title": f"{title}, source {digest}" if sources[title] > 1 else title, **_search(group)}
        for (title, digest), group in sorted(groups.items(), key=lambda one: -len(one[1]))
    ]


def _search(group: Sequence[Trial]) -> dict[str, Any]:
    group = sorted(group, key=lambda trial: trial.at_s)
    names = list(dict.fromkeys(name for trial in group for name in trial.config))
    outcomes = Counter(trial.outcome for trial in group)
    shown = ("outcome", "gflops", "time_us", "at_s", "registers", "note")
    return {
        "parameters": names,
        "counts": ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()),
        "trials": [
            {"values": [trial.config.get(name) for name in names]} | {fact: getattr(trial, fact) for fact in shown}
            for trial in group
        ],
    }
