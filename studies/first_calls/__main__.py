"""First calls of shapes, next to PyTorch's: `python -m studies.first_calls measure --out FILE`."""

from studies.first_calls import measuring
from studies.runner import run

if __name__ == "__main__":
    raise SystemExit(run("first_calls", measuring.__doc__, measuring.measurements))
