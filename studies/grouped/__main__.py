"""Grouped products next to PyTorch's: `python -m studies.grouped measure --out FILE`."""

from studies.grouped import measuring
from studies.runner import run

if __name__ == "__main__":
    raise SystemExit(run("grouped", measuring.__doc__, measuring.measurements, options=measuring.options))
