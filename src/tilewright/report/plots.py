"""Plots of measured records, with matplotlib (the `docs` extra)."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from tilewright.bench.records import Record


def plot_ladder(records: Sequence[Record], path: Path, title: str) -> None:
    """Draw GFLOP/s against size, a line a rung and one for the baseline, from records of square problems."""
    records = sorted(records, key=lambda record: record.m)
    sizes = sorted({record.m for record in records})
    rungs = sorted({(record.rung, record.kernel) for record in records})
    with mpl.rc_context({"svg.hashsalt": "tilewright", "font.size": 9}):
        figure = Figure(figsize=(9, 5.2), layout="constrained")
        axes = figure.subplots()
        colors = mpl.colormaps["viridis"].resampled(len(rungs) + 1)
        for index, (rung, name) in enumerate(rungs):
            points = [(record.m, record.gflops) for record in records if record.rung == rung]
            axes.plot(*zip(*points, strict=True), "o-", color=colors(index), markersize=3.5, label=f"{rung} {name}")
        baseline = {record.m: record.baseline.gflops for record in records if record.baseline}
        if baseline:
            axes.plot(list(baseline), list(baseline.values()), "k--", linewidth=1.6, label="cuBLAS")
        axes.set(xscale="log", yscale="log", xlabel="m = n = k", ylabel="GFLOP/s", title=title)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), reverse=True, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
