"""Counters of Nsight Compute: `python -m studies.profiles measure --out FILE`."""

import sys

from studies.profiles import measuring
from studies.runner import run

if __name__ == "__main__":
    sys.exit(run("profiles", measuring.__doc__, measuring.measurements, options=measuring.options))
