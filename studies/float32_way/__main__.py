"""Float32 products of which parts cannot represent all: `python -m studies.float32_way measure --out FILE`."""

from studies.float32_way import measuring
from studies.runner import run

if __name__ == "__main__":
    raise SystemExit(run("float32_way", measuring.__doc__, measuring.measurements))
