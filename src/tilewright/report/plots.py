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
    """Draw GFLOP/s against size: a line a rung, one for what matmul picks, and one a baseline.

    Args:
        records: of the rungs on square problems.
        best: of what matmul picks on square problems.
        published: by rung, what others measured at 4096; crosses in the rung's colour.
        path: the file to write; its suffix says in which format.
        title: the text above.
    """
    records = sorted(records, key=lambda record: record.m)
    sizes = sorted({record.m for record in records})
    rungs = sorted({(record.rung, record.kernel) for record in records})
    exact_first = sorted(records, key=lambda record: record.arithmetic != "float32")
    with mpl.rc_context({"svg.hashsalt": "tilewright", "font.size": 9}):
        figure = Figure(figsize=(9, 5.2), layout="constrained")
        axes = figure.subplots()
        colors = mpl.colormaps["viridis"].resampled(len(rungs) + 1)
        for index, (rung, name) in enumerate(rungs):
            points = [(record.m, record.gflops) for record in records if record.rung == rung]
            axes.plot(*zip(*points, strict=True), "o-", color=colors(index), markersize=3.5, label=f"{rung} {name}")
            if rung in published:
                axes.plot(_PUBLISHED_AT, published[rung], "x", color=colors(index), markersize=8, zorder=3)
        points = sorted((record.m, record.gflops) for record in best)
        axes.plot(*zip(*points, strict=True), "o-", color="crimson", linewidth=2, markersize=4, label="best, as picked")
        for style, kind in zip(
            _BASELINE_STYLES, dict.fromkeys(record.arithmetic for record in exact_first), strict=False
        ):
            baseline = {r.m: r.baseline.gflops for r in records if r.baseline and r.arithmetic == kind}
            if baseline:
                label = "cuBLAS" if kind == "float32" else f"cuBLAS {kind}"
                axes.plot(list(baseline), list(baseline.values()), style, linewidth=1.6, label=label)
        axes.set(xscale="log", yscale="log", xlabel="m = n = k", ylabel="GFLOP/s", title=title)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.plot([], [], "x", color="grey", markersize=8, label="worklog, GH200")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
