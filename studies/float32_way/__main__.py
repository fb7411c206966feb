"""Float32 products of which parts cannot represent all: `python -m studies.float32_way measure --out FILE`."""

import sys

from studies.float32_way import measuring
from studies.runner import run

if __name__ == "__main__":
    sys.exit(run("float32_way", measuring.__doc__, measuring.measurements))
