"""The chart of speed over error, and the tables, of everything that a float32 product may be computed in."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.charts import Point, points
from studies.precisions import BASELINE, OWN
from studies.record import Measurement, Measurements
from studies.templates import block
from tilewright.core.files import write_whole
from tilewright.tools.report.figures.palette import owner_color

CHART = Path("docs/precisions.svg")
CHARTED = "4096x4096x4096"

_LIBRARIES = ("PyTorch", "JAX", "Triton")
_OWN_COLOR = "#c8102e"


def sections(run: Measurements) -> dict[str, str]:
    """Parts of pages, by name."""
    on_adversarial = [one for one in run.measurements if "inputs" in one.what]
    libraries = dict.fromkeys(one.facts["library"] for one in run.measurements if "library" in one.facts)
    speeds = {"speeds": _speeds(run), "libraries": libraries, "tflops": tflops, "baseline": BASELINE}
    ways = list(dict.fromkeys(one.way for one in on_adversarial if one.way != BASELINE))
    rows, depths = on_adversarial[0].what["m"], dict.fromkeys(one.what["k"] for one in on_adversarial)
    by_inputs = {row.what["inputs"]: row.of for row in run.rows("m", "n", "k") if row.what}
    errors = {"adversarial": by_inputs, "ways": ways, "own": OWN, "worst": _worst, "rows": rows, "depths": depths}
    made = {"precisions": speeds, "adversarial": errors}
    return {name: block("precisions/tables.md.j2", name, run=run, **given) for name, given in made.items()}


def draw(run: Measurements) -> None:
    """Redraw the chart."""
    charted = _charted(run)
    shown = [Point(one.way, error, tflops(one), _color(one), one.way.startswith(OWN)) for one, error in charted]
    title = f"Float32 products of {CHARTED} on one NVIDIA {run.gpu.name}: speed over error, one run"
    axes = "relative error of the result (Frobenius norm, against float64)", "TFLOP/s"
    write_whole(CHART, points(shown, title, *axes).encode())


def described(run: Measurements) -> str:
    """The chart in sentences, for who cannot see it: the baseline, and what of ours is faster with a smaller error."""
    charted = _charted(run)
    ((baseline, most),) = [(one, error) for one, error in charted if one.way == BASELINE]
    better = [one for one in charted if one[0].way.startswith(OWN) and tflops(one[0]) > tflops(baseline)]
    shown = [(one, error / most) for one, error in sorted(better, key=lambda pair: -tflops(pair[0])) if error < most]
    given = {"count": len(charted), "sizes": CHARTED, "baseline": baseline, "better": shown, "tflops": tflops}
    return block("precisions/tables.md.j2", "described", gpu=run.gpu, **given)


def tflops(one: Measurement) -> float:
    """10^12 operations a second, 2*m*n*k a product."""
    return 2 * int(one.what["m"]) * int(one.what["n"]) * int(one.what["k"]) / (one.us or 0) / 1e6


def _speeds(run: Measurements) -> dict[str, Mapping[Any, Measurement]]:
    """Ways on normal inputs, by sizes."""
    rows = (row for row in run.rows() if "inputs" not in row.what)
    return {"x".join(map(str, row.what.values())): row.of for row in rows}


def _charted(run: Measurements) -> list[tuple[Measurement, float]]:
    """Ways and errors that a logarithmic axis has a place for."""
    return [(one, one.error) for one in _speeds(run).get(CHARTED, {}).values() if one.error]


def _worst(of: Mapping[Any, Measurement], way: str) -> str:
    """The two errors of a way, the worst over k and next to the baseline's, as in '0.53, 0.22'; empty without any."""
    pairs = [(one, of[m, n, k, BASELINE]) for (m, n, k, name), one in of.items() if name == way]
    elements = [(one.facts["element"], theirs.facts["element"]) for one, theirs in pairs]
    return ", ".join(map(_over, (elements, [(one.error, theirs.error) for one, theirs in pairs]))) if pairs else ""


def _over(pairs: Sequence[tuple[float | None, float | None]]) -> str:
    """The worst error over the baseline's; 'exact' where there is none, and the error where the baseline has none."""
    ratios = []
    for ours, baseline in pairs:
        if ours is None and baseline is not None:
            return "not finite"
        if ours and not baseline:
            return f"{ours:.0e}"
        if ours is not None and baseline is not None:
            ratios.append(ours / baseline if baseline else 0.0)
    if not ratios:
        return "neither is finite"
    return f"{max(ratios):.2f}" if any(ratios) else "exact"


def _color(one: Measurement) -> str:
    library = one.facts["library"].split()[0]
    return _OWN_COLOR if library == OWN else owner_color(_LIBRARIES.index(library))
