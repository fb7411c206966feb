"""What GPUs sustain in a row, next to what tensor cores make by themselves, from the records of runs."""

from pathlib import Path

from studies.markdown import table
from studies.sustained.measuring import SustainedRun

RECORDS = (Path("results/h200/sustained.json"), Path("results/h100/sustained.json"))
"""Runs of `python -m studies.sustained.measuring`, which there may be."""


def section() -> str:
    """A table for each GPU; empty where nothing was measured.

    Raises:
        RecordsError: a file is none of such records.
    """
    return "\n\n".join(markdown(SustainedRun.load(path)) for path in RECORDS if path.exists())


def markdown(run: SustainedRun) -> str:
    """A row for each work: TFLOP/s, the clock and the power of the GPU while it ran."""
    gpu, heads = run.environment["gpu"], ("in a row", "", "TFLOP/s", "clock, MHz", "power, W")
    rows = [
        (one.what, one.who, f"{one.tflops:,.0f}", *(_shown(value) for value in (one.sm_clock_mhz, one.power_w)))
        for one in run.works
    ]
    limit = f", whose power limit is {gpu['power_limit_w']:.0f} W" if gpu.get("power_limit_w") else ""
    return f"On one {gpu['name']}{limit}:\n\n{table(heads, rows, 'llrrr')}"


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
