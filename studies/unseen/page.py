"""Section and chart of docs/results.md on shapes that no table has: drawn, judged once, never tuned for."""

import json
import lzma
import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from studies import charts
from studies.results import path
from studies.templates import block
from studies.unseen import heuristics
from studies.unseen.drawing import EVEN, UNEVEN
from studies.unseen.picks import ROWS

CHART = Path("docs/unseen.svg")
_LOW, _HIGH, _BINS = 0.5, 4.0, 30
"""Speedups of the chart; what is outside counts at its ends."""
_CHARTED = "bfloat16", "float32"


def judged() -> list[dict[str, Any]]:
    """Lines of the record: shapes with the times of what is picked, of what was picked before, and of torch.mm."""
    return [json.loads(line) for line in lzma.decompress(path("judged").read_bytes()).decode().splitlines()]


def section(lines: Sequence[dict[str, Any]]) -> str:
    """How good picks are, by element type and kind of shape."""
    rows = []
    for row in ROWS:
        for kind in (EVEN, UNEVEN):
            some = [one for one in lines if (one["row"], one["kind"]) == (row, kind)]
            ratios = sorted(one["torch_us"] / one["pick_us"] for one in some)
            before = [one["before_us"] / one["pick_us"] for one in some if one["before_us"]]
            rows.append(
                {
                    "row": row,
                    "kind": kind,
                    "shapes": len(some),
                    "mean": statistics.geometric_mean(ratios),
                    "low": ratios[len(ratios) // 20],
                    "least": ratios[0],
                    "before": statistics.geometric_mean(before) if before else None,
                    "seeds": sorted({one["seed"] for one in some}),
                    "revisions": sorted({one["revision"] for one in some}),
                }
            )
    return block("unseen/table.md.j2", "table", rows=rows, chart=CHART.name)


def scoreboard(lines: Sequence[dict[str, Any]]) -> str:
    """First picks of nvMatmulHeuristics next to ours, by its settings and by kind of shape."""
    return block("unseen/table.md.j2", "scoreboard", head=lines[0], count=len(lines) - 1, rows=heuristics.rows(lines))


def chart(lines: Sequence[dict[str, Any]]) -> str:
    """Shapes by the speedup over torch.mm, as SVG."""
    edges = [_LOW * (_HIGH / _LOW) ** (i / _BINS) for i in range(_BINS + 1)]
    panels = []
    for row in _CHARTED:
        ratios = [one["torch_us"] / one["pick_us"] for one in lines if one["row"] == row]
        clipped = [min(max(one, edges[0]), math.nextafter(edges[-1], 0)) for one in ratios]
        counts = [sum(low <= one < high for one in clipped) for low, high in pairwise(edges)]
        faster = sum(one >= 1 for one in ratios)
        panels.append((f"{row}: {len(ratios)} random shapes, {faster} of them at least as fast", counts))
    return charts.histograms(panels, edges, "torch.mm's time over ours", "shapes")
