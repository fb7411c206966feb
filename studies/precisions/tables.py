"""What a float32 product may be computed in: the chart of speed over error, and the tables, from the records.

Without the records there is nothing: no chart, and empty sections.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from studies.figures.choices import Point, choice_points
from studies.markdown import table
from studies.precisions.measurements import Choice, Errors, HostileCase, Precisions
from tilewright.files import write_whole
from tilewright.report.figures.palette import owner_color

RECORDS = Path("results/h100/precisions.json")
CHART = Path("docs/precisions.svg")
CHARTED = "4096x4096x4096"

_OWN = "tilewright"
_LIBRARIES = ("PyTorch", "JAX", "Triton")
_OWN_COLOR = "#c8102e"

_HEADING = "## What a Hopper user can choose from"


def sections() -> dict[str, str]:
    """Parts of pages, by name; empty where nothing was measured.

    Raises:
        RecordsError: the file is none of records.
    """
    run = Precisions.load(RECORDS) if RECORDS.exists() else None
    return {
        "precisions": f"{_HEADING}\n\n{speeds(run)}" if run and run.choices else "",
        "hostile": hostile(run.hostile) if run and run.hostile else "",
    }


def draw() -> Precisions | None:
    """Redraw the chart; the run that it shows, None where there is no chart.

    Raises:
        RecordsError: the file is none of records.
    """
    if not RECORDS.exists():
        return None
    run = Precisions.load(RECORDS)
    charted = [one for one in run.choices if one.shape == CHARTED and one.error > 0]
    if not charted:
        return None
    drawing = choice_points(
        [Point(one.way, one.error, one.tflops, _color(one), one.way.startswith(_OWN)) for one in charted],
        title(run),
        "relative error of the result (Frobenius norm, against float64)",
        "TFLOP/s",
    )
    write_whole(CHART, drawing.render(title(run)).encode())
    return run


def title(run: Precisions) -> str:
    """What the chart shows, in words."""
    return f"Float32 products of {CHARTED} on one NVIDIA {run.gpu.name}: speed over error, one run"


def described(run: Precisions) -> str:
    """The chart in sentences, for who cannot see it: the baseline, and what of ours is faster with a smaller error."""
    charted = [one for one in run.choices if one.shape == CHARTED and one.error > 0]
    better = [one for one in charted if one.way.startswith(_OWN) and one.tflops > one.baseline_tflops]
    better = sorted((one for one in better if one.error < one.baseline_error), key=lambda one: -one.tflops)
    reached = [f"PyTorch's float32 reaches {charted[0].baseline_tflops:.1f} TFLOP/s"]
    reached += [
        f"{one.way} reaches {one.tflops:.1f} TFLOP/s with {one.error / one.baseline_error:.2f} times that error"
        for one in better
    ]
    return (
        f"A chart of {len(charted)} ways to multiply float32 matrices of {CHARTED} on an NVIDIA {run.gpu.name}: "
        f"TFLOP/s against relative error. {'; '.join(reached)}."
    )


def speeds(run: Precisions) -> str:
    """Every way, by problem: TFLOP/s and times as fast as PyTorch's float32, and errors over its error."""
    shapes = list(dict.fromkeys(one.shape for one in run.choices))
    ways = dict.fromkeys((one.way, one.library) for one in run.choices)
    found = {(one.way, one.shape): one for one in run.choices}
    heads = ("way", *(text for shape in shapes for text in (shape, "error")))
    rows = [(way, *(cell for shape in shapes for cell in _cells(found.get((way, shape))))) for way, _ in ways]
    libraries = ", ".join(dict.fromkeys(library for _, library in ways))
    text = (
        f"{libraries}; on an NVIDIA {run.gpu.name}, revision {run.environment.get('revision')}. Each cell: TFLOP/s, "
        "and in brackets how many times as fast as PyTorch's float32 (cuBLAS) in the same run; then the relative "
        "Frobenius error on normal inputs, over that of PyTorch's float32. Samples of all ways take turns, each after "
        "a quarter of a second of the same products."
    )
    return f"{text}\n\n{table(heads, rows, 'l' + 'rr' * len(shapes))}"


def hostile(cases: Sequence[HostileCase]) -> str:
    """Of each class of inputs and precision, the worst over k of the errors over those of PyTorch's float32."""
    ways = list(dict.fromkeys(case.way for case in cases))
    heads = ("inputs", *(f"{way.removeprefix(_OWN).strip()}: element, all" for way in ways))
    rows = []
    for inputs in dict.fromkeys(case.inputs for case in cases):
        of_class = [case for case in cases if case.inputs == inputs]
        rows.append((inputs, *(_worst([case for case in of_class if case.way == way]) for way in ways)))
    first, depths = cases[0], ", ".join(str(k) for k in dict.fromkeys(case.k for case in cases))
    text = (
        f"On hostile inputs, {first.m} rows, k of {depths}: the largest error of an element over |A| @ |B|, and the "
        "relative Frobenius error, each over that of PyTorch's float32 on the same inputs, the worst over all k."
    )
    return f"{text}\n\n{table(heads, rows, 'l' + 'r' * len(ways))}"


def _cells(one: Choice | None) -> tuple[str, str]:
    if one is None:
        return "", ""
    ours, baseline = round(one.tflops, 1), round(one.baseline_tflops, 1)
    return f"{ours:.1f} ({ours / baseline:.2f}x)", f"{one.error / one.baseline_error:.2f}"


def _worst(cases: Iterable[HostileCase]) -> str:
    """The two errors, as in '0.53, 0.22'."""
    cases = list(cases)
    if not cases:
        return ""
    return ", ".join(_over(cases, read) for read in (lambda errors: errors.element, lambda errors: errors.frobenius))


def _over(cases: Sequence[HostileCase], read: Callable[[Errors], float | None]) -> str:
    """The worst error over the baseline's; 'exact' where there is none, and the error where the baseline has none."""
    ratios = []
    for case in cases:
        ours, baseline = read(case.errors), read(case.baseline)
        if ours is None and baseline is not None:
            return "not finite"
        if ours and not baseline:
            return f"{ours:.0e}"
        if ours is not None and baseline is not None:
            ratios.append(ours / baseline if baseline else 0.0)
    if not ratios:
        return "neither is finite"
    return f"{max(ratios):.2f}" if any(ratios) else "exact"


def _color(one: Choice) -> str:
    library = one.library.split()[0]
    return _OWN_COLOR if library == _OWN else owner_color(_LIBRARIES.index(library))
