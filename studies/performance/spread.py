"""How far cuBLAS's own speed spreads from run to run: what a ratio of two runs would be wrong by."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from studies.templates import block
from tilewright.bench.records import Run

FEWEST_RUNS = 3
"""Of a problem, for it to be listed."""

Speeds = Mapping[tuple[str, str], Sequence[float]]
"""Of cuBLAS, in GFLOP/s, one a run: by sizes and what it computed in."""


def speeds(runs: Iterable[Run]) -> Speeds:
    """cuBLAS's speeds in each run, on row-major matrices."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        of_run = {}
        for record in run.records:
            if record.baseline and record.engine == "cuda" and record.layout == "NN":
                results = "" if record.out_dtype == "float32" else f", results {record.out_dtype}"
                of_run[record.shape, f"{record.baseline_arithmetic}{results}"] = record.baseline.gflops
        for problem, gflops in of_run.items():
            found[problem].append(gflops)
    return found


def markdown(runs: Sequence[Run]) -> str:
    """A table of the problems that were measured in several runs, those with the most runs first."""
    found = sorted(speeds(runs).items(), key=lambda one: -len(one[1]))
    having = [run for run in runs if speeds([run])]
    listed = [one for one in found if len(one[1]) >= FEWEST_RUNS]
    return block("performance/page.md.j2", "spread", spread=listed, runs=having)
