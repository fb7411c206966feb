"""Runs programs with each way to multiply: `python -m studies.clients measure --out FILE`."""

import sys

from studies.clients import measuring
from studies.runner import run

if __name__ == "__main__":
    sys.exit(run("clients", measuring.__doc__, measuring.measurements))
