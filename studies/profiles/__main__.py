"""Counters of Nsight Compute: `python -m studies.profiles measure --out FILE`."""

from studies.profiles import measuring
from studies.runner import run

if __name__ == "__main__":
    raise SystemExit(run("profiles", measuring.__doc__, measuring.measurements, options=measuring.options))
