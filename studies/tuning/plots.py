"""Plots of tuning journals, as SVG, with matplotlib (the `docs` extra)."""

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from tilewright.core.files import write_whole
from tilewright.report.figures.svg import FAINT, INK, ON_DARK, ON_LIGHT, PAPER, SOFT, dark_style
from tilewright.tuning.journal import Trial

Curve = Sequence[tuple[float, float]]
"""Seconds of searching, and the fastest config's GFLOP/s by then."""

_STYLE: Any = {
    "svg.hashsalt": "tilewright",
    "font.size": 9,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "grid.color": FAINT,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}
"""Colours that dark pages replace."""


def landscape(trials: Sequence[Trial], across: str, down: str) -> tuple[list[int], list[int], list[list[float | None]]]:
    """The best speed by two parameters, whatever the others are.

    Returns:
        the values across, the values down, and for each of these a row of GFLOP/s; None where nothing was measured.
    """
    best: dict[tuple[int, int], float] = {}
    for trial in trials:
        if trial.gflops:
            place = trial.config[across], trial.config[down]
            best[place] = max(best.get(place, 0.0), trial.gflops)
    columns, rows = (sorted({place[axis] for place in best}) for axis in (0, 1))
    return columns, rows, [[best.get((column, row)) for column in columns] for row in rows]


def plot_landscape(trials: Sequence[Trial], pairs: Sequence[tuple[str, str]], path: Path, title: str) -> None:
    """Draw a map of the best speed for each pair of parameters, all on one scale of colours."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.5 * len(pairs), 3.9), layout="constrained")
        panels = figure.subplots(1, len(pairs), squeeze=False)[0]
        speeds = [trial.gflops for trial in trials if trial.gflops]
        for axes, (across, down) in zip(panels, pairs, strict=True):
            columns, rows, cells = landscape(trials, across, down)
            grid = np.array([[np.nan if cell is None else cell for cell in row] for row in cells])
            image = axes.imshow(grid, origin="lower", cmap="viridis", vmin=min(speeds), vmax=max(speeds), aspect="auto")
            axes.set(xlabel=across, ylabel=down)
            axes.set_xticks(range(len(columns)), list(map(str, columns)))
            axes.set_yticks(range(len(rows)), list(map(str, rows)))
            for row, column in np.argwhere(~np.isnan(grid)):
                dark = grid[row, column] < (min(speeds) + max(speeds)) / 2
                ink = ON_DARK if dark else ON_LIGHT
                axes.text(column, row, f"{grid[row, column]:,.0f}", ha="center", va="center", color=ink)
        figure.suptitle(title)
        figure.colorbar(image, ax=list(panels), label="GFLOP/s of the best config")
        _save(figure, path)


def plot_search(curves: Mapping[str, Curve], path: Path, title: str) -> None:
    """Draw the speed of the best config so far against the seconds of searching, a line a search."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axes = figure.subplots()
        end = max(curve[-1][0] for curve in curves.values())
        for label, curve in curves.items():
            seconds, speeds = zip(*curve, (end, curve[-1][1]), strict=True)
            axes.step(seconds, speeds, where="post", label=label)
        axes.axvline(end / 10, color=SOFT, linestyle=":", label="a tenth of the time")
        axes.set(xscale="log", xlabel="seconds of searching", ylabel="GFLOP/s of the best so far", title=title)
        axes.grid()
        axes.legend(loc="lower right", frameon=False)
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    drawn = StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    style = f"<style>{dark_style(inline=True)}</style>"
    write_whole(path, drawn.getvalue().replace("</style>", f"</style>\n  {style}", 1).encode())
