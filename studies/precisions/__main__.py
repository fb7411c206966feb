"""Compares what float32 products may be computed in: `python -m studies.precisions measure --out FILE`."""

from studies.precisions import measuring
from studies.runner import run

if __name__ == "__main__":
    raise SystemExit(run("precisions", measuring.__doc__, measuring.measurements, options=measuring.options))
