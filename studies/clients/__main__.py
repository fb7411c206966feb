"""Runs programs with each way to multiply: `python -m studies.clients measure --out FILE`."""

from studies.clients import measuring
from studies.runner import run

if __name__ == "__main__":
    raise SystemExit(run("clients", measuring.__doc__, measuring.measurements))
