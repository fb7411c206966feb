"""The plots of the ladder: its records as curves of speed against size."""

from collections.abc import Mapping, Sequence

from studies import charts
from studies.charts import Curve, Panel
from studies.worklog.parts import PARTS, part_of
from tilewright.tools.bench.records import Record
from tilewright.tools.report.figures.palette import owner_color

_PUBLISHED_AT = 4096
"""The size that the sources measured at."""


def float32_ladder(records: Sequence[Record], best: Sequence[Record], published: Mapping[int, float]) -> str:
    """Products of float32 factors that keep float32's exactness, or nearly: every rung, what is picked, and cuBLAS.

    Args:
        records: of the rungs on square problems, of any type.
        best: of what matmul picks on square problems.
        published: by rung, what others measured at 4096: crosses in the colour of the rung's part.
    """
    chosen = [record for record in records if _of_float32(record)]
    picked = Curve("what matmul picks", _points(best), charts.PICK)
    heading = "float32; crosses: notes on a GH200" if published else "float32"
    return _panels([*_rungs(chosen, published), picked, *_baselines(chosen)], heading)


def tensor_core_ladder(records: Sequence[Record]) -> str:
    """Products of factors of 16 bits, or rounded to TF32: every rung, and cuBLAS in each type."""
    chosen = [record for record in records if not _of_float32(record)]
    return _panels([*_rungs(chosen, {}), *_baselines(chosen)], "TF32, float16 and bfloat16")


def _panels(curves: Sequence[Curve], heading: str) -> str:
    shown = [curve for curve in curves if curve.points]
    unnumbered = [curve._replace(number=0) for curve in shown]
    panels = [Panel(f"{heading}, linear", shown, linear=True), Panel(heading, unnumbered)]
    return charts.curves(panels, "m = n = k", "GFLOP/s", marker="")


def _of_float32(record: Record) -> bool:
    return record.dtype == "float32" and record.precision != "tf32"


def _rungs(records: Sequence[Record], published: Mapping[int, float]) -> list[Curve]:
    """A curve for each rung and arithmetic, in the colour of its part of the course, with the rung's number at its
    end; dashes tell the arithmetics of one part."""
    curves = []
    kinds = sorted({(record.rung, record.kernel, record.arithmetic) for record in records})
    for rung, name, kind in kinds:
        own = [record for record in records if (record.kernel, record.arithmetic) == (name, kind)]
        part = part_of(rung)
        of_part = sorted({other for one, _, other in kinds if one in part.rungs})
        style = {"color": owner_color(PARTS.index(part)), "linestyle": charts.DASHES[of_part.index(kind)]}
        curves.append(Curve(f"{part.letter}, {part.title}{_named(kind)}", _points(own), style, rung))
        if rung in published:
            cross = style | {"linestyle": "", "marker": "x", "markersize": 8}
            curves.append(Curve(f"_{rung}", [(_PUBLISHED_AT, published[rung])], cross))
    return curves


def _baselines(records: Sequence[Record]) -> list[Curve]:
    """cuBLAS, a curve for each type; of a size, its speed in the first run that has it."""
    kinds = sorted({record.baseline_arithmetic for record in records if record.baseline})
    curves = []
    for number, kind in enumerate(kinds):
        of_size: dict[int, float] = {}
        for record in records:
            if record.baseline and record.baseline_arithmetic == kind:
                of_size.setdefault(record.m, record.baseline.gflops)
        curves.append(Curve(f"cuBLAS{_named(kind)}", sorted(of_size.items()), charts.baseline_style(number)))
    return curves


def _points(records: Sequence[Record]) -> list[tuple[int, float]]:
    return sorted((record.m, record.gflops) for record in records)


def _named(kind: str) -> str:
    """An arithmetic in brackets; nothing for float32."""
    return "" if kind == "float32" else f" ({kind})"
