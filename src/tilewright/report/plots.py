"""Plots of measured records, with matplotlib (the `docs` extra)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from tilewright.bench.records import Record

_PUBLISHED_AT = 4096
"""The size that the sources measured at."""

_BASELINE_STYLES = ("k--", "k:", "k-.", "k-")


def plot_ladder(
    records: Sequence[Record], best: Sequence[Record], published: Mapping[int, float], path: Path, title: str
) -> None:
    """Draw GFLOP/s against size: a line a rung and arithmetic, one for what matmul picks, and one a baseline.

    Args:
        records: of the rungs on square problems.
        best: of what matmul picks on square problems.
        published: by rung, what others measured at 4096; crosses in the rung's colour.
        path: the file to write; its suffix says in which format.
        title: the text above.
    """
    records = sorted(records, key=lambda record: record.m)
    sizes = sorted({record.m for record in records})
    rungs = sorted({(record.rung, record.kernel, record.arithmetic) for record in records})
    kinds = sorted({record.baseline_arithmetic for record in records}, key=lambda kind: (kind != "float32", kind))
    with mpl.rc_context({"svg.hashsalt": "tilewright", "font.size": 9}):
        figure = Figure(figsize=(10, 6.8), layout="constrained")
        axes = figure.subplots()
        colors = mpl.colormaps["viridis"].resampled(len(rungs) + 1)
        for index, (rung, name, kind) in enumerate(rungs):
            points = [(one.m, one.gflops) for one in records if (one.kernel, one.arithmetic) == (name, kind)]
            label = f"{rung} {name}{_named(kind)}"
            axes.plot(*zip(*points, strict=True), "o-", color=colors(index), markersize=3.5, label=label)
            if rung in published:
                axes.plot(_PUBLISHED_AT, published[rung], "x", color=colors(index), markersize=8, zorder=3)
        points = sorted((record.m, record.gflops) for record in best)
        axes.plot(*zip(*points, strict=True), "o-", color="crimson", linewidth=2, markersize=4, label="best, as picked")
        if on_tensor_cores := [(record.m, record.gflops) for record in best if record.precision]:
            axes.plot(*zip(*on_tensor_cores, strict=True), "D", color="crimson", label="the same on tensor cores")
        for style, kind in zip(_BASELINE_STYLES, kinds, strict=False):
            baseline: dict[int, float] = {}
            for record in records:
                if record.baseline and record.baseline_arithmetic == kind:
                    baseline.setdefault(record.m, record.baseline.gflops)  # of the first run that has the size
            if baseline:
                axes.plot(list(baseline), list(baseline.values()), style, linewidth=1.6, label=f"cuBLAS{_named(kind)}")
        axes.set(xscale="log", yscale="log", xlabel="m = n = k", ylabel="GFLOP/s", title=title)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.plot([], [], "x", color="grey", markersize=8, label="worklog, GH200")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True, frameon=False, fontsize=8)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _named(kind: str) -> str:
    """An arithmetic in brackets; nothing for float32."""
    return "" if kind == "float32" else f" ({kind})"
