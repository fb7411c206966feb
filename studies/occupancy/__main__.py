"""Occupancy against independent work: `python -m studies.occupancy measure --out FILE`."""

from studies.occupancy import measuring
from studies.runner import run

if __name__ == "__main__":
    raise SystemExit(run("occupancy", measuring.__doc__, measuring.measurements))
