"""Sustained speeds of a GPU: `python -m studies.sustained measure --out FILE`."""

from studies.runner import run
from studies.sustained import measuring

if __name__ == "__main__":
    raise SystemExit(run("sustained", measuring.__doc__, measuring.measurements, options=measuring.options))
