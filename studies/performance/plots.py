"""The plots of the ladder: its records as curves of speed against size."""

from collections.abc import Mapping, Sequence

from studies.figures.ladder import Curve, ladder_panel
from tilewright.bench.records import Record
from tilewright.report.figures.svg import Drawing, paragraph, stack

_PUBLISHED_AT = 4096
"""The size that the sources measured at."""
_PANEL_GAP = 26.0
_WORDS_WIDTH, _WORDS_SIZE = 620.0, 17.0


def float32_ladder(records: Sequence[Record], best: Sequence[Record], published: Mapping[int, float]) -> Drawing:
    """Products of float32 factors that keep float32's exactness, or nearly: every rung, what is picked, and cuBLAS.

    Args:
        records: of the rungs on square problems, of any type.
        best: of what matmul picks on square problems.
        published: by rung, what others measured at 4096: crosses in the rung's colour.
    """
    chosen = [record for record in records if _of_float32(record)]
    picked = Curve("what matmul picks", _points(best), is_pick=True)
    words = "Crosses: notes that repeat the worklog on a GH200." if published else ""
    return _panels([*_rungs(chosen, published), picked, *_baselines(chosen)], "float32", words)


def tensor_core_ladder(records: Sequence[Record]) -> Drawing:
    """Products of factors of 16 bits, or rounded to TF32: every rung, and cuBLAS in each type."""
    chosen = [record for record in records if not _of_float32(record)]
    return _panels([*_rungs(chosen, {}), *_baselines(chosen)], "TF32, float16 and bfloat16", "")


def _panels(curves: Sequence[Curve], title: str, words: str) -> Drawing:
    if not any(curve.points for curve in curves):
        return Drawing()
    curves = [curve for curve in curves if curve.points]
    panels = [ladder_panel(curves, f"{title}, {axis} axis", axis == "linear") for axis in ("logarithmic", "linear")]
    return stack([*panels, paragraph(words, _WORDS_WIDTH, _WORDS_SIZE)] if words else panels, _PANEL_GAP)


def _of_float32(record: Record) -> bool:
    return record.dtype == "float32" and record.precision != "tf32"


def _rungs(records: Sequence[Record], published: Mapping[int, float]) -> list[Curve]:
    kinds = sorted({(record.rung, record.kernel, record.arithmetic) for record in records})
    curves = []
    for rung, name, kind in kinds:
        own = [record for record in records if (record.kernel, record.arithmetic) == (name, kind)]
        theirs = (_PUBLISHED_AT, published[rung]) if rung in published else None
        curves.append(Curve(f"{rung} {name}{_named(kind)}", _points(own), published=theirs))
    return curves


def _baselines(records: Sequence[Record]) -> list[Curve]:
    """cuBLAS, a curve for each type; of a size, its speed in the first run that has it."""
    kinds = sorted({record.baseline_arithmetic for record in records if record.baseline})
    curves = []
    for kind in kinds:
        of_size: dict[int, float] = {}
        for record in records:
            if record.baseline and record.baseline_arithmetic == kind:
                of_size.setdefault(record.m, record.baseline.gflops)
        curves.append(Curve(f"cuBLAS{_named(kind)}", sorted(of_size.items()), is_baseline=True))
    return curves


def _points(records: Sequence[Record]) -> list[tuple[int, float]]:
    return sorted((record.m, record.gflops) for record in records)


def _named(kind: str) -> str:
    """An arithmetic in brackets; nothing for float32."""
    return "" if kind == "float32" else f" ({kind})"
