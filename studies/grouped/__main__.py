"""Grouped products next to PyTorch's: `python -m studies.grouped measure --out FILE`."""

import sys

from studies.grouped import measuring
from studies.runner import run

if __name__ == "__main__":
    sys.exit(run("grouped", measuring.__doc__, measuring.measurements, options=measuring.options))
